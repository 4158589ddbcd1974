// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade learn`: runs a command as `run` does, and writes the profile that lets it do what it did
//! and little else.
//!
//! The command's walls are those of the options, as always: what is refused stays refused, and stands
//! in the profile as a comment. Nothing is in force before somebody has seen it.

mod checked;
mod hosts;
mod keep;
mod profile;

use self::hosts::Hosts;
use crate::output;
use crate::run::{self, RunError};
use crate::run_options::RunOptions;
use crate::trace::Disk;
use clap::{ArgMatches, Args, ValueHint};
use palisade_host::environment::Environment;
use palisade_policy::{Access, Layer, LayerPolicy, View, built_in, merge};
use palisade_sandbox::error::StartError;
use palisade_sandbox::error::{PlanError, quoted};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{self, Definition, Sort};
use palisade_sandbox::learned::{Account, Journal};
use palisade_sandbox::plan::Plan;
use palisade_sandbox::planner::{self, Isolation};
use palisade_sandbox::start::Happening;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs a command in isolation, watches what it reads, writes, executes and connects to, and proposes
/// a profile that allows just that.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "\
The command runs behind the walls that the options ask for, as with `palisade run`: learning
permits nothing. What was wanted and refused stands in the profile as comments, and stays refused.
Exit code: the command's own, as with `palisade run`.

Examples:
  palisade learn -- cargo build                 proposes the profile `cargo`
  palisade learn --name web --yes -- npm test   writes it without asking
  palisade learn --view host -- ./tool          what of the whole host does it need?",
    mut_arg("dry_run", |arg| arg.help("Show the profile and write nothing")),
    mut_arg("json", |arg| arg.hide(true)),
    mut_arg("plan", |arg| arg.hide(true)),
    mut_arg("namespaces", |arg| arg.hide(true)),
)]
pub(crate) struct Options {
    /// What the profile is to be called; otherwise as the command
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the profile to this file (`-`: standard output) instead of to your profiles
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write it without asking
    #[arg(long, short)]
    yes: bool,
    /// Write it even if its name is that of a shipped profile, which it then replaces for you
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    run: RunOptions,
}

/// Learns a command. The exit code is the command's.
pub(crate) fn run(options: &Options, matches: &ArgMatches, begun: Instant) -> u8 {
    match learn(options, matches, begun) {
        Ok(code) => code,
        Err(error) => {
            error.say();
            run::FAILURE
        }
    }
}

/// Why nothing is learned.
#[derive(Debug, thiserror::Error)]
enum LearnError {
    #[error(transparent)]
    Run(#[from] RunError),
    /// An option of `run` that makes no sense here.
    #[error("a command can't be learned with {option}: {reason}")]
    Option { option: &'static str, reason: &'static str },
    /// Not a name that `--profile` would find.
    #[error("{name:?} can't be a profile's name")]
    Name { name: String },
    /// A profile of this name is there without the user's doing.
    #[error("{name:?} is the name of {}, which the learned profile would replace for you", of(.file.as_deref()))]
    Shipped { name: String, file: Option<PathBuf>, hint: String },
    /// The profile can't be written.
    #[error(transparent)]
    Keep(#[from] keep::KeepError),
}

impl LearnError {
    fn say(&self) {
        let hint = match self {
            Self::Run(error) => return error.say(),
            Self::Option { .. } => "palisade learn -- COMMAND…",
            Self::Name { .. } => "palisade learn --name NAME -- COMMAND…",
            Self::Shipped { hint, .. } => hint,
            Self::Keep(_) => "palisade learn --output FILE -- COMMAND…",
        };
        output::error(self, Some(hint));
    }
}

fn learn(options: &Options, matches: &ArgMatches, begun: Instant) -> Result<u8, LearnError> {
    let command = options.run.command();
    let Some(program) = command.first() else {
        return Err(RunError::from(StartError::NoCommand).into());
    };
    unsuitable(&options.run)?;
    let name = name_of(options, program)?;
    let situation = Situation::gather(&options.run, matches)?;
    if options.output.is_none() && !options.run.dry_run && !options.force {
        shadows(options, &name, &situation.facts)?;
    }
    let plan = situation.plan()?;
    let quiet = options.run.quiet;
    let first = match watch(options, &plan, begun) {
        Ok(watched) => watched,
        Err(error) => return Ok(run::fail(&error)),
    };
    if first.journal.overflowed() {
        output::note(&"more was used than is remembered: the profile lacks some of it");
    }
    let view = situation.loaded.policy.view().value.min(View::System);
    let base = situation.base(view)?;
    let account = Account::of(&first.journal, &plan, &base, &situation.facts.account.home, &Disk);
    let (code, hosts) = (first.code, &first.hosts);
    let learned = profile::Learned { name: &name, command: &command, code, account: &account, hosts, view };
    let (layer, remarks) = learned.layer(&situation.own, &situation.facts);
    let run = checked::Run { plan: &plan, journal: &first.journal, account: &account, hosts };
    let checked = checked::check(&situation, &run, layer, remarks)?;
    for difference in &checked.differences {
        output::note(&palisade_text::harmless(difference));
    }
    let keeping = keep::Keeping {
        text: &checked.text,
        name: &name,
        file: options.output.as_deref(),
        profiles: &situation.facts.places.config.join("profiles"),
        show_only: options.run.dry_run,
        agreed: options.yes,
        quiet,
    };
    keeping.propose()?;
    Ok(code)
}

/// What a command did.
struct Watched {
    code: u8,
    journal: Journal,
    hosts: Hosts,
}

/// Runs the command and watches it.
fn watch(options: &Options, plan: &Plan<'_>, begun: Instant) -> Result<Watched, StartError> {
    let mut journal = Journal::default();
    let mut hosts = Hosts::of(plan);
    let command = options.run.command();
    let presentation = options.run.presentation();
    let code = run::apply(plan, &command, presentation, begun, false, &mut |happening| match happening {
        Happening::Used { how, came, path, program } => journal.note(*how, *came, path, program),
        Happening::Network { report, .. } => hosts.note(report),
        Happening::Refused { rule, .. } if !rule.locked && !rule.anchored => journal.note_name(&rule.path),
        _ => {}
    })?;
    Ok(Watched { code, journal, hosts })
}

/// An error if a profile of this name is there without the user's doing, and the user has none.
fn shadows(options: &Options, name: &str, facts: &Facts) -> Result<(), LearnError> {
    let called = layers::definitions(facts, Sort::Profile).into_iter().filter(|known| known.name == name);
    let mut highest: Option<Definition> = None;
    for known in called {
        if highest.as_ref().is_none_or(|highest| highest.layer < known.layer) {
            highest = Some(known);
        }
    }
    let Some(shipped) = highest.filter(|highest| highest.layer < Layer::User) else { return Ok(()) };
    let words = std::env::args_os().skip_while(|word| word != "learn").skip(1);
    let rest: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    let rest = rest.join(" ");
    let hint = if options.name.is_some() {
        format!("palisade learn --force {rest}")
    } else {
        format!("palisade learn --name {} {rest}   # or with --force", quoted(&format!("{name}-own")))
    };
    Err(LearnError::Shipped { name: name.to_owned(), file: shipped.file, hint })
}

/// A profile that isn't the user's.
fn of(file: Option<&Path>) -> String {
    match file {
        Some(file) => format!("the profile {}", file.display()),
        None => "a profile that Palisade ships".to_owned(),
    }
}

/// Options of `run` that can't be kept here.
fn unsuitable(options: &RunOptions) -> Result<(), LearnError> {
    if options.plan.is_some() {
        return Err(LearnError::Option { option: "--plan", reason: "a plan has been made already" });
    }
    if Isolation::from(options.namespaces) == Isolation::InPlace {
        let reason = "without namespaces there is nobody to watch it";
        return Err(LearnError::Option { option: "--namespaces none", reason });
    }
    Ok(())
}

/// What the profile is called: as asked, or as the command's file without what tells its kind.
fn name_of(options: &Options, program: &OsString) -> Result<String, LearnError> {
    let name = match (&options.name, &options.run.line) {
        (Some(name), _) => name.clone(),
        // `-c LINE` would be called `sh`.
        (None, Some(_line)) => "line".to_owned(),
        (None, None) => {
            let name = Path::new(program).file_stem().unwrap_or(program);
            name.to_string_lossy().into_owned()
        }
    };
    if layers::is_profile_name(&name) { Ok(name) } else { Err(LearnError::Name { name }) }
}

/// The host, the policy, and what of it is the profile's own.
struct Situation {
    facts: Facts,
    loaded: layers::Loaded,
    /// What the profile starts from: what was said on the command line and in the profile it refines,
    /// but for what is granted.
    own: LayerPolicy,
}

impl Situation {
    fn gather(options: &RunOptions, matches: &ArgMatches) -> Result<Self, RunError> {
        let cwd = std::env::current_dir().map_err(|source| RunError::Cwd { source })?;
        let environment: Environment = std::env::vars_os().collect();
        let mut facts = Facts::gather(environment, cwd).map_err(PlanError::from)?;
        facts.command = options.command();
        facts.run_by(options.profile.as_deref());
        let command_line = options.layer(matches)?;
        let refined = options.profile.as_deref().map(|name| layers::profile(&facts, name)).transpose()?;
        let own = profile::own(refined, &command_line);
        let request = layers::Request { profile: options.profile.as_deref(), ..Default::default() };
        let loaded = layers::load(&facts, request, command_line)?;
        Ok(Self { facts, loaded, own })
    }

    fn plan(&self) -> Result<Plan<'static>, RunError> {
        Ok(planner::learn(&self.facts, &self.loaded.policy, self.loaded.project.as_deref())?)
    }

    /// What holds by a view without grants, but that the working directory can be read.
    fn base(&self, view: View) -> Result<Plan<'static>, RunError> {
        let mut layer = LayerPolicy::command_line();
        layer.set_view(view, 0);
        layer.add_path(Access::Read, ".", 0).map_err(|source| {
            RunError::Option(crate::run_options::OptionError::Path {
                option: "ro",
                value: ".".to_owned(),
                source,
            })
        })?;
        let policy = merge(vec![built_in(), layer]);
        Ok(planner::make(&self.facts, &policy, None, Isolation::Full)?)
    }
}
