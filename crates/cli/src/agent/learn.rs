// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade agent learn`: runs a whole session of an agent by its own profile, and proposes what the profile lacks.
//!
//! Hosts that no rule matches are asked about, or allowed if an option says so. Everything else that the profile refuses
//! stays refused, and so do locked rules. The agent decides what it tries, so nothing is written before the user has
//! seen it.

mod additions;
mod amend;
mod report;

use crate::home;
use crate::learn::{difference, write};
use crate::open;
use crate::opened::{self, This};
use crate::output;
use crate::run::{self, FAILURE, RunError};
use crate::run_options::WhichNamespaces;
use crate::scan::Presentation;
use crate::verb::{self, Failure};
use additions::Additions;
use clap::ArgMatches;
use palisade::{Application, Request, Situation, Subject};
use palisade_policy::network::{Fallback, NetworkRules};
use palisade_policy::{Layer, LayerPolicy, NetworkMode};
use palisade_sandbox::apply::start::LaunchEvent;
use palisade_sandbox::error::StartError;
use palisade_sandbox::layers::{Sort, own};
use palisade_sandbox::learned::AccessTrace;
use palisade_sandbox::learned::hosts::Hosts;
use palisade_sandbox::plan::Plan;
use palisade_sys::wait;
use palisade_text::{harmless, harmless_lines, quoted};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A session that is learned.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "agent-learn")]
#[command(
    after_help = "\
The agent runs as with `palisade agent`, by its own profile. You are asked about each host that no rule matches. What you
allow in this session, and what you grant by options such as --ro and --rw, is proposed as a change of your profile of the
agent. Afterwards a report says what the profile allows and this session didn't use.
Exit code: the agent's own, as with `palisade agent`.

Examples:
  palisade agent learn claude
  palisade agent learn --rw ~/notes claude          proposes to keep ~/notes writable
  palisade agent learn --allow-missing opencode     allows each host, and proposes those that were reached",
    mut_arg("dry_run", |arg| arg.help("Show what the profile lacks, and write nothing")),
    mut_arg("json", |arg| arg.help("At the end, print the report as JSON on standard output")),
)]
pub(super) struct Options {
    /// Allow every host that no rule matches and that is of the public internet, without a question, and record it
    #[arg(long, conflicts_with = "net_default")]
    allow_missing: bool,
    /// Write the profile without asking
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    open: open::Options,
}

impl Options {
    /// The account of the launch.
    pub(super) fn account(&self) -> Option<&str> {
        self.open.launch.account.as_deref()
    }
}

/// Why nothing is learned.
#[derive(Debug, thiserror::Error)]
enum LearnError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Verb(#[from] Failure),
    /// Nothing receives the system calls.
    #[error(
        "agent {name:?} can't be learned with --namespaces none: without namespaces no process can receive the system calls"
    )]
    Namespaces { name: String },
}

/// What a session used.
struct Session {
    started: bool,
    code: u8,
    trace: AccessTrace,
    hosts: Hosts,
    /// The rules for hosts in this session.
    rules: NetworkRules,
}

/// The agent's profile in use, as text.
struct Profile {
    name: String,
    /// The user's own file, which may not exist yet.
    file: PathBuf,
    /// Where the text comes from.
    place: String,
    text: String,
}

pub(super) fn run(options: &Options, matches: &ArgMatches, begun: Instant) -> u8 {
    let this = This { verb: "agent", profile: options.open.profile() };
    match learn(options, matches, this, begun) {
        Ok(code) => return code,
        Err(LearnError::Run(RunError::Start(error))) => return opened::fail(&error, this, None),
        Err(LearnError::Run(error)) => error.say_for(this),
        Err(LearnError::Verb(failure)) => drop(verb::finish(false, Err(failure))),
        Err(error @ LearnError::Namespaces { .. }) => {
            let name = quoted(&this.profile.to_string_lossy());
            output::error(&error, Some(&format!("palisade agent learn {name}   # without --namespaces")));
        }
    }
    FAILURE
}

fn learn(options: &Options, matches: &ArgMatches, this: This<'_>, begun: Instant) -> Result<u8, LearnError> {
    super::check(this.profile)?;
    let launch = &options.open.launch;
    let name = this.profile.to_string_lossy().into_owned();
    if launch.namespaces == WhichNamespaces::None {
        return Err(LearnError::Namespaces { name });
    }
    let words = options.open.request(matches)?.words;
    let stored = stored(options)?;
    // The user hears about a profile that can't be amended before the session.
    Profile::read(&stored, &name)?;
    let session = session(options, matches, &stored, this, begun)?;
    if !session.started {
        return Ok(session.code);
    }
    let rules = rules_of(&stored.plan().map_err(RunError::from)?, &stored);
    let profile = Profile::read(&stored, &name)?;
    let additions = Additions::of(&session, &rules, &words, &profile.layer()?, &stored.facts);
    if session.trace.overflowed() {
        output::note(&"the session used more than the trace can hold: the report lacks a part of it");
    }
    let saved = propose(options, &profile, &additions)?;
    let report = report::Report::of(&session, &rules, &stored, &additions, saved.then_some(profile.file));
    if launch.json {
        verb::print_json(&report)?;
    } else if !launch.quiet {
        output::say(&report.words());
    }
    Ok(session.code)
}

/// The agent by its profile alone, without the options of this command line.
fn stored(options: &Options) -> Result<Situation, RunError> {
    let open = &options.open;
    let application = Application {
        profile: open.profile().to_owned(),
        configuration: open.config.clone(),
        arguments: open.arguments().to_vec(),
    };
    let mut request = Request::here(Subject::Application(application))?;
    if let Some(program) = &open.program {
        open::say_program(&mut request.words, program)?;
    }
    Ok(request.settle()?)
}

/// The rules for hosts of a plan, with what the user has always allowed.
fn rules_of(plan: &Plan<'_>, situation: &Situation) -> NetworkRules {
    let network = plan.network.as_ref().and_then(|network| network.rules.get().ok());
    network.unwrap_or_else(|| situation.policy().network_rules())
}

/// Runs the session.
fn session(
    options: &Options,
    matches: &ArgMatches,
    stored: &Situation,
    this: This<'_>,
    begun: Instant,
) -> Result<Session, RunError> {
    let presentation = Presentation { application: Some(this), ..options.open.launch.presentation() };
    let filtered = stored.policy().network().value != NetworkMode::Host;
    home::launch(
        |home| {
            let mut request = options.open.request(matches)?;
            if filtered {
                ask_or_allow(options, &mut request.words);
            }
            home.state(&mut request);
            let situation = request.settle()?;
            let mut plan = situation.plan_to_learn()?;
            home.note(&mut plan);
            Ok(plan)
        },
        |plan| {
            let command = open::command(plan, options.open.arguments());
            let mut session = Session {
                started: false,
                code: FAILURE,
                trace: AccessTrace::default(),
                hosts: Hosts::of(plan),
                rules: rules_of(plan, stored),
            };
            // The user may be asked afterwards: signals are handled as before.
            let signals = wait::signal_mask().map_err(|source| StartError::Wait { source })?;
            let code =
                run::apply(plan, &command, presentation, begun, false, &mut |event| session.note(event));
            wait::set_signal_mask(signals).map_err(|source| StartError::Wait { source })?;
            session.code = code?;
            Ok(session)
        },
    )
}

/// States what becomes of hosts that no rule matches. A locked rule outranks it.
fn ask_or_allow(options: &Options, words: &mut LayerPolicy) {
    if words.settings.network.is_empty() {
        words.set_network(NetworkMode::Filtered, 0);
    }
    if words.settings.fallback.is_empty() {
        words.set_fallback(if options.allow_missing { Fallback::Allow } else { Fallback::Ask }, 0);
    }
}

impl Session {
    fn note(&mut self, event: &LaunchEvent<'_>) {
        match event {
            LaunchEvent::Started(..) => self.started = true,
            LaunchEvent::Used { how, came, path, program } => self.trace.note(*how, *came, path, program),
            LaunchEvent::Network { told, .. } => self.hosts.note(told),
            LaunchEvent::Refused { rule, .. } => self.trace.note_name(&rule.path),
            _ => {}
        }
    }
}

impl Profile {
    fn read(situation: &Situation, name: &str) -> Result<Self, Failure> {
        let sort = Sort::Profile;
        let wrong = || Failure::DefinitionName { sort, name: name.to_owned() };
        let file = own::file(&situation.facts, sort, name).ok_or_else(wrong)?;
        let definition = own::of_name(&situation.facts, sort, name).into_iter().next().ok_or_else(wrong)?;
        let text = definition.text().map_err(|source| Failure::Read { path: file.clone(), source })?;
        Ok(Self { name: name.to_owned(), file, place: definition.place(), text })
    }

    /// Its statements.
    fn layer(&self) -> Result<LayerPolicy, Failure> {
        let parsed = palisade_policy::parse(&self.text, Some(&self.file), Layer::User);
        parsed.map_err(|errors| palisade_sandbox::layers::LayerError::Parse { errors }.into())
    }
}

/// Shows what the profile lacks, and writes it if the user agrees. Returns whether it is written.
fn propose(options: &Options, profile: &Profile, additions: &Additions) -> Result<bool, LearnError> {
    let launch = &options.open.launch;
    let shown = harmless(&profile.file.to_string_lossy());
    let note = |text: &dyn std::fmt::Display| {
        if !launch.quiet {
            output::note(text);
        }
    };
    if additions.is_empty() {
        note(&format_args!("the profile {} lacks nothing that was allowed in this session", profile.name));
        return Ok(false);
    }
    let Some(text) = amend::amend(&profile.text, &profile.file, additions) else {
        output::say(&format!("\n{}", harmless_lines(&additions.toml())));
        output::note(&format_args!(
            "nothing is written: these statements can't be added to the text of the profile; to add them: \
             palisade profile edit {}",
            quoted(&profile.name)
        ));
        return Ok(false);
    };
    // The user sees what is written before the user is asked.
    if !(launch.quiet && options.yes) {
        output::say(&format!("\n{}", difference(&profile.text, &text, &harmless(&profile.place), &shown)));
    }
    if launch.dry_run {
        return Ok(false);
    }
    match if options.yes { Some(true) } else { verb::confirmed(&format!("Write {shown}? [y/N] ")) } {
        Some(true) => {}
        Some(false) => {
            note(&"nothing is written");
            return Ok(false);
        }
        None => {
            output::note(&format_args!(
                "nothing is written, there is no terminal to ask on: palisade agent learn --yes … writes {shown}"
            ));
            return Ok(false);
        }
    }
    // Another process may have written the profile while the user read the question.
    let now = match std::fs::read_to_string(&profile.file) {
        Ok(now) => Some(now),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(Failure::Read { path: profile.file.clone(), source }.into()),
    };
    let own = Path::new(&profile.place) == profile.file;
    if now.as_ref() != own.then_some(&profile.text) {
        output::note(&format_args!("nothing is written: {shown} was changed while the question was asked"));
        return Ok(false);
    }
    write(&profile.file, &text).map_err(|source| Failure::Write { path: profile.file.clone(), source })?;
    note(&format_args!("{shown} is written: palisade agent {} uses it", quoted(&profile.name)));
    Ok(true)
}
