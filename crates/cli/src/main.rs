// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line.
#![forbid(unsafe_code)]
fn main() {}
