// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The speed gate: compares counts with a committed baseline, and times with an earlier commit.
//!
//! [`launch`] counts the system calls and the instructions of a launch. [`keys`] counts what a key allocates in the shell.
//! [`baseline`] is the baseline for both. [`earlier`] builds another commit, and [`pairs`] launches both in turns.

pub(crate) mod baseline;
pub(crate) mod earlier;
pub(crate) mod keys;
pub(crate) mod launch;
pub(crate) mod pairs;

use std::io;
use std::path::PathBuf;

use crate::launch::LaunchError;

/// Why a gate stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GateError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("no palisade beside this program or on PATH, and none named by --binary PATH or PALISADE_BIN")]
    NoPalisade,
    #[error("can't prepare {}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
    #[error("can't read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not a baseline", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("{} can't be kept as a baseline: {source}", path.display())]
    Keep { path: PathBuf, source: Box<crate::output::OutputError> },
    #[error("can't trace {}: another process traces it, or kernel.yama.ptrace_scope forbids tracing", path.display())]
    Count { path: PathBuf, source: rustix::io::Errno },
    #[error("{} does not do its work: {why}", path.display())]
    Fails { path: PathBuf, why: String },
    #[error("{} has no counts of {host}; hint: palisade-bench gate --renew", path.display())]
    NoBaseline { path: PathBuf, host: String },
    #[error(
        "{} has instructions of {known}, but this palisade has the profile {profile}: they can't be compared; \
         hint: palisade-bench gate --renew, or --profile NAME if the name is wrong",
        path.display()
    )]
    OtherProfile { path: PathBuf, profile: String, known: String },
    #[error("can't run {program}")]
    Run { program: String, source: io::Error },
    #[error("`{command}` failed: {said}")]
    Failed { command: String, said: String },
    #[error(transparent)]
    Shell(#[from] crate::shell::ShellError),
}
