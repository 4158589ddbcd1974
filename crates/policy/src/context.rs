// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The facts of one launch that patterns refer to.

use std::path::PathBuf;

/// What `~`, `.` and `${…}` stand for. The caller gathers it; this crate reads nothing.
///
/// All paths are absolute and without links in them: a link in `cwd` would make `..` mean
/// something else to the kernel than it means here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The home directory: `~`, `${home}`.
    pub home: PathBuf,
    /// The working directory of the launch: `.`, `${cwd}`, and what relative patterns start from.
    pub cwd: PathBuf,
    /// The directory of the project file: `${project}`, and what its relative patterns start from.
    pub project: Option<PathBuf>,
    /// The user's name: `${user}`.
    pub user: String,
    /// The user's number: `${uid}`.
    pub uid: u32,
    /// `$XDG_RUNTIME_DIR`: `${runtime}`.
    pub runtime_dir: Option<PathBuf>,
}
