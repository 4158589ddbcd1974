// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a system call costs: as it is, behind filters, answered from outside, under other tools.
//!
//! [`caller`] is what runs inside and measures itself, [`storm`] what it does in many threads; [`tables`] which calls are made, by whom, and what is to be
//! reached; [`stage`] how that is called, [`race`] how all are run against each other, [`scenarios`] what came of it. In
//! `programs` is what shows the cost of mechanisms by themselves, in C.

pub(crate) mod caller;
pub(crate) mod race;
pub(crate) mod scenarios;
mod stage;
mod storm;
mod tables;

use std::io;
use std::path::PathBuf;

use crate::launch::LaunchError;

/// What ends a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyscallsError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("can't find this program")]
    Own { source: io::Error },
    #[error("can't write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}
