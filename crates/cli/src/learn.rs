// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade learn`: runs a command as `run` does, and writes a profile that allows what the command did and little else.
//!
//! The options set the command's walls, as always: what is refused stays refused, and is a comment in the profile. No
//! profile is in force before the user has seen it.

mod checked;
mod keep;
mod verify;

pub(crate) use self::keep::{difference, write};
use self::verify::Handed;
pub(crate) use self::verify::second_run as is_second_run;
use crate::output;
use crate::run::{self, RunError};
use crate::run_options::{RequestError, RunOptions};
use clap::{ArgMatches, Args, ValueHint};
use palisade::{PlanningError, Request};
use palisade_policy::{Access, Layer, LayerPolicy, View, built_in, merge};
use palisade_sandbox::apply::start::LaunchEvent;
use palisade_sandbox::error::StartError;
use palisade_sandbox::error::quoted;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{self, Definition, Sort};
use palisade_sandbox::learned::calls::{self, Calls};
use palisade_sandbox::learned::hosts::Hosts;
use palisade_sandbox::learned::{AccessTrace, Disk, Under, UsageSummary, profile};
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::planner::Isolation;
use palisade_sys::wait;
use palisade_syscall::store::StoreError;
use std::ffi::OsString;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs a command in isolation, watches what it reads, writes, executes and connects to, and proposes
/// a profile that allows just that.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "\
The command runs behind the walls that the options ask for, as with `palisade run`: learning
permits nothing. What was wanted and refused stands in the profile as comments, and stays refused.
Exit code: the command's own, as with `palisade run`; with --verify 125 if the profile isn't enough.

Examples:
  palisade learn -- cargo build                 proposes the profile `cargo`
  palisade learn --name web --yes -- npm test   writes it without asking
  palisade learn --verify -- make               runs it again with the profile, then asks
  palisade learn --view host -- ./tool          what of the whole host does it need?",
    mut_arg("dry_run", |arg| arg.help("Show the profile and write nothing")),
    mut_arg("json", |arg| arg.hide(true)),
    mut_arg("plan", |arg| arg.hide(true)),
    mut_arg("namespaces", |arg| arg.hide(true)),
    // `--name` is the profile's here.
    mut_arg("sandbox_name", |arg| arg.long("sandbox-name").hide(true)),
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
    /// Run the command a second time, under the profile, before it is written: it has to end as the first time and be
    /// refused nothing. With --yes a profile that isn't enough isn't written
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    run: RunOptions,
}

impl Options {
    /// The request.
    pub(crate) fn request(&self, matches: &ArgMatches) -> Result<Request, RequestError> {
        self.run.request(matches)
    }

    /// The user to run as.
    pub(crate) fn account(&self) -> Option<&str> {
        self.run.launch.account.as_deref()
    }
}

/// Learns a command. Returns the command's exit code. `second`: the descriptor with the result of the first run, if
/// this is the second run.
pub(crate) fn run(options: &Options, matches: &ArgMatches, second: Option<u32>, begun: Instant) -> u8 {
    match learn(options, matches, second, begun) {
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
    /// An option of `run` that has no meaning here.
    #[error("a command can't be learned with {option}: {reason}")]
    Option { option: &'static str, reason: &'static str },
    /// Not a name that `--profile` would find.
    #[error("{name:?} can't be a profile's name")]
    Name { name: String },
    /// A profile of this name exists, and the user didn't make it.
    #[error("{name:?} is the name of {}, which the learned profile would replace for you", of(.file.as_deref()))]
    Shipped { name: String, file: Option<PathBuf>, hint: String },
    /// The profile can't be written.
    #[error(transparent)]
    Keep(#[from] keep::KeepError),
    /// The command can't be run a second time.
    #[error(transparent)]
    Verify(#[from] verify::VerifyError),
    /// Learned system calls can't be read, or can't be given to the profile.
    #[error("can't use the profile's learned system calls: {0}")]
    Calls(#[from] StoreError),
}

impl LearnError {
    fn say(&self) {
        let hint = match self {
            Self::Run(RunError::Start(StartError::NoCommand)) => "palisade learn -- COMMAND…",
            Self::Run(error) => return error.say(),
            Self::Option { .. } => "palisade learn -- COMMAND…",
            Self::Name { .. } => "palisade learn --name NAME -- COMMAND…",
            Self::Shipped { hint, .. } => hint,
            Self::Keep(_) => "palisade learn --output FILE -- COMMAND…",
            Self::Verify(_) => "palisade learn -- COMMAND…   # without --verify",
            Self::Calls(_) => "palisade syscalls list   # shows whether the store can be read",
        };
        output::error(self, Some(hint));
    }
}

fn learn(
    options: &Options,
    matches: &ArgMatches,
    second: Option<u32>,
    begun: Instant,
) -> Result<u8, LearnError> {
    let command = options.run.command();
    let Some(program) = command.first() else {
        return Err(RunError::from(StartError::NoCommand).into());
    };
    unsuitable(&options.run)?;
    let name = name_of(options, program)?;
    let situation = Situation::gather(options, matches)?;
    if options.output.is_none() && !options.run.dry_run && !options.force {
        shadows(options, &name, &situation.facts)?;
    }
    let under = situation.under()?;
    if let Some(number) = second {
        return second_run(options, &situation, &name, &under, number, begun);
    }
    let plan = &under.plan;
    let beginning = verify::beginning();
    let first = match watch(options, plan, begun) {
        Ok(watched) => watched,
        Err(error) => return Ok(run::fail(&error)),
    };
    if first.trace.overflowed() {
        output::note(&"the command used more than the trace can hold: the profile lacks a part of it");
    }
    let view = situation.loaded.policy.view().value.min(View::System);
    let base = situation.base(view)?;
    let account = UsageSummary::of(&first.trace, plan, &base, &situation.facts.account.home, &Disk);
    let (code, hosts) = (first.code, &first.hosts);
    let learned = profile::Learned { name: &name, command: &command, code, account: &account, hosts, view };
    let (layer, remarks) = learned.layer(&situation.own, &situation.facts);
    let run = checked::Run {
        under: &under,
        trace: &first.trace,
        account: &account,
        hosts,
        calls: &first.calls,
        known: &first.calls.known(&situation.facts, &name, options.output.as_deref())?,
    };
    let checked = checked::check(&situation, &run, layer, remarks)?;
    for difference in &checked.differences {
        output::note(&palisade_text::harmless(difference));
    }
    if options.verify {
        if !options.run.quiet {
            output::note(&"the command runs a second time, under the profile");
        }
        let refused = first.trace.refused().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        let handed = Handed { profile: checked.text, code, refused };
        return Err(verify::again(&handed, beginning).into());
    }
    keep(options, &situation, &name, plan, &checked.text)?;
    Ok(code)
}

/// The second run: runs the command under the profile that the first run made.
fn second_run(
    options: &Options,
    situation: &Situation,
    name: &str,
    first: &Under,
    number: u32,
    begun: Instant,
) -> Result<u8, LearnError> {
    let handed = verify::take(number)?;
    let (differences, code) = match checked::under(situation, &handed.profile) {
        Err(reason) => (vec![checked::unusable(&reason)], run::FAILURE),
        Ok(second) => match watch(options, &second.plan, begun) {
            Err(error) => (vec![error.to_string()], run::FAILURE),
            Ok(run) => {
                let differences = verify::differences(&handed, situation, (first, &second), &run);
                (differences.map_err(RunError::from)?, run.code)
            }
        },
    };
    let enough = verify::say(&differences, code, options);
    let unasked = options.yes || options.output.as_deref() == Some(Path::new("-"));
    if !enough && unasked && !options.run.dry_run {
        output::note(&"nothing is written");
        return Ok(run::FAILURE);
    }
    keep(options, situation, name, &first.plan, &handed.profile)?;
    Ok(if enough { code } else { run::FAILURE })
}

/// Offers the profile. If the user keeps it, gives it the learned system calls.
fn keep(
    options: &Options,
    situation: &Situation,
    name: &str,
    plan: &Plan<'_>,
    text: &str,
) -> Result<(), LearnError> {
    let file = options.output.as_deref();
    let keeping = keep::Keeping {
        text,
        name,
        file,
        profiles: &situation.facts.places.config.join("profiles"),
        show_only: options.run.dry_run,
        agreed: options.yes,
        quiet: options.run.quiet,
    };
    if keeping.propose()? {
        calls::give(plan, &situation.facts, name, file)?;
    }
    Ok(())
}

/// What a command did.
struct Watched {
    code: u8,
    trace: AccessTrace,
    hosts: Hosts,
    calls: Calls,
}

/// Runs the command and watches it. Afterwards signals are handled as before, because the user may be asked or the
/// command may run again.
fn watch(options: &Options, plan: &Plan<'_>, begun: Instant) -> Result<Watched, StartError> {
    let mut trace = AccessTrace::default();
    let mut hosts = Hosts::of(plan);
    let mut calls = Calls::default();
    let command = options.run.command();
    let presentation = options.run.presentation();
    let signals = wait::signal_mask().map_err(|source| StartError::Wait { source })?;
    let code = run::apply(plan, &command, presentation, begun, false, &mut |launch_event| {
        calls.note(launch_event);
        match launch_event {
            LaunchEvent::Used { how, came, path, program } => trace.note(*how, *came, path, program),
            LaunchEvent::Network { told, .. } => hosts.note(told),
            LaunchEvent::Refused { rule, .. } if !rule.locked && !rule.anchored => {
                trace.note_name(&rule.path)
            }
            _ => {}
        }
    });
    wait::set_signal_mask(signals).map_err(|source| StartError::Wait { source })?;
    Ok(Watched { code: code?, trace, hosts, calls })
}

/// An error if a profile of this name exists that the user didn't make, and the user has none.
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

/// Names a profile that isn't the user's.
fn of(file: Option<&Path>) -> String {
    match file {
        Some(file) => format!("the profile {}", file.display()),
        None => "a profile that Palisade ships".to_owned(),
    }
}

/// An error for options of `run` that don't work here.
fn unsuitable(options: &RunOptions) -> Result<(), LearnError> {
    if options.plan.is_some() {
        return Err(LearnError::Option { option: "--plan", reason: "a plan has been made already" });
    }
    if Isolation::from(options.namespaces) == Isolation::InPlace {
        let reason = "without namespaces no process can receive the system calls";
        return Err(LearnError::Option { option: "--namespaces none", reason });
    }
    Ok(())
}

/// The profile's name: as asked, or the name of the command's file without its extension.
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

/// The host, the policy, and the part of the policy that becomes the profile's own.
struct Situation {
    settled: palisade::Situation,
    /// What the profile starts from: the statements of the command line and of the profile that is refined, without grants.
    own: LayerPolicy,
}

impl Deref for Situation {
    type Target = palisade::Situation;

    fn deref(&self) -> &palisade::Situation {
        &self.settled
    }
}

impl Situation {
    fn gather(options: &Options, matches: &ArgMatches) -> Result<Self, RunError> {
        let request = options.request(matches)?;
        let words = request.words.clone();
        let settled = request.settle()?;
        let refined =
            options.run.profile.as_deref().map(|name| layers::profile(&settled.facts, name)).transpose();
        let own = profile::own(refined.map_err(PlanningError::from)?, &words);
        Ok(Self { settled, own })
    }

    fn under(&self) -> Result<Under, RunError> {
        Ok(Under { policy: self.loaded.policy.clone(), plan: self.plan_to_learn()? })
    }

    /// The plan of a view without grants, except that the working directory can be read.
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
        Ok(self.plan_by_only(&merge(vec![built_in(), layer]))?)
    }
}
