// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the key that a user's word means: a profile; a program by its path; or a program by its name, if no profile
//! has that name.

use super::key::{self, Key};
use palisade_host::executable::{self, Found};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The program at a path can't be identified.
#[derive(Debug, thiserror::Error)]
#[error("can't tell which program {path:?} is: {source}")]
pub struct WordError {
    /// The path.
    pub path: PathBuf,
    /// The reason.
    pub source: std::io::Error,
}

/// The key in `known` that `word` means, for this working directory and this `PATH`. `word` itself if there is none.
pub fn find(known: &[String], word: &str, cwd: &Path, path: Option<&OsStr>) -> String {
    if known.iter().any(|name| name == word) {
        return word.to_owned();
    }
    let Found::Program(program) = executable::find(OsStr::new(word), path, cwd) else {
        // The file is gone or isn't a program any more.
        return only_one_at(known, &cwd.join(word)).unwrap_or_else(|| word.to_owned());
    };
    let found = Key::of_program(&program).map(|key| key.text());
    if let Ok(found) = found
        && known.contains(&found)
    {
        return found;
    }
    let real = program.canonicalize().unwrap_or(program);
    only_one_at(known, &real).unwrap_or_else(|| word.to_owned())
}

/// The key under which calls are to be kept: `word` itself if it is known or can only be a profile's name, else the
/// identity of the file at this path.
///
/// # Errors
/// When the file can't be read.
pub fn of(known: &[String], word: &str) -> Result<String, WordError> {
    if known.iter().any(|name| name == word) || !word.contains('/') || key::parts(word).1.is_some() {
        return Ok(word.to_owned());
    }
    let failed = |source| WordError { path: PathBuf::from(word), source };
    let real = Path::new(word).canonicalize().map_err(failed)?;
    if real.extension() == Some(OsStr::new("toml")) {
        return Ok(Key::of_profile_file(&real).text());
    }
    Ok(Key::of_program(&real).map_err(failed)?.text())
}

/// The key of the program at `path`, whatever its content, if there is exactly one.
fn only_one_at(known: &[String], path: &Path) -> Option<String> {
    let path = Key::of_profile_file(path).text();
    let mut found = known.iter().filter(|name| key::parts(name).0 == path);
    let one = found.next()?;
    found.next().is_none().then(|| one.clone())
}
