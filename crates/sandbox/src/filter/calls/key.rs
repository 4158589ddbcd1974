// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the key under which a launch's calls are stored: its profile, or the program that it runs, as found inside.

use crate::error::PlanError;
use crate::facts::Facts;
use crate::plan::Step;
use crate::plan::inside::{self, Seen};
use crate::plan::planner::Isolation;
use palisade_host::executable::{self, Found};
use palisade_policy::{Context, Policy};
use palisade_syscall::store::Key;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the command sees.
pub(crate) struct Inside<'i> {
    pub(crate) steps: &'i [Step<'static>],
    pub(crate) isolation: Isolation,
    pub(crate) landlock: bool,
    /// The directory in which the command starts.
    pub(crate) directory: &'i Path,
}

/// The key. The plan depends on the program behind it.
pub(super) fn of(
    facts: &Facts,
    policy: &Policy,
    context: &Context,
    inside: &Inside<'_>,
) -> Result<Key, PlanError> {
    if let Some(file) = &facts.profile_file {
        return Ok(Key::of_profile_file(&file.canonicalize().unwrap_or_else(|_gone| file.clone())));
    }
    let opened = || facts.application.as_ref().map(|application| application.name.clone());
    if let Some(name) = facts.profile.clone().or_else(opened) {
        return Ok(Key::Profile(name));
    }
    let name = facts.command.first().cloned().unwrap_or_default();
    if name.is_empty() {
        let reason = "neither a program nor a profile is named".to_owned();
        return Err(PlanError::Guarantee {
            guarantee: "only learned system calls are made",
            reason,
            named: false,
        });
    }
    let program = program(facts, policy, context, inside, &name);
    let Some(program) = program else { return Err(PlanError::NoSuchProgram { name }) };
    let identified = |source| PlanError::Unidentified { path: program.clone(), source };
    let real = program.canonicalize().map_err(identified)?;
    facts.depends_on(&program, false);
    facts.depends_on(&real, true);
    Key::of_program(&real).map_err(identified)
}

/// The host's file that is the command inside: the first match of the places where `execvp` looks for it.
fn program(
    facts: &Facts,
    policy: &Policy,
    context: &Context,
    inside: &Inside<'_>,
    name: &OsStr,
) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![inside.directory.join(name)]
    } else {
        let path = search_path(facts, policy, context);
        std::env::split_paths(&path).map(|place| inside.directory.join(place).join(name)).collect()
    };
    let own_tree = inside.isolation == Isolation::Full;
    let found = candidates.iter().find_map(|candidate| {
        let seen = inside::look_through(inside.steps, own_tree, inside.landlock, candidate);
        let Seen::Host { path, .. } = seen.seen else { return None };
        facts.depends_on(&path, false);
        match executable::find(path.as_os_str(), None, Path::new("/")) {
            Found::Program(found) => Some(found),
            _ => None,
        }
    });
    // A file in a private layer over the host has the same name on the host.
    found.or_else(|| facts.program(name))
}

/// The value of `PATH` inside.
fn search_path(facts: &Facts, policy: &Policy, context: &Context) -> OsString {
    let filter = policy.environment_in(context);
    let given = filter.values().find(|(name, ..)| *name == "PATH").map(|(_, value, _)| value.into());
    let kept = || facts.environment.get("PATH").map(OsStr::to_owned);
    given.or_else(kept).unwrap_or_else(|| executable::DEFAULT_PATH.into())
}
