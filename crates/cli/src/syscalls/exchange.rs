// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing what was learned to files, and reading it from them.

use super::{Answer, SyscallsError, check_name, count, known, naming, oci, open, own, profiles, read};
use crate::answer::{self, Failure, YES};
use crate::output;
use palisade_syscall::store::{Learned, key::shown};
use palisade_text::harmless;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// More than any list of calls needs.
const LONGEST: u64 = 4 << 20;

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

/// What a file says.
#[derive(Debug)]
pub(super) struct Imported {
    pub(super) learned: Vec<Learned>,
    /// What of it couldn't be taken over.
    pub(super) warnings: Vec<String>,
}

pub(super) fn export(name: &str, format: Format, output: Option<&Path>) -> Answer {
    let (store, [name]) = known(read()?, [name])?;
    let name = &name;
    let learned = store.profile(name).map_err(SyscallsError::from)?;
    let written = match format {
        Format::Palisade => own::toml(name, &learned),
        Format::Json => own::json(name, &learned),
        Format::Oci => oci::export(learned.iter().flat_map(|learned| &learned.calls).copied().collect()),
    };
    let text = written.map_err(|reason| SyscallsError::Export { name: name.to_owned(), reason })?;
    let strange = store.strange(name).map_err(SyscallsError::from)?;
    if let Some(warning) = unknown_names(&strange) {
        output::note(&warning);
    }
    match output {
        None => answer::print(&text)?,
        Some(path) => crate::profile::write(path, &text)?,
    }
    Ok(YES)
}

#[derive(Serialize)]
struct Taken<'a> {
    profile: &'a str,
    /// How many calls are new, of a binary or the profile.
    new: usize,
    warnings: Vec<String>,
}

pub(super) fn import(file: &Path, profile: &str, json: bool) -> Answer {
    check_name(profile)?;
    let foreign = |reason| SyscallsError::Foreign { path: file.to_owned(), reason };
    let Imported { learned, warnings } = understand(&content(file)?).map_err(foreign)?;
    let mut store = open()?;
    let profile = &naming::of(&profiles(Some(&store))?, profile)?;
    let new = store.add(profile, &learned).map_err(SyscallsError::from)?;
    for warning in &warnings {
        output::note(warning);
    }
    if json {
        answer::print_json(&Taken { profile, new, warnings })?;
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

/// What a file says, in whichever form; why it can't be understood.
pub(super) fn understand(content: &[u8]) -> Result<Imported, String> {
    if content.len() as u64 > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let text = std::str::from_utf8(content).map_err(|error| format!("it isn't text: {error}"))?;
    if !text.trim_start().starts_with('{') {
        return own::from_toml(text);
    }
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if value.get("defaultAction").is_some() { oci::import(value) } else { own::from_json(value) }
}

/// A line for names that no call has here.
pub(super) fn unknown_names(names: &BTreeSet<String>) -> Option<String> {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| format!("left out, no calls of this palisade's: {}", names.join(", ")))
}
