// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a word on the command line names: a profile, or a program by its path or, where no profile is called so, by its
//! name.

use super::SyscallsError;
use crate::answer::Failure;
use palisade_host::executable::{self, Found};
use palisade_syscall::store::key::{self, Key};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The key among `known` that `word` names; `word` itself if none is.
pub(super) fn find(known: &[String], word: &str) -> Result<String, Failure> {
    if known.iter().any(|name| name == word) {
        return Ok(word.to_owned());
    }
    let cwd = std::env::current_dir().map_err(|source| Failure::Cwd { source })?;
    let path = std::env::var_os("PATH");
    let Found::Program(program) = executable::find(OsStr::new(word), path.as_deref(), &cwd) else {
        // It is gone, or isn't a program any more.
        let path = cwd.join(word);
        return Ok(only_one_at(known, &path).unwrap_or_else(|| word.to_owned()));
    };
    let found = Key::of_program(&program).map(|key| key.text());
    if let Ok(found) = found
        && known.contains(&found)
    {
        return Ok(found);
    }
    let real = program.canonicalize().unwrap_or(program);
    Ok(only_one_at(known, &real).unwrap_or_else(|| word.to_owned()))
}

/// The key that something is to be kept for: as [`find`], else a profile's name, or the identity of the file at a path.
pub(super) fn of(known: &[String], word: &str) -> Result<String, Failure> {
    if known.iter().any(|name| name == word) || !word.contains('/') || key::parts(word).1.is_some() {
        return Ok(word.to_owned());
    }
    let path = PathBuf::from(word);
    let real = path.canonicalize().map_err(|source| SyscallsError::Program { path: path.clone(), source })?;
    if real.extension() == Some(OsStr::new("toml")) {
        return Ok(Key::of_profile_file(&real).text());
    }
    let key = Key::of_program(&real).map_err(|source| SyscallsError::Program { path, source })?;
    Ok(key.text())
}

/// The key of a program at `path`, whatever its content, if there is one only.
fn only_one_at(known: &[String], path: &Path) -> Option<String> {
    let path = Key::of_profile_file(path).text();
    let mut found = known.iter().filter(|name| key::parts(name).0 == path);
    let one = found.next()?;
    found.next().is_none().then(|| one.clone())
}
