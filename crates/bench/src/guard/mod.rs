// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What it costs that a daemon is asked before a file is opened or executed.
//!
//! [`bed`] is a file system of its own for each contender, filled alike, so that a daemon is asked about one of them and about
//! nothing else on the host; [`elf`] its programs. [`policy`] is what the daemons are told, [`daemon`] how they are started, pinned
//! and looked at, [`fapolicyd`] the one that gets a private view of the host. [`load`] is what runs on a bed, [`trace`] what others
//! say of that, [`race`] all contenders through all rounds. [`scenarios`] are those of fapolicyd's performance document,
//! [`curves`] what rules and trusted files add, [`home`] and [`days`] what users do
//! all day, [`goals`] what is to be reached.

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

/// What ends the measuring of guards.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(
        "guards are measured by root only: they ask the kernel about all that is opened on a file system"
    )]
    NotRoot,
    #[error("the programs that tell the time are written for x86_64 only so far")]
    Architecture,
    #[error("can't have mounts of its own")]
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
