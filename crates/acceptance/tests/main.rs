// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The acceptance tests, and the checks of the dependencies between crates.
//!
//! All of them are one program: otherwise cargo would link each file here by itself.
#![forbid(unsafe_code)]

mod architecture;
mod dependencies;
mod escape;
mod extending;
mod house_script;
mod tracked;
mod vocabulary;
