// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a program that has no profile: by the profile `default`, so it sees its own files and nothing else.

use super::{LayerError, Loaded, Request, Sort, load_with, parse};
use crate::error::quoted;
use crate::facts::Facts;
use palisade_host::executable::{self, Kind};
use palisade_policy::{Layer, LayerPolicy};
use std::ffi::OsStr;
use std::path::Path;

/// Loads the policy for the program that a user named instead of a profile. `error`: why there is no such profile.
///
/// # Errors
/// `error`, if there is no such program either; otherwise as for [`super::load`].
pub fn load(
    facts: &Facts,
    wanted: &OsStr,
    error: LayerError,
    command_line: LayerPolicy,
) -> Result<Loaded, LayerError> {
    let Some(profile) = profile(facts, wanted, &error) else { return Err(error) };
    let request = Request { open: true, ..Request::default() };
    let mut loaded = load_with(facts, request, Some(profile), command_line)?;
    let policy = &loaded.policy;
    let name = quoted(&wanted.to_string_lossy());
    let note = format!(
        "there is no profile for {name}: it sees its own files and those that its arguments name (view {}); home {}; \
         network {}",
        policy.view().value,
        policy.home().value.key(),
        policy.network().value,
    );
    loaded.notes.push(note);
    loaded.notes.push(format!(
        "to change that: palisade open --rw DIRECTORY --home private --net filtered --allow HOST {name} …"
    ));
    Ok(loaded)
}

/// The profile of a program, if the word names a program on this host and not a profile that has a mistake.
fn profile(facts: &Facts, wanted: &OsStr, error: &LayerError) -> Option<LayerPolicy> {
    let text = wanted.to_str().filter(|text| !text.contains(['"', '\\', '$']))?;
    let is_path = text.contains('/');
    if !is_path && !matches!(error, LayerError::Unknown { sort: Sort::Profile, by: None, .. })
        || text.ends_with(".toml")
    {
        return None;
    }
    let program = facts.program(wanted)?;
    // A file system may state that every file is executable. A profile there isn't a program.
    if is_path && !matches!(executable::kind(&program), Ok(Kind::Elf | Kind::Script(_))) {
        return None;
    }
    let path = if is_path { program.to_str()? } else { text };
    let text = format!("schema = 1\n[program]\npath = \"{path}\"\npass_files = \"read\"\n");
    parse(text.as_bytes(), Path::new("built-in:program"), Layer::BuiltIn, Sort::Profile).ok()
}
