// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade bwrap --policy NAME`: bubblewrap's arguments as a plan of `palisade run`, with everything that the policy adds.
//!
//! The arguments state the file tree (`tree`), and the rest of them are statements of the command line in the policy's
//! terms. What has no counterpart in a plan is an error before anything starts.

use super::tree;
use crate::output;
use crate::run::{self, RunError};
use crate::scan::Presentation;
use palisade::Subject;
use palisade_bwrap::request::{Descriptors, EnvironmentChange, Request, Setup};
use palisade_policy::pattern::PatternError;
use palisade_policy::value::ValueError;
use palisade_policy::word::Switch;
use palisade_policy::{LayerPolicy, NetworkMode};
use palisade_sandbox::package::PlanMode;
use palisade_sandbox::plan::Plan;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Instant;

/// Why arguments can't be launched by a policy.
#[derive(Debug, thiserror::Error)]
pub(super) enum PolicyError {
    /// The policy's name is empty.
    #[error("the name of the policy is empty")]
    NoName,
    /// An option has no counterpart in a plan.
    #[error("can't keep to a policy with {option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// An option's value has none.
    #[error("can't keep to a policy with {option} {value:?}: {reason}")]
    Value {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// Why.
        reason: String,
    },
    /// The policy can't be applied.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl PolicyError {
    pub(super) fn value(option: &'static str, value: &[u8], reason: impl ToString) -> Self {
        Self::Value { option, value: String::from_utf8_lossy(value).into_owned(), reason: reason.to_string() }
    }

    fn say(&self) {
        match self {
            Self::NoName => {
                output::error(self, Some("palisade profile list   # the profiles that have names"))
            }
            Self::Option { .. } | Self::Value { .. } => {
                output::error(self, Some("leave out that option, or the policy"));
            }
            Self::Run(error) => error.say(),
        }
    }
}

/// Launches what is asked for by a policy. Returns the exit code.
pub(super) fn launch(request: Request, policy: &OsStr, begun: Instant) -> u8 {
    let (command, first_argument) = (words(&request.command), request.first_argument.clone());
    let first_argument = first_argument.map(|word| OsString::from_vec(word.into_bytes()));
    let ends_with_parent = request.die_with_parent;
    let plan = match plan(request, &command, policy) {
        Ok(plan) => plan,
        Err(error) => {
            error.say();
            return palisade_bwrap::FAILURE;
        }
    };
    if ends_with_parent
        && let Err(errno) =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        output::error(&format_args!("can't follow the parent's end: prctl: {errno}"), None);
        return palisade_bwrap::FAILURE;
    }
    let presentation = Presentation {
        first_argument: first_argument.as_deref(),
        policy: Some(policy),
        ..Presentation::default()
    };
    run::apply(&plan, &command, presentation, begun, false, &mut |_event| {}).unwrap_or_else(|error| {
        RunError::from(error).say();
        palisade_bwrap::FAILURE
    })
}

fn words(command: &[CString]) -> Vec<OsString> {
    command.iter().map(|word| OsStr::from_bytes(word.as_bytes()).to_owned()).collect()
}

fn plan(request: Request, command: &[OsString], policy: &OsStr) -> Result<Plan<'static>, PolicyError> {
    if policy.is_empty() {
        return Err(PolicyError::NoName);
    }
    refuse(&request)?;
    let arrangement = tree::arrangement(&request.setup)?;
    let subject = Subject::Command { words: command.to_vec(), profile: Some(policy.to_owned()) };
    let mut asked = palisade::Request::here(subject).map_err(RunError::from)?;
    asked.words = statements(&request)?;
    let mut situation = asked.settle().map_err(RunError::from)?;
    situation.facts.purpose = PlanMode::Arranged(arrangement);
    Ok(situation.plan().map_err(RunError::from)?)
}

/// Refuses options that have no counterpart in a plan.
fn refuse(request: &Request) -> Result<(), PolicyError> {
    const PROCESSES: &str = "with a policy the processes are those of palisade run";
    const USERS: &str = "with a policy the sandbox makes its own namespaces";
    const FILTER: &str = "with a policy the system calls are the policy's";
    let Descriptors {
        sync,
        block,
        user_map_block,
        info,
        status,
        user_namespace,
        second_user_namespace,
        pid_namespace,
        filter,
    } = request.descriptors;
    let unsupported = [
        (sync.is_some(), "--sync-fd", PROCESSES),
        (block.is_some(), "--block-fd", PROCESSES),
        (user_map_block.is_some(), "--userns-block-fd", USERS),
        (info.is_some(), "--info-fd", PROCESSES),
        (status.is_some(), "--json-status-fd", PROCESSES),
        (user_namespace.is_some(), "--userns", USERS),
        (second_user_namespace.is_some(), "--userns2", USERS),
        (pid_namespace.is_some(), "--pidns", USERS),
        (filter.is_some(), "--seccomp", FILTER),
        (!request.filters.is_empty(), "--add-seccomp-fd", FILTER),
        (!request.locks.is_empty(), "--lock-file", PROCESSES),
        (request.capabilities.is_some_and(|kept| kept != 0), "--cap-add", "nothing inside has capabilities"),
    ];
    match unsupported.into_iter().find(|(given, _option, _reason)| *given) {
        Some((_given, option, reason)) => Err(PolicyError::Option { option, reason }),
        None => Ok(()),
    }
}

/// The arguments' statements besides the file tree.
fn statements(request: &Request) -> Result<LayerPolicy, PolicyError> {
    let mut words = LayerPolicy::command_line();
    if request.namespaces.network {
        words.set_network(NetworkMode::None, 0);
    }
    if let Some(uid) = request.uid {
        words.set_uid(uid, 0);
    }
    if let Some(gid) = request.gid {
        words.set_gid(gid, 0);
    }
    if request.new_session {
        words.set_inherit_terminal(false, 0);
    }
    if request.disable_user_namespaces || request.assert_user_namespaces_disabled {
        words.set_switch(Switch::Namespaces, false, 0);
    }
    for step in &request.setup {
        if let Setup::Hostname { name } = step {
            let text = name.to_string_lossy();
            words
                .set_hostname(&text, 0)
                .map_err(|error| PolicyError::value("--hostname", name.to_bytes(), error))?;
        }
    }
    if let Some(directory) = &request.directory {
        let failed = |error: PatternError| PolicyError::value("--chdir", directory.to_bytes(), error);
        words.set_cwd(exactly(directory.to_bytes()), 0).map_err(failed)?;
    }
    environment(&request.environment, &mut words)?;
    Ok(words)
}

/// A pattern that matches exactly this path.
fn exactly(path: &[u8]) -> OsString {
    let mut text = Vec::with_capacity(path.len());
    for &byte in path {
        if b"*?[]{}=$~\\".contains(&byte) {
            text.push(b'\\');
        }
        text.push(byte);
    }
    OsString::from_vec(text)
}

/// What the changes amount to: the last one of each variable counts.
fn environment(changes: &[EnvironmentChange], words: &mut LayerPolicy) -> Result<(), PolicyError> {
    let mut variables: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    let mut cleared = false;
    for change in changes {
        match change {
            EnvironmentChange::Clear => {
                cleared = true;
                variables.clear();
            }
            EnvironmentChange::Set { name, value } => {
                variables.insert(name.to_bytes(), Some(value.to_bytes()));
            }
            EnvironmentChange::Unset { name } => {
                variables.insert(name.to_bytes(), None);
            }
        }
    }
    let failed = |option, name: &[u8]| {
        let name = name.to_vec();
        move |error: ValueError| PolicyError::value(option, &name, error)
    };
    if cleared {
        words.remove_env("*", 0).map_err(failed("--clearenv", b""))?;
    }
    for (name, value) in variables {
        let (option, text) = match value {
            Some(value) => ("--setenv", Some(value)),
            None => ("--unsetenv", None),
        };
        let utf8 = |bytes| {
            core::str::from_utf8(bytes).map_err(|_other| PolicyError::value(option, name, "it isn't UTF-8"))
        };
        let words = &mut *words;
        match text {
            Some(value) => words.set_env(utf8(name)?, utf8(value)?, 0).map_err(failed(option, name))?,
            None => words.remove_env(utf8(name)?, 0).map_err(failed(option, name))?,
        };
    }
    Ok(())
}
