// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the parser of arguments: rule by rule, with any bytes, and beside bubblewrap itself.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

mod differential;
mod host;
mod lists;
mod random;
mod rules;
