// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the programs, sourced scripts and paths that a shell script names, in its text; nothing of it is executed.
//!
//! `palisade-shell-syntax` parses the text. Words are followed as far as they are constant: literal text, and
//! variables that are assigned such text anywhere in the script, whichever assignment applies at that point. Values
//! that only a run would show aren't included.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::file::{self, FileError, Links};

#[cfg(test)]
mod comparison;
mod naming;
#[cfg(test)]
mod oracle;
mod programs;
#[cfg(test)]
mod tests;

/// Longer scripts aren't read.
const CAP: usize = 1 << 20;

/// The names in a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// Commands, by name or path, except the script's own functions and commands that are built into every shell.
    pub commands: BTreeSet<String>,
    /// Scripts that it sources.
    pub sourced: BTreeSet<PathBuf>,
    /// Absolute paths in its words.
    pub paths: BTreeSet<PathBuf>,
}

/// Why the names in a script can't be determined.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It can't be read, or is too long.
    #[error(transparent)]
    Read(#[from] FileError),
    /// It isn't valid shell, or too deep or long to be parsed.
    #[error("can't parse {path}: {reason}")]
    Parse {
        /// The script.
        path: PathBuf,
        /// Where and what.
        reason: String,
    },
}

/// Reads a script.
///
/// # Errors
/// [`ScriptError`].
pub fn read(path: &Path) -> Result<Script, ScriptError> {
    let bytes = file::read(path, CAP, Links::Follow)?;
    understood(&String::from_utf8_lossy(&bytes), path)
}

/// Reads a line of shell, as `sh -c` gets it.
///
/// # Errors
/// [`ScriptError`].
pub fn read_line(line: &str) -> Result<Script, ScriptError> {
    understood(line, Path::new("sh"))
}

fn understood(text: &str, path: &Path) -> Result<Script, ScriptError> {
    let own = path.to_string_lossy();
    naming::named(text, &own).map_err(|reason| ScriptError::Parse { path: path.to_owned(), reason })
}

/// Whether an interpreter, by its file name, is a shell whose scripts this module can parse.
#[must_use]
pub fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "dash" | "bash" | "ash" | "ksh" | "mksh" | "zsh" | "rbash")
}
