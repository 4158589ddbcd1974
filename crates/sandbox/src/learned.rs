// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what a command used to the least it needs.
//!
//! - [`AccessTrace`]: what was used, as the broker told it, path by path.
//! - [`UsageSummary`]: what has to be granted for it, what was wanted and isn't there, what was written and
//!   is lost, which addresses were tried.
//! - [`Givers`]: which features would give what was wanted.
//! - [`Comparison`]: what another plan says of the same uses.
//! - [`hosts`], [`calls`]: whom it talked to, which system calls it made; [`recorder`]: those of any launch;
//!   [`kernel`]: those that the kernel puts down.
//! - [`profile`]: from an account to a profile; [`check`]: that profile decided against the run, with `precedence`
//!   where rules for hosts came from several layers.
//! - [`second`]: a run under the profile beside the first one.
//!
//! Pure, but for the store of [`calls`], [`kernel`] and [`Givers`]: what must be known of the host's files is asked of a
//! [`Host`], which [`Disk`] is. Nothing here
//! grants: a trace holds what the walls let through, and an account of it allows no more than the launch did, except
//! that uses of many paths in one tree are brought together in the directory that holds them.

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

/// What an account asks about files of the host.
pub trait Host {
    /// Whether something is there.
    fn exists(&self, path: &Path) -> bool;
    /// Whether it is a program or a library: what can be mapped to be executed.
    fn is_program(&self, path: &Path) -> bool;
    /// The program that a script's first line names.
    fn interpreter(&self, path: &Path) -> Option<PathBuf>;
}
