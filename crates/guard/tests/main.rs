// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules, trust and kinds of files, as users write and as fapolicyd reads them.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
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
