// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the accesses of a command to the fewest grants that it needs.
//!
//! - [`AccessTrace`]: what was used, path by path, as the broker reported it.
//! - [`UsageSummary`]: what must be granted for these uses, what was wanted and isn't visible, what was written and is
//!   lost, and which addresses were tried.
//! - [`Givers`]: the features that grant what was wanted.
//! - [`Comparison`]: how another plan decides the same uses.
//! - [`hosts`], [`calls`]: the hosts that the command connected to, and its system calls; [`recorder`]: the system
//!   calls of any launch; [`kernel`]: those that the kernel records.
//! - [`profile`]: from a usage summary to a profile; [`check`]: compares that profile with the run, with `precedence`
//!   where rules for hosts came from several layers.
//! - [`second`]: compares a run under the profile with the first run.
//!
//! Pure, except for the store of [`calls`], [`kernel`] and [`Givers`]: facts about the host's files come from a [`Host`], such
//! as [`Disk`]. Nothing here grants more than the launch did: a trace holds the uses that the walls allowed, and its summary
//! allows no more. The only exception: uses of many paths in one tree are replaced by the directory that holds them.

pub mod calls;
pub mod check;
mod compare;
mod disk;
mod givers;
mod grants;
pub mod hosts;
pub mod kernel;
mod precedence;
pub mod profile;
pub mod recorder;
pub mod second;
mod trace;
mod usage;

pub use compare::{Change, Comparison};
pub use disk::Disk;
pub use givers::Givers;
pub use grants::{Grants, Rights};
pub use trace::{AccessTrace, Programs};
pub use usage::{Lost, UsageSummary, Wanted};

use crate::plan::Plan;
use palisade_policy::Policy;
use std::path::{Path, PathBuf};

/// A policy and the plan that was made from it.
#[derive(Debug)]
pub struct Under {
    /// The policy.
    pub policy: Policy,
    /// The plan.
    pub plan: Plan<'static>,
}

/// What a summary asks about files of the host.
pub trait Host {
    /// Whether the path exists.
    fn exists(&self, path: &Path) -> bool;
    /// Whether the file is a program or a library, so that it can be mapped for execution.
    fn is_program(&self, path: &Path) -> bool;
    /// The program that a script's first line names.
    fn interpreter(&self, path: &Path) -> Option<PathBuf>;
}
