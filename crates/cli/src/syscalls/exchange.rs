// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes learned calls to files, and reads them from files.

use super::{SyscallsError, check_name, count, known, open, profiles, read};
use crate::output;
use crate::verb::{self, Exit, Failure, YES};
use palisade_import::calls::{self, Imported, LONGEST, Warning};
use palisade_syscall::store::key::shown;
use palisade_syscall::store::word;
use palisade_text::harmless;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A form of what was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// TOML, with every binary
    Palisade,
    /// The same as JSON
    Json,
    /// The seccomp profile of a container: all calls together, with the base
    Oci,
}

impl From<Format> for calls::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Palisade => Self::Toml,
            Format::Json => Self::Json,
            Format::Oci => Self::Oci,
        }
    }
}

pub(super) fn export(name: &str, format: Format, output: Option<&Path>) -> Exit {
    let (store, [name]) = known(read()?, [name])?;
    let learned = store.profile(&name).map_err(SyscallsError::from)?;
    let failed = |source| SyscallsError::Export { name: name.clone(), source };
    let text = calls::export(&name, &learned, format.into()).map_err(failed)?;
    let strange = store.strange(&name).map_err(SyscallsError::from)?;
    if let Some(warning) = Warning::of_unknown(strange) {
        output::note(&warning);
    }
    match output {
        None => verb::print(&text)?,
        Some(path) => crate::profile::write(path, &text)?,
    }
    Ok(YES)
}

#[derive(Serialize)]
struct Taken<'a> {
    profile: &'a str,
    /// How many calls the binary or the profile didn't have yet.
    new: usize,
    warnings: Vec<String>,
}

pub(super) fn import(file: &Path, profile: &str, json: bool) -> Exit {
    check_name(profile)?;
    let foreign = |source| SyscallsError::Foreign { path: file.to_owned(), source };
    let Imported { learned, warnings } = calls::import(&content(file)?).map_err(foreign)?;
    let mut store = open()?;
    let profile = &word::of(&profiles(Some(&store))?, profile).map_err(SyscallsError::from)?;
    let new = store.add(profile, &learned).map_err(SyscallsError::from)?;
    for warning in &warnings {
        output::note(warning);
    }
    if json {
        let warnings = warnings.iter().map(ToString::to_string).collect();
        verb::print_json(&Taken { profile, new, warnings })?;
    } else {
        output::say(&format!("{}: {}\n", harmless(&shown(profile)), count(new, "new call", "new calls")));
    }
    Ok(YES)
}

fn content(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |source| Failure::Read { path: path.to_owned(), source };
    let mut content = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LONGEST + 1).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}
