// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The language: precedence, names, networks, and properties that hold of any policy.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
#![forbid(unsafe_code)]

mod fuzz_parse;
mod names;
mod network;
mod precedence;
mod properties;
