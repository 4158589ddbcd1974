// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measuring suite.
#![forbid(unsafe_code)]
fn main() {}
