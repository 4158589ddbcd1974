// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Composes the command that opens a profile's application.

use crate::error::PlanError;
use crate::facts::Facts;
use crate::layers::Loaded;
use crate::layers::passed;
use palisade_policy::agent::Agent;
use palisade_policy::word::{List, Switch, Word};
use palisade_policy::{Application, Policy, template};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Shells for a user who wants to look around inside, the best first.
const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/bin/sh"];

/// The application's name before its profile is read.
#[must_use]
pub fn named(profile: &OsStr) -> Application {
    // For a file, the name is the file's name without its ending.
    let file = Path::new(profile).file_name().unwrap_or(profile).to_string_lossy();
    Application { name: file.strip_suffix(".toml").unwrap_or(&file).to_owned(), id: None }
}

/// Composes the command: wrapper, program and arguments as the profile states them, then the caller's arguments.
///
/// Returns the program. Files that the arguments name are added to the policy, if the profile passes them.
///
/// # Errors
/// When there is no such program, or a file that an argument names can't be passed.
pub fn compose(facts: &mut Facts, loaded: &mut Loaded, arguments: &[OsString]) -> Result<PathBuf, PlanError> {
    let id = loaded.policy.word(Word::Id).map(|id| id.value);
    if let Some(application) = &mut facts.application {
        application.id = id;
    }
    let context = crate::plan::planner::context(facts, loaded.project.as_deref());
    let policy = &loaded.policy;
    let filled = |list: List| -> Vec<OsString> {
        // An entry that refers to a missing value is left out, as a rule would be.
        policy.list(list).iter().filter_map(|entry| template::fill(&entry.value, &context).ok()).collect()
    };
    let mut prefix = filled(List::Wrapper);
    let wrapped = !prefix.is_empty();
    let packed = facts.package().map(|package| package.program.clone());
    let program = if let Some(program) = packed {
        program
    } else if policy.switch(Switch::Shell).value {
        // The shell's user wants to see the files of the application.
        facts.programs.extend(program(facts, loaded).ok().map(PathBuf::into_os_string));
        shell()
    } else {
        program(facts, loaded)?
    };
    if wrapped {
        facts.programs.push(program.clone().into_os_string());
    }
    prefix.push(program.clone().into_os_string());
    if !policy.switch(Switch::Shell).value {
        prefix.extend(filled(List::Arguments));
    }
    if let Some(passed) = passed::pass(facts, policy, &context, arguments)? {
        loaded.policy = loaded.policy.clone().combine(passed.grants);
        loaded.notes.extend(passed.notes);
        prefix.extend(passed.arguments);
        facts.complete = true;
        facts.command.clone_from(&prefix);
    } else {
        facts.command = prefix.iter().chain(arguments).cloned().collect();
    }
    facts.prefix = prefix;
    Ok(program)
}

/// Whether one of the arguments names an existing file.
#[must_use]
pub fn names_files(arguments: &[OsString], cwd: &Path) -> bool {
    passed::names_files(arguments, cwd)
}

/// A shell for looking around inside.
#[must_use]
pub fn shell() -> PathBuf {
    SHELLS.into_iter().map(PathBuf::from).find(|shell| shell.exists()).unwrap_or_else(|| "/bin/sh".into())
}

/// The first of a profile's programs that exists.
fn program(facts: &Facts, loaded: &Loaded) -> Result<PathBuf, PlanError> {
    let name = facts.application.as_ref().map(|application| application.name.clone()).unwrap_or_default();
    program_of(facts, &name, &loaded.policy).ok_or_else(|| {
        let package = loaded.profile.as_ref().and_then(|profile| profile.launch.as_ref()?.package.clone());
        let agent = loaded.profile.as_ref().and_then(|profile| profile.agent.as_ref());
        let install = agent.and_then(Agent::installing);
        let tried = candidates(&name, &loaded.policy);
        PlanError::NotInstalled { profile: name, tried, package, install }
    })
}

/// The possible names of a profile's program.
fn candidates(name: &str, policy: &Policy) -> Vec<String> {
    let stated = policy.word(Word::Program).map_or_else(|| name.to_owned(), |word| word.value);
    let alternatives = policy.list(List::Alternatives);
    std::iter::once(stated).chain(alternatives.into_iter().map(|entry| entry.value)).collect()
}

/// The first of a profile's programs that is on this host.
#[must_use]
pub fn program_of(facts: &Facts, name: &str, policy: &Policy) -> Option<PathBuf> {
    let context = crate::plan::planner::context(facts, None);
    candidates(name, policy).iter().find_map(|candidate| {
        let filled = match candidate.strip_prefix('~') {
            Some(rest) => [context.home.as_os_str(), rest.as_ref()].concat_os(),
            None => template::fill(candidate, &context).ok()?,
        };
        facts.program(&filled)
    })
}

/// Joins pieces of names.
trait ConcatOs {
    fn concat_os(&self) -> OsString;
}

impl ConcatOs for [&OsStr; 2] {
    fn concat_os(&self) -> OsString {
        let mut whole = self[0].to_owned();
        whole.push(self[1]);
        whole
    }
}
