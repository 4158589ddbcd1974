// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade explain`: says what happens with a path, a host, a command, a system call or a variable, and why; which
//! names are protected; and which guarantees a launch has.

use crate::asked::Asked;
use crate::run_options::OptionError;
use crate::verb::{self, Failure};
use crate::{explain_command, explain_guarantee, explain_host, explain_name, explain_path, why};
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, ArgMatches, ValueEnum, ValueHint};
use palisade::explanation::{Host, Target};
use palisade::{Application, Situation, Subject};
use palisade_policy::{Guarantee, Wanted};
use std::ffi::{OsStr, OsString};

/// What to explain.
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("what")
        .multiple(true)
        .args(["target", "syscall", "env", "names", "guarantee", "guarantees", "dry_run"]),
    after_help = "\
Options of `palisade run` say of which launch; a command after `--` is the one that would be launched.

Examples:
  palisade explain ~/.ssh/id_ed25519
  palisade explain --profile web --allow example.com example.com
  palisade explain --view closure /etc/passwd -- python3 app.py
  palisade explain --open chromium ~/.ssh  would the application see it
  palisade explain -- git push             would the command be found, and which
  palisade explain --env HOME              what becomes of a variable
  palisade explain --guarantees            what a launch guarantees, and by which mechanism
  palisade explain                         what the last launch from here was refused: palisade why",
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
    /// All guarantees of the launch: the mechanism of each, and what adds those that are missing
    #[arg(long, conflicts_with_all = ["target", "syscall", "names", "guarantee"])]
    guarantees: bool,
    /// Whether the launch has a guarantee, and what adds it
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(Guarantee::ALL.map(Guarantee::name)),
        hide_possible_values = true,
        conflicts_with_all = ["target", "syscall", "names"]
    )]
    guarantee: Option<String>,
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
    /// Explain for the application of a profile, as `palisade open` would open it: a name, or a file
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["profile", "line", "words"])]
    open: Option<OsString>,
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

/// Returns the exit code: 0 allowed, 1 not allowed, 2 error.
pub(crate) fn run(options: &Options, matches: &ArgMatches) -> u8 {
    verb::finish(options.asked.launch.json, explain(options, matches))
}

fn explain(options: &Options, matches: &ArgMatches) -> Result<u8, Failure> {
    if options.is_about_the_last_launch(matches)? {
        return why::answer(options.asked.launch.json);
    }
    let variable = options.variable()?;
    // `--env NAME` without a value names a variable to explain. It is handled below and isn't part of the request.
    let mut asked = options.asked.clone();
    asked.launch.env.retain(|given| given.contains('='));
    let mut request = asked.request(matches)?;
    if let Some(profile) = &options.open {
        let application = Application { profile: profile.clone(), ..Application::default() };
        request.subject = Subject::Application(application);
    }
    let mut situation = request.settle()?;
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
    if options.guarantees {
        return explain_guarantee::all(&situation, json);
    }
    if let Some(guarantee) = options.guarantee.as_deref().and_then(Guarantee::named) {
        return explain_guarantee::one(&situation, guarantee, json);
    }
    // Without an operand the command that would be launched is meant.
    let (target, kind) = match (&options.target, situation.facts.command.first()) {
        (Some(target), _) => (target.clone(), stated(options, target)?),
        (None, Some(program)) => (program.clone(), Some(Target::Command)),
        (None, None) => return Err(Failure::NothingAsked),
    };
    match kind.unwrap_or_else(|| Target::of(&situation, &target)) {
        Target::Host(host) => explain_host::explain(&situation, &host, json),
        Target::Command => {
            if situation.facts.command.is_empty() {
                situation.facts.command = vec![target.clone()];
            }
            explain_command::explain(&situation, &target, json)
        }
        Target::Path => explain_path::explain(&situation, &target, options.access.into(), json),
    }
}

impl Options {
    /// Whether nothing is asked about: what is meant is the last launch.
    fn is_about_the_last_launch(&self, matches: &ArgMatches) -> Result<bool, Failure> {
        let asks = self.asks_by_option() || self.target.is_some() || self.open.is_some();
        Ok(!asks && self.variable()?.is_none() && !self.asked.asks_for_something(matches)?)
    }

    /// Whether an option names what to explain, other than a variable.
    fn asks_by_option(&self) -> bool {
        self.syscall.is_some() || self.names || self.guarantees || self.guarantee.is_some()
    }

    /// The variable to explain: one that is given without a value.
    fn variable(&self) -> Result<Option<&str>, Failure> {
        let mut asked = self.asked.launch.variables_asked_about();
        let first = asked.next();
        let others = asked.next().is_some() || self.target.is_some() || self.asks_by_option();
        match first {
            Some(name) if others => {
                Err(OptionError::NoValue { option: "env", value: name.to_owned() }.into())
            }
            first => Ok(first),
        }
    }
}

/// The target to explain, if the options say what kind it is.
fn stated(options: &Options, target: &OsStr) -> Result<Option<Target>, Failure> {
    if options.host {
        let text = target.to_string_lossy().into_owned();
        let host = Host::new(&text).ok_or(Failure::NoHost { text })?;
        return Ok(Some(Target::Host(host)));
    }
    let command = options.command.then_some(Target::Command);
    Ok(command.or_else(|| options.path.then_some(Target::Path)))
}

/// The command that permits what was asked about, for the launch that was asked about.
pub(crate) fn permit(situation: &Situation, permit: Option<String>) -> Option<String> {
    match situation.facts.application {
        Some(_) => permit.map(crate::opened::of_application),
        None => permit,
    }
}
