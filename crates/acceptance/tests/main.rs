// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The attacks in pairs, and the walls between crates.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
#![forbid(unsafe_code)]

mod architecture;
mod dependencies;
mod escape;
mod vocabulary;
