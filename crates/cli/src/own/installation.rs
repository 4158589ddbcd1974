// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An installation: what made it, and the commands that change it.

use palisade_host::environment::Environment;
use palisade_text::quoted;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The page with the files of the newest version.
pub(super) const RELEASE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/releases/latest");
/// The name of the wheel on PyPI, and of the package on npm. Others have the name `palisade` there.
pub(super) const PUBLISHED: &str = "palisade-sandbox";

/// The program that runs.
pub(super) struct Program<'a> {
    /// Its file, without links.
    pub(super) path: &'a Path,
    pub(super) environment: &'a Environment,
}

impl Program<'_> {
    pub(super) fn home(&self) -> Option<&Path> {
        self.environment.absolute("HOME")
    }
}

/// How a program was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Installation {
    /// What installed it, in one word.
    #[serde(rename = "installed_by")]
    pub(super) by: &'static str,
    /// The same for people, with the place.
    #[serde(rename = "installation")]
    pub(super) words: String,
    /// The commands to type, one after the other. What follows `   #` explains the command.
    pub(super) update: Vec<String>,
    pub(super) remove: Vec<String>,
}

impl Installation {
    pub(super) fn new(by: &'static str, words: String, update: String, remove: String) -> Self {
        Self { by, words, update: vec![update], remove: vec![remove] }
    }
}

/// A program that no record names.
pub(super) fn copied(program: &Program<'_>) -> Installation {
    let directory = program.path.parent().unwrap_or(Path::new("/"));
    let path = word(program.path);
    let update = format!("install -m 755 FILE {path}   # FILE: the program of the newest archive, {RELEASE}");
    Installation::new(
        "copy",
        "as a single file; no package manager knows it".to_owned(),
        with_rights(directory, update),
        with_rights(directory, format!("rm {path}")),
    )
}

/// A command that writes in this directory. `sudo` is before it if the user may not.
pub(super) fn with_rights(directory: &Path, command: String) -> String {
    let may_write = rustix::process::geteuid().is_root()
        || accessat(CWD, directory, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    if may_write { command } else { format!("sudo {command}") }
}

/// A path as a word of a command.
pub(super) fn word(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// The directory that is `levels` above the program.
pub(super) fn above<'p>(program: &Program<'p>, levels: usize) -> Option<&'p Path> {
    program.path.ancestors().nth(levels)
}

/// Whether one of the two names is a path to the other's file.
pub(super) fn is_same(one: PathBuf, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| one == other)
}
