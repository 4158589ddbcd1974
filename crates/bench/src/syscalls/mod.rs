// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what a system call costs: native, behind filters, answered from outside, and under other tools.
//!
//! [`caller`] is the program that runs inside and measures itself; [`storm`] is its work in many threads. [`tables`] lists
//! the calls, their callers and the targets. [`stage`] builds the command lines, [`race`] runs all of them against each
//! other, and [`scenarios`] makes the tables. The directory `programs` has C programs that show the cost of single
//! mechanisms.

pub(crate) mod caller;
pub(crate) mod race;
pub(crate) mod scenarios;
mod stage;
mod storm;
mod tables;

use std::io;
use std::path::PathBuf;

use crate::launch::LaunchError;

/// Why a run stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyscallsError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("can't find this program")]
    Own { source: io::Error },
    #[error("can't write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}
