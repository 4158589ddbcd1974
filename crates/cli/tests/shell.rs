// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade shell` with the shells and programs that people have, on a screen that is looked at.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

#[path = "shell/screen.rs"]
mod screen;

#[path = "shell/context.rs"]
mod context;
#[path = "shell/death.rs"]
mod death;
#[path = "shell/editing.rs"]
mod editing;
#[path = "shell/hostile.rs"]
mod hostile;
#[path = "shell/jobs.rs"]
mod jobs;
#[path = "shell/programs.rs"]
mod programs;
#[path = "shell/remote.rs"]
mod remote;
#[path = "shell/status.rs"]
mod status;
