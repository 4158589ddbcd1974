// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Codex executes the first `bwrap` on `PATH`, if it is a file of its own and no link. So Codex gets a `PATH` on which a
//! small program comes first that runs `palisade bwrap` with a policy. A link `codex` in the directory of wrapped
//! commands gives it that `PATH`; Codex itself isn't confined.

use crate::hook::wrapped::Place;
use crate::hook_error::HookError;
use crate::kept::{KeptOptions, Launch};
use crate::link;
use palisade_sandbox::facts::Facts;
use palisade_text::quoted;
use std::path::{Path, PathBuf};

const NAME: &str = "codex";

/// The options, of which Codex's own command lines leave only the policy to be chosen.
pub(super) fn check(kept: &KeptOptions) -> Result<Vec<String>, HookError> {
    if kept.words().is_empty() {
        return Ok(kept.words_with_profile());
    }
    Err(HookError::Options {
        said: "Codex states what its commands see; only --profile can be given".to_owned(),
    })
}

fn programs(directory: &Path) -> PathBuf {
    directory.join("bin")
}

fn program(directory: &Path) -> PathBuf {
    programs(directory).join("bwrap")
}

fn launch(directory: &Path, options: Vec<String>) -> Launch {
    Launch::beside(programs(directory), options)
}

/// Makes the program and the link. Returns whether one is new.
pub(super) fn make(facts: &Facts, directory: &Path, options: Vec<String>) -> Result<bool, HookError> {
    let place = Place::below(&facts.places.data);
    let file = place.file(NAME);
    if Launch::read(&file)?.is_some_and(|launch| launch.first_on_path.is_none()) {
        return Err(HookError::InTheWay { path: file });
    }
    link::make_directory(&place.links())?;
    link::make_directory(&programs(directory))?;
    link::check(&place.link(NAME))?;
    let policy =
        options.first().and_then(|word| word.split_once('=')).map_or("default", |(_, policy)| policy);
    let myself = link::myself()?;
    let script = format!(
        "#!/bin/sh\nexec {} bwrap --policy {} \"$@\"\n",
        quoted(&myself.to_string_lossy()),
        quoted(policy)
    );
    let mut new = link::write_program(&program(directory), &script)?;
    new |= launch(directory, options).write(&file)?;
    new |= link::make(&place.link(NAME))?;
    Ok(new)
}

/// Takes the program and the link away. Returns whether there were any.
pub(super) fn unmake(facts: &Facts, directory: &Path) -> Result<bool, HookError> {
    let place = Place::below(&facts.places.data);
    let mut any = false;
    if options(facts, directory)?.is_some() {
        any |= link::remove(&place.link(NAME))?;
        any |= link::remove_file(&place.file(NAME))?;
    }
    any |= link::remove_file(&program(directory))?;
    let hooks = directory.parent().unwrap_or(directory);
    link::remove_empty(&[&programs(directory), directory, hooks, &place.links(), &place.directory]);
    Ok(any)
}

/// The options, if the hook is there.
pub(super) fn options(facts: &Facts, directory: &Path) -> Result<Option<Vec<String>>, HookError> {
    let launch = Launch::read(&Place::below(&facts.places.data).file(NAME))?;
    let ours = launch.filter(|launch| launch.first_on_path.as_deref() == Some(&programs(directory)));
    Ok(ours.map(|launch| launch.options))
}
