// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of asking a daemon before a file is opened or executed.
//!
//! [`bed`] is a file system for each contender, with equal content, so that a daemon is asked about that and about nothing
//! else on the host. [`elf`] makes its programs. [`policy`] is the daemons' policy. [`daemon`] starts, pins and observes
//! them; [`fapolicyd`] gives that daemon a private view of the host. [`load`] is the program that runs on a bed, [`trace`] is
//! what tracers report about it, and [`race`] runs all contenders through all rounds. [`scenarios`] are those of fapolicyd's
//! performance document, [`curves`] measures what rules and trusted files add, [`home`] and [`days`] measure users' daily
//! work, and [`goals`] has the targets.

pub(crate) mod bed;
pub(crate) mod curves;
pub(crate) mod daemon;
pub(crate) mod days;
pub(crate) mod elf;
pub(crate) mod fapolicyd;
pub(crate) mod goals;
pub(crate) mod home;
pub(crate) mod load;
pub(crate) mod policy;
pub(crate) mod race;
pub(crate) mod scenarios;
pub(crate) mod trace;

use std::io;
use std::path::PathBuf;

use crate::launch::LaunchError;

/// Why measuring guards stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("guards are measured by root only: the kernel asks them about each open on a file system")]
    NotRoot,
    #[error("guards are measured on x86_64 only: the timing programs are written for it")]
    Architecture,
    #[error("can't make a private mount namespace")]
    Mounts { source: io::Error },
    #[error("can't {what} {}", path.display())]
    Prepare { what: &'static str, path: PathBuf, source: io::Error },
    #[error("`{command}`: {said}")]
    Tool { command: String, said: String },
}

impl GuardError {
    /// For `map_err`.
    pub(crate) fn prepare(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Prepare { what, path, source }
    }
}
