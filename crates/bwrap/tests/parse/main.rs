// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the parser of arguments: rule by rule, with any bytes, and beside bubblewrap itself.

mod differential;
mod host;
mod lists;
mod random;
mod rules;
