// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade shell` with the shells and programs that people have, on a screen that is looked at.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

pub(crate) mod screen;

mod context;
mod death;
mod editing;
mod hostile;
mod jobs;
mod programs;
mod remote;
mod status;
