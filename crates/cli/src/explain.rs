// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade explain`: what happens with a path, a command, a system call or a variable, and why;
//! and which names are protected.

use crate::answer::{self, Failure};
use crate::situation::Situation;
use crate::{explain_command, explain_name, explain_path};
use clap::{ArgGroup, ValueEnum, ValueHint};
use palisade_policy::Wanted;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// What to explain.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("what").required(true).args(["target", "syscall", "env", "names"]))]
pub(crate) struct Options {
    /// A path, or a command as it would be typed
    #[arg(value_name = "PATH|COMMAND", value_hint = ValueHint::AnyPath)]
    target: Option<OsString>,
    /// A system call
    #[arg(long, value_name = "NAME")]
    syscall: Option<String>,
    /// An environment variable
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// All protected names, and why each is
    #[arg(long)]
    names: bool,
    /// Take PATH|COMMAND as a path, though it has no slash
    #[arg(long, conflicts_with = "command", requires = "target")]
    path: bool,
    /// Take PATH|COMMAND as a command
    #[arg(long, requires = "target")]
    command: bool,
    /// What the program wants with the path
    #[arg(long, value_name = "ACCESS", default_value = "read")]
    access: Access,
    /// Take the rules of a profile too: a name, or a file
    #[arg(long, short, value_name = "PROFILE")]
    profile: Option<OsString>,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// What a program wants with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Access {
    Read,
    Write,
    Execute,
}

impl From<Access> for Wanted {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Write => Self::Write,
            Access::Execute => Self::Execute,
        }
    }
}

/// Answers: 0 it is allowed, 1 it isn't, 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    answer::finish(options.json, explain(options))
}

fn explain(options: &Options) -> Result<u8, Failure> {
    let mut situation = Situation::gather(options.profile.as_deref())?;
    for note in &situation.loaded.notes {
        crate::output::note(note);
    }
    if let Some(name) = &options.syscall {
        return explain_name::syscall(&situation, name, options.json);
    }
    if let Some(name) = &options.env {
        return explain_name::variable(&situation, name, options.json);
    }
    if options.names {
        return explain_name::names::explain(&situation, options.json);
    }
    let target = options.target.clone().unwrap_or_default();
    if is_command(options, &situation, &target) {
        situation.facts.command = vec![target.clone()];
        explain_command::explain(&situation, &target, options.json)
    } else {
        explain_path::explain(&situation, &target, options.access.into(), options.json)
    }
}

/// A word without a slash is a command if there is one of that name, as a shell has it; else it
/// may be a file here.
fn is_command(options: &Options, situation: &Situation, target: &OsString) -> bool {
    if options.path || options.command {
        return options.command;
    }
    let bytes = target.as_bytes();
    if bytes.contains(&b'/') || matches!(bytes, b"." | b".." | b"~") {
        return false;
    }
    let on_path = palisade_host::executable::find(
        target,
        situation.facts.environment.get("PATH"),
        &situation.facts.cwd,
    );
    on_path.exit_code().is_none() || situation.facts.cwd.join(target).symlink_metadata().is_err()
}
