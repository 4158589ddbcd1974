// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade run`: runs a command in a sandbox.

use crate::embedded;
use crate::home::{self, Home};
use crate::opened::This;
use crate::output;
use crate::reporter::Reporter;
use crate::run_options::{RequestError, RunOptions};
use crate::scan::{self, Presentation};
use crate::status::{Status, StatusDescriptor};
use crate::trace::{self, Trace};
use clap::ArgMatches;
use palisade::PlanningError;
use palisade::explanation::CommandExplanation;
use palisade::plan_file::{self, PlanFileError};
use palisade_desktop::user_menu::MenuError;
use palisade_events::{RefusalFile, RefusalOutlet};
use palisade_package::error::PackageError;
use palisade_package::store::Store;
use palisade_sandbox::apply::lifecycle::Company;
use palisade_sandbox::apply::start::{self, Invocation, LaunchEvent, Report};
use palisade_sandbox::error::{PlanError, StartError};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::LayerError;
use palisade_sandbox::learned::kernel::Learner;
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::cache::Key;
use palisade_sandbox::plan::store;
use palisade_sandbox::plan::text::Text;
use palisade_sandbox::refusals::{self, RefusalsSource};
use palisade_sandbox::registry::Number;
use palisade_sandbox::registry::entry::Name;
use palisade_sandbox::view::closure;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Instant;

/// The exit code of Palisade's own failures, as in `docker run` and GNU coreutils.
pub(crate) const FAILURE: u8 = 125;

/// How often a launch is tried while another process replaces what it mounts.
const ATTEMPTS: u32 = 10;

/// Runs the command if a kept plan fits the arguments.
pub(crate) fn shortcut(arguments: &[OsString], begun: Instant) -> Option<u8> {
    if arguments.first().is_some_and(|verb| verb == "open" || verb == "agent") {
        return crate::open::shortcut(arguments, begun);
    }
    let scanned = scan::scan(arguments)?;
    let cwd = std::env::current_dir().ok()?;
    let (key, directory) = scan::key(&scanned.options, &cwd);
    let uid = rustix::process::geteuid().as_raw();
    let cache = store::cache(directory?, uid);
    let other;
    let stored = cache.load(&key)?;
    let mut plan = stored.plan()?;
    if plan.program.is_some() {
        let program = closure::program_of(scanned.command);
        if !plan.is_for(&program) {
            // The last plan was another program's.
            other = cache.load(&key.of_program(&program))?;
            plan = other.plan().filter(|plan| plan.is_for(&program))?;
        }
    }
    match apply(&plan, scanned.command, scanned.presentation, begun, true, &mut |_happening| {}) {
        Ok(code) => Some(code),
        // What it mounts has changed, or another sandbox has the home: plan again.
        Err(error) if error.is_stale() || error.wants_overlay() => None,
        Err(error) => Some(fail_to_run(&error, arguments)),
    }
}

/// Runs the command without a kept plan: parse, merge, plan.
pub(crate) fn run(options: &RunOptions, matches: &ArgMatches, arguments: &[OsString], begun: Instant) -> u8 {
    let presentation = options.presentation();
    let started = home::launch(
        |home| prepare(options, matches, arguments, home),
        |plan| {
            if options.dry_run {
                crate::dry_run::print(plan, &options.command(), options.json);
                return Ok(0);
            }
            apply(plan, &options.command(), presentation, begun, false, &mut |_happening| {})
        },
    );
    started.unwrap_or_else(|error| match error {
        RunError::Start(error) => fail_to_run(&error, arguments),
        error => {
            error.say();
            FAILURE
        }
    })
}

/// As [`fail`]. If the command exists but isn't visible inside, the hint is the option that shows it.
fn fail_to_run(error: &StartError, arguments: &[OsString]) -> u8 {
    let hint = permit(error, arguments).or_else(|| error.hint());
    output::error(error, hint.as_deref());
    error.exit_code()
}

/// The option that makes a command visible inside, as `palisade explain` finds it.
fn permit(error: &StartError, arguments: &[OsString]) -> Option<String> {
    let (StartError::NotFound { command } | StartError::NoInterpreter { command, .. }) = error else {
        return None;
    };
    let (matches, cli) = crate::parse(arguments).ok()?;
    let (crate::Verb::Run(options), Some((_run, matches))) = (cli.verb, matches.subcommand()) else {
        return None;
    };
    let situation = options.request(matches).ok()?.settle().ok()?;
    let permit = CommandExplanation::of(&situation, OsStr::new(command)).ok()?.permit?;
    Some(format!("{}…", permit.strip_suffix("-- COMMAND…")?))
}

/// Why no plan could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// An option is wrong.
    #[error(transparent)]
    Option(#[from] crate::run_options::OptionError),
    /// The request can't be planned.
    #[error(transparent)]
    Planning(#[from] PlanningError),
    /// The command can't be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The content of a package can't be used.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// A package's menu entry can't be made or removed.
    #[error(transparent)]
    Menu(#[from] MenuError),
    /// The given plan can't be launched.
    #[error(transparent)]
    PlanFile(#[from] PlanFileError),
}

impl From<RequestError> for RunError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Option(error) => Self::Option(error),
            RequestError::Planning(error) => Self::Planning(error),
        }
    }
}

impl From<PlanError> for RunError {
    fn from(error: PlanError) -> Self {
        Self::Planning(error.into())
    }
}

impl RunError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Option(error) => error.hint(),
            Self::Planning(error) => error.hint(),
            Self::Start(error) => error.hint(),
            Self::Package(error) => error.hint(),
            Self::Menu(error) => error.hint(),
            Self::PlanFile(error) => Some(error.hint()),
        }
    }

    pub(crate) fn say(&self) {
        self.say_with(self.hint());
    }

    /// As [`Self::say`], for a launch of an application.
    pub(crate) fn say_for(&self, application: This<'_>) {
        let of = |hint| match application.verb {
            "agent" => application.hint(hint),
            _ => crate::opened::of_application(hint),
        };
        self.say_with(self.hint().map(of));
    }

    fn say_with(&self, hint: Option<String>) {
        match self {
            // It shows the lines of the file that are wrong.
            Self::Planning(PlanningError::Layer(LayerError::Parse { .. })) => {
                output::error_in_lines(self, hint.as_deref());
            }
            _ => output::error(self, hint.as_deref()),
        }
    }
}

fn prepare(
    options: &RunOptions,
    matches: &ArgMatches,
    arguments: &[OsString],
    home: Home,
) -> Result<Plan<'static>, RunError> {
    if options.command().is_empty() && !options.dry_run {
        return Err(StartError::NoCommand.into());
    }
    let mut request = options.request(matches)?;
    home.state(&mut request);
    let situation = request.settle()?;
    let mut plan = situation.plan()?;
    home.note(&mut plan);
    let facts = &situation.facts;
    if let Some(path) = &options.plan {
        plan_file::confirm(path, facts, &plan)?;
        let note = format!(
            "the plan comes from {}: the policy and these options make the same plan",
            path.display()
        );
        plan.notes.push(Cow::Owned(note));
    }
    if home == Home::Stated
        && options.may_be_kept()
        && !facts.is_volatile()
        && let Some(scanned) = scan::scan(arguments)
        // The parser and the scan must agree, or the next launch would run something else.
        && scanned.command == options.command()
    {
        let (key, directory) = scan::key(&scanned.options, &facts.cwd);
        keep(&key, directory, facts, &plan);
    }
    Ok(plan)
}

/// Keeps a plan for the next launch, but only in the caller's own cache.
pub(crate) fn keep(key: &Key, directory: Option<PathBuf>, facts: &Facts, plan: &Plan<'_>) {
    // Under sudo the variables may name another user's cache.
    if let Some(directory) = directory
        && directory.starts_with(&facts.places.cache)
    {
        let packages = directory.parent().map(|cache| Store::new(cache, facts.account.uid));
        let cache = store::cache(directory, facts.account.uid);
        // Unpacked packages lie beside the plans. Keeping a plan removes old packages, as it removes old plans.
        if cache.store(key, plan)
            && let Some(packages) = packages
        {
            packages.sweep();
        }
        if plan.program.is_some() {
            cache.store(&key.of_program(&closure::program_of(&facts.command)), plan);
        }
    }
}

/// Reports why the command couldn't be started.
pub(crate) fn fail(error: &StartError) -> u8 {
    output::error(error, error.hint().as_deref());
    error.exit_code()
}

/// Applies a plan and reports as the options ask. `listen` receives every event, too.
pub(crate) fn apply(
    plan: &Plan<'_>,
    command: &[OsString],
    presentation: Presentation<'_>,
    begun: Instant,
    kept: bool,
    listen: &mut dyn FnMut(&LaunchEvent<'_>),
) -> Result<u8, StartError> {
    if !presentation.quiet {
        for note in &plan.notes {
            output::note(note);
        }
        if presentation.application.is_some_and(|application| application.verb == "agent") {
            crate::agent::tell_keys(&plan.environment);
        }
    }
    if presentation.verbose {
        output::say(&crate::dry_run::words(plan, command));
    }
    let status = match presentation.status_fd.map(StatusDescriptor::inherited).transpose() {
        Ok(status) => status,
        Err(errno) => {
            output::error(
                &format_args!("can't write to --status-fd: {errno}"),
                Some("palisade run --status-fd 3 … 3>FILE"),
            );
            return Ok(FAILURE);
        }
    };
    let name = match presentation.name.map(|name| Name::take(name, plan.listing.as_ref())).transpose() {
        Ok(name) => name,
        Err(error) => {
            output::error(&error, error.hint().as_deref());
            return Ok(FAILURE);
        }
    };
    let company = Company::begin(&plan.lifecycle)?;
    let learner = match Learner::begin(plan) {
        Ok(learner) => learner,
        Err(error) => {
            output::error(&error, Some(error.hint()));
            return Ok(FAILURE);
        }
    };
    let number = Number::now();
    let mut source = refusals_source(plan, presentation.quiet);
    let path = source.as_ref().map(|source| source.path().to_owned());
    let outlets = outlets(plan, source.as_mut(), status.as_ref());
    let mut reporter = Reporter::new(command, plan, number, presentation, outlets);
    let mut trace = plan.lifecycle.trace.then(Trace::default);
    let command: Result<Vec<Text<'_>>, _> =
        command.iter().map(|argument: &OsString| Text::new(argument.as_os_str().as_bytes())).collect();
    let first_argument = presentation.first_argument.map(|word| Text::new(word.as_bytes())).transpose();
    let result = command.map_err(StartError::from).and_then(|command| {
        let first_argument = first_argument?;
        let planned = begun.elapsed();
        let invocation = Invocation {
            command: &command,
            first_argument: first_argument.as_ref(),
            environment: &plan.environment,
            timings: presentation.timings,
            may_replace: !presentation.timings
                && status.is_none()
                && name.is_none()
                && !plan.lifecycle.needs_launcher()
                && embedded::link().is_none(),
            parent: company.parent(),
            serve_network: crate::network::serve,
            number,
            name: name.as_ref(),
            refusals: path.as_deref(),
        };
        let mut attempt = || {
            start::run(plan, &invocation, &mut |launch_event| {
                if let LaunchEvent::Started(running, _number) = &launch_event {
                    // It is mounted.
                    drop(source.take());
                    status.iter().for_each(|status| status.emit(Status::started(*running, plan)));
                }
                listen(&launch_event);
                if let Some(trace) = &mut trace {
                    trace.hear(&launch_event);
                }
                reporter.tell(&launch_event);
            })
        };
        let mut left = ATTEMPTS;
        let report = loop {
            left -= 1;
            match attempt() {
                Err(error) if error.is_replaced() && left > 0 => {}
                result => break result?,
            }
        };
        Ok((report, planned))
    });
    match learner.map(Learner::end).transpose() {
        Ok(learned) => learned.into_iter().for_each(|(called, lost)| reporter.called(&called, lost, listen)),
        Err(error) => output::error(&error, Some(error.hint())),
    }
    let code = result.as_ref().ok().map(|(report, _planned)| report.outcome.code());
    reporter.conclude(code, plan);
    if let Err(error) = company.end() {
        output::error(&error, error.hint().as_deref());
        return Ok(FAILURE);
    }
    match result {
        Ok((report, planned)) => {
            if let Some(status) = &status {
                status.emit(Status::ended(report.outcome));
            }
            if let Some(link) = embedded::link() {
                link.ended(report.outcome);
            }
            if presentation.timings {
                say_timings(&report, planned);
            }
            if let Some(trace) = &trace {
                trace.say(plan);
            }
            if plan.lifecycle.stats {
                trace::say_stats(plan, begun.elapsed());
            }
            Ok(plan.lifecycle.code(report.outcome.code()))
        }
        Err(error) => {
            if let Some(status) = &status
                && !(kept && error.is_stale())
            {
                status.emit(Status::failed(&error));
            }
            Err(error)
        }
    }
}

/// The file in which programs inside read refusals. Without it the launch goes on, because the file protects nothing.
fn refusals_source(plan: &Plan<'_>, quiet: bool) -> Option<RefusalsSource> {
    RefusalsSource::make(plan).unwrap_or_else(|error| {
        if !quiet {
            let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
            output::note(&format_args!("programs inside can't read what was refused: {error}{hint}"));
        }
        None
    })
}

/// The places where programs read the refusals of a launch: inside, in the user's file, at the status descriptor.
fn outlets(
    plan: &Plan<'_>,
    source: Option<&mut RefusalsSource>,
    status: Option<&StatusDescriptor>,
) -> Vec<Box<dyn RefusalOutlet>> {
    let mut outlets: Vec<Box<dyn RefusalOutlet>> = Vec::new();
    if let Some(file) = source.and_then(RefusalsSource::take) {
        outlets.push(Box::new(RefusalFile::new(file)));
    }
    // Inside another sandbox the variable names that sandbox's file, which only its launcher writes.
    let own = std::env::var_os(refusals::VARIABLE)
        .filter(|path| plan.lifecycle.refusals && !path.is_empty() && path != refusals::FILE);
    if let Some(path) = own {
        outlets.push(Box::new(RefusalFile::at(path.into(), refusals::writable(plan))));
    }
    if let Some(status) = status {
        outlets.push(Box::new(status.clone()));
    }
    outlets
}

/// Prints how long the parts of a launch took, in milliseconds.
fn say_timings(report: &Report, planned: std::time::Duration) {
    let stamps = report.stamps;
    let since = |to: u64, from: u64| to.saturating_sub(from) / 1000;
    let rows = [
        ("plan", u64::try_from(planned.as_micros()).unwrap_or(u64::MAX)),
        ("namespaces", since(stamps.namespaces, stamps.start)),
        ("mounts", since(stamps.mounts, stamps.namespaces.max(stamps.start))),
        ("network", since(stamps.network, stamps.mounts)),
        ("filter", since(stamps.filter, stamps.network.max(stamps.mounts))),
        ("exec", since(stamps.exec, stamps.filter)),
    ];
    let mut text = String::from("palisade: launch");
    let mut total = 0;
    for (name, micros) in rows {
        total += micros;
        text.push_str(&format!("  {name} {:.3} ms", milliseconds(micros)));
    }
    text.push_str(&format!("  in all {:.3} ms\n", milliseconds(total)));
    output::say(&text);
}

fn milliseconds(micros: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a launch takes less than 2^52 µs")]
    let micros = micros as f64;
    micros / 1000.0
}
