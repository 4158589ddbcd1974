// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade explain`: what happens with a path, a host, a command, a system call or a variable, and
//! why; and which names are protected.

use crate::answer::{self, Failure};
use crate::explain_host::Host;
use crate::network_options::NetworkOptions;
use crate::situation::Situation;
use crate::{explain_command, explain_host, explain_name, explain_path};
use clap::{ArgGroup, ValueEnum, ValueHint};
use palisade_policy::{LayerPolicy, Wanted};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// What to explain.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("what").required(true).args(["target", "syscall", "env", "names"]))]
pub(crate) struct Options {
    /// A path, a host (example.com, example.com:443, 10.0.0.1, a URL), or a command as it would be
    /// typed
    #[arg(value_name = "PATH|HOST|COMMAND", value_hint = ValueHint::AnyPath)]
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
    /// Take it as a path, though it has no slash
    #[arg(long, conflicts_with_all = ["command", "host"], requires = "target")]
    path: bool,
    /// Take it as a command
    #[arg(long, conflicts_with = "host", requires = "target")]
    command: bool,
    /// Take it as a host
    #[arg(long, requires = "target")]
    host: bool,
    /// What the program wants with the path
    #[arg(long, value_name = "ACCESS", default_value = "read")]
    access: Access,
    /// Take the rules of a profile too: a name, or a file
    #[arg(long, short, value_name = "PROFILE")]
    profile: Option<OsString>,
    #[command(flatten)]
    network: NetworkOptions,
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
    let mut layer = LayerPolicy::command_line();
    options.network.state(&mut layer, &|_option, _nth| 0)?;
    let mut situation = Situation::gather_with(options.profile.as_deref(), layer)?;
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
    if let Some(host) = host(options, &situation, &target)? {
        return explain_host::explain(&situation, &host, options.json);
    }
    if is_command(options, &situation, &target) {
        situation.facts.command = vec![target.clone()];
        explain_command::explain(&situation, &target, options.json)
    } else {
        explain_path::explain(&situation, &target, options.access.into(), options.json)
    }
}

/// What is written like a host is one, unless it is a file here or a program.
fn host(options: &Options, situation: &Situation, target: &OsString) -> Result<Option<Host>, Failure> {
    if options.path || options.command {
        return Ok(None);
    }
    let text = target.to_string_lossy();
    if options.host {
        let unknown = || Failure::NoHost { text: text.clone().into_owned() };
        return Host::new(&text).ok_or_else(unknown).map(Some);
    }
    let is_file = || situation.facts.cwd.join(target).symlink_metadata().is_ok();
    let is_host = Host::is_plain(&text) && !is_file() && !is_program(situation, target);
    Ok(if is_host { Host::new(&text) } else { None })
}

/// Whether a shell would find a program of that name.
fn is_program(situation: &Situation, target: &OsString) -> bool {
    let path = situation.facts.environment.get("PATH");
    palisade_host::executable::find(target, path, &situation.facts.cwd).exit_code().is_none()
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
    is_program(situation, target) || situation.facts.cwd.join(target).symlink_metadata().is_err()
}
