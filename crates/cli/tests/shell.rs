// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade shell` with common shells and programs, and checks what its screen shows.
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
