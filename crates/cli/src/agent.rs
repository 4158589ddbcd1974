// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade agent`: runs coding agents. An agent is a profile with `[agent]`, opened like every application.

mod known;
mod learn;
mod setup;

use crate::agent_install;
use crate::open;
use crate::output;
use crate::run;
use crate::situation;
use crate::verb::{self, Failure, YES};
use clap::{ArgMatches, Args, Subcommand};
use known::Known;
use palisade_policy::environment::Filter;
use palisade_sandbox::layers::{self, LayerError};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

/// The words behind `agent` that are no agents.
pub(crate) const VERBS: [&str; 7] = ["list", "doctor", "setup", "learn", "install", "remove", "help"];
/// The ends of names of variables that hold keys.
const KEYS: [&str; 4] = ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"];

/// Runs a coding agent. It works in the project and reaches its own hosts; files with secrets are hidden, and its home is
/// its own.
#[derive(Debug, Args)]
#[group(id = "agent")]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Exit code: as `palisade run`.

Examples:
  palisade agent claude
  palisade agent --allow registry.npmjs.org codex exec 'repair the tests'
  palisade agent setup claude              copy your login into its home, after it was shown
  palisade agent doctor claude             what it has, and what it lacks
  palisade agent learn claude              a session, and afterwards what its profile lacks
  palisade agent list                      which agents there are"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    open: open::Options,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the agents that have a profile, and which of them are installed
    List {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what agents have here: program, home, login, keys, hosts
    Doctor {
        /// The agents; without any: those that are installed
        #[arg(value_name = "NAME")]
        names: Vec<OsString>,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy your login into the agent's own home, after it was shown
    Setup(setup::Options),
    /// Have an agent that stays outside run its commands in sandboxes
    Install(Box<agent_install::Install>),
    /// Take back what `install` has changed
    Remove(agent_install::Remove),
    /// Run a session of an agent, and propose what its profile lacks
    Learn(Box<learn::Options>),
}

impl Options {
    /// The account of the launch.
    pub(crate) fn account(&self) -> Option<&str> {
        match &self.what {
            Some(What::Learn(options)) => options.account(),
            _ => self.open.launch.account.as_deref(),
        }
    }
}

pub(crate) fn run(options: &Options, matches: &ArgMatches, arguments: &[OsString], begun: Instant) -> u8 {
    match &options.what {
        None => match check(options.open.profile()) {
            Ok(()) => open::open("agent", &options.open, matches, arguments, begun),
            Err(failure) => {
                verb::finish(false, Err(failure));
                run::FAILURE
            }
        },
        Some(What::List { json }) => verb::finish(*json, list(*json)),
        Some(What::Doctor { names, json }) => verb::finish(*json, doctor(names, *json)),
        Some(What::Setup(options)) => verb::finish(false, setup::run(options)),
        Some(What::Install(options)) => agent_install::install(options),
        Some(What::Remove(options)) => agent_install::remove(options),
        Some(What::Learn(options)) => {
            learn::run(options, matches.subcommand_matches("learn").unwrap_or(matches), begun)
        }
    }
}

/// Checks that a profile is an agent's.
fn check(name: &OsStr) -> Result<(), Failure> {
    let known = || name.to_string_lossy().into_owned();
    match layers::profile(&situation::facts()?, name) {
        Ok(profile) if profile.agent.is_some() => Ok(()),
        Ok(_) | Err(LayerError::Unknown { nearest: None, .. }) => Err(Failure::NoAgent { name: known() }),
        Err(error) => Err(error.into()),
    }
}

/// Tells which keys the agent gets: every program that it starts gets them, too.
pub(crate) fn tell_keys(environment: &Filter) {
    let inherited: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let bytes = || inherited.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let changed = environment.changed(bytes());
    let is_key = |name: &str| KEYS.iter().any(|end| name.ends_with(end));
    let passed: Vec<&str> = bytes()
        .filter(|(name, value)| !value.is_empty() && !changed.iter().any(|(other, ..)| other == name))
        .filter_map(|(name, _value)| std::str::from_utf8(name).ok().filter(|name| is_key(name)))
        .collect();
    if !passed.is_empty() {
        output::note(&format_args!("passed on: {}; every program inside can read it", passed.join(", ")));
    }
}

#[derive(Serialize)]
struct Listed {
    name: String,
    description: String,
    program: Option<String>,
}

#[derive(Serialize)]
struct List {
    agents: Vec<Listed>,
}

fn list(json: bool) -> Result<u8, Failure> {
    let mut facts = situation::facts()?;
    let mut agents = Vec::new();
    for name in known::names(&facts) {
        let known = Known::of(&mut facts, name.as_ref())?;
        agents.push(Listed { name, description: known.description(), program: known.program });
    }
    verb::tell(json, &List { agents }, |list| {
        let mut text = String::new();
        for agent in &list.agents {
            let program = agent.program.as_deref().unwrap_or("not installed");
            let _ = writeln!(text, "{:<13} {:<36} {}", agent.name, agent.description_short(), program);
        }
        text
    })?;
    Ok(YES)
}

impl Listed {
    /// The description up to its first comma or full stop.
    fn description_short(&self) -> &str {
        self.description.split([',', '.']).next().unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Doctor {
    agents: Vec<known::Report>,
}

fn doctor(names: &[OsString], json: bool) -> Result<u8, Failure> {
    let mut facts = situation::facts()?;
    let mut agents = Vec::new();
    if names.is_empty() {
        for name in known::names(&facts) {
            let known = Known::of(&mut facts, name.as_ref())?;
            if known.program.is_some() {
                agents.push(known.report(&facts));
            }
        }
    }
    for name in names {
        agents.push(Known::of(&mut facts, name)?.report(&facts));
    }
    let fine = !agents.is_empty() && agents.iter().all(|agent| agent.program.is_some());
    verb::tell(json, &Doctor { agents }, |doctor| {
        if doctor.agents.is_empty() {
            return "no agent is installed; palisade agent list names those that have a profile\n".to_owned();
        }
        doctor.agents.iter().map(known::Report::words).collect::<Vec<_>>().join("\n")
    })?;
    Ok(verb::verdict(fine))
}
