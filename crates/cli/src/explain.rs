// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade explain`: what happens with a path, a host, a command, a system call or a variable, and
//! why; and which names are protected.

use crate::answer::{self, Failure};
use crate::asked::Asked;
use crate::explain_host::Host;
use crate::run_options::OptionError;
use crate::{explain_command, explain_host, explain_name, explain_path};
use clap::{ArgGroup, ArgMatches, ValueEnum, ValueHint};
use palisade::Situation;
use palisade_policy::Wanted;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// What to explain.
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("what")
        .required(true)
        .multiple(true)
        .args(["target", "syscall", "env", "names", "dry_run"]),
    after_help = "\
Options of `palisade run` say of which launch; a command after `--` is the one that would be launched.

Examples:
  palisade explain ~/.ssh/id_ed25519
  palisade explain --profile web --allow example.com example.com
  palisade explain --view closure /etc/passwd -- python3 app.py
  palisade explain --env HOME              what becomes of a variable",
    mut_arg("dry_run", |arg| arg.help("Print the plan of the launch and explain nothing")),
    mut_arg("json", |arg| arg.help("Answer as JSON")),
    mut_arg("env", |arg| arg.value_name("NAME[=VALUE]").help("Say what becomes of a variable; with a value: give it that")),
)]
pub(crate) struct Options {
    /// A path, a host (example.com, example.com:443, 10.0.0.1, a URL), or a command as it would be
    /// typed
    #[arg(value_name = "PATH|HOST|COMMAND", value_hint = ValueHint::AnyPath)]
    target: Option<OsString>,
    /// A system call
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    syscall: Option<String>,
    /// All protected names, and why each is
    #[arg(long, conflicts_with_all = ["target", "syscall"])]
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
    #[command(flatten)]
    pub(crate) asked: Asked,
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
pub(crate) fn run(options: &Options, matches: &ArgMatches) -> u8 {
    answer::finish(options.asked.launch.json, explain(options, matches))
}

fn explain(options: &Options, matches: &ArgMatches) -> Result<u8, Failure> {
    let variable = options.variable()?;
    // What a variable without a value asks is told below.
    let mut asked = options.asked.clone();
    asked.launch.env.retain(|given| given.contains('='));
    let mut situation = asked.request(matches)?.settle()?;
    if let Some(done) = asked.dry_run(&situation) {
        return done;
    }
    let json = asked.launch.json;
    for note in &situation.loaded.notes {
        crate::output::note(note);
    }
    if let Some(name) = &options.syscall {
        return explain_name::syscall(&situation, name, json);
    }
    if let Some(name) = variable {
        return explain_name::variable(&situation, name, json);
    }
    if options.names {
        return explain_name::names::explain(&situation, json);
    }
    let target = options.target.clone().ok_or(Failure::NothingAsked)?;
    if let Some(host) = host(options, &situation, &target)? {
        return explain_host::explain(&situation, &host, json);
    }
    if is_command(options, &situation, &target) {
        if situation.facts.command.is_empty() {
            situation.facts.command = vec![target.clone()];
        }
        explain_command::explain(&situation, &target, json)
    } else {
        explain_path::explain(&situation, &target, options.access.into(), json)
    }
}

impl Options {
    /// The variable that is asked about: one that is given no value.
    fn variable(&self) -> Result<Option<&str>, Failure> {
        let mut asked = self.asked.launch.variables_asked_about();
        let first = asked.next();
        let others = asked.next().is_some() || self.target.is_some() || self.syscall.is_some() || self.names;
        match first {
            Some(name) if others => {
                Err(OptionError::NoValue { option: "env", value: name.to_owned() }.into())
            }
            first => Ok(first),
        }
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
