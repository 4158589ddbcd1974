// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the policy language: precedence, names, networks, and properties of any policy.
//!
//! One test program for all files: otherwise each file would be linked separately.
#![forbid(unsafe_code)]

mod fuzz_parse;
mod names;
mod network;
mod precedence;
mod properties;
