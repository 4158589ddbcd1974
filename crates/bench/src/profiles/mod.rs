// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of opening an application by its profile.
//!
//! [`home`] is where the measured profiles have their files and kept plans. [`race`] measures with and without a kept plan.
//! [`closure`] finds the files for `ldd`, [`bed`] is a profile with all of that, and [`goals`] has the targets. [`curves`]
//! measures the cost of more files and profiles, and [`windows`] the time to an application's first window.

pub(crate) mod bed;
pub(crate) mod closure;
pub(crate) mod curves;
pub(crate) mod goals;
pub(crate) mod home;
pub(crate) mod race;
pub(crate) mod windows;

use std::io;
use std::path::PathBuf;

use crate::launch::LaunchError;
use crate::workload::Failure;

/// Why measuring profiles stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfilesError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("there is no palisade to measure: name one with --binary PATH")]
    NoPalisade,
    #[error("{program} is not installed")]
    Missing { program: &'static str },
    #[error("none of the usual profiles' programs is installed: name a profile")]
    NoProfile,
    #[error("can't prepare {}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
}

/// Why a profile can't be measured: one of its first runs failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unready {
    #[error(transparent)]
    Profiles(#[from] ProfilesError),
    #[error("`{command}`: {failure}")]
    Failed { command: String, failure: Failure },
}

impl From<LaunchError> for Unready {
    fn from(error: LaunchError) -> Self {
        Self::Profiles(error.into())
    }
}
