// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of rules, trust and kinds of files, as users write them and as fapolicyd reads them.
//!
//! They are one program, because otherwise each file here would be linked separately.
#![forbid(unsafe_code)]

mod decisions;
mod fapolicyd;
mod fixtures;
mod grammar;
mod kinds;
mod policies;
mod sample;
mod side_by_side;
mod subject;
mod support;
