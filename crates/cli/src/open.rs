// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade open`: opens an application by its profile.

use crate::home::{self, Home};
use crate::opened::{self, This};
use crate::run::{self, FAILURE, RunError};
use crate::run_options::{LaunchOptions, OptionError};
use crate::scan::{self, Opened, Presentation};
use clap::{ArgMatches, Args, ValueHint};
use palisade::{Application, Request, Situation, Subject};
use palisade_policy::LayerPolicy;
use palisade_policy::word::Word;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::application;
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::cache::{Cache, Key, Stored};
use palisade_sandbox::plan::store;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Opens an application with only what its profile gives it: its program and libraries, the
/// features that it needs, a home of its own.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit code: as `palisade run`.

Examples:
  palisade open chromium https://example.org
  palisade open --config clean chromium
  palisade open okular ~/report.pdf        the file is there, and nothing else of the home
  palisade profile list                    which there are")]
pub(crate) struct Options {
    /// Open a variant of the profile
    #[arg(long, value_name = "NAME")]
    pub(crate) config: Option<String>,
    /// Another program than the profile's: a path or a name
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub(crate) program: Option<String>,
    #[command(flatten)]
    pub(crate) launch: LaunchOptions,
    /// The profile, a name or a file, and the application's arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROFILE [ARGUMENTS]")]
    pub(crate) words: Vec<OsString>,
}

/// The key of a plan that holds for these arguments only.
fn key_with(key: &Key, arguments: &[OsString]) -> Key {
    let joined: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
    key.of_program(&OsString::from_vec(joined.join(&0)))
}

/// The command that a plan runs.
pub(crate) fn command(plan: &Plan<'_>, arguments: &[OsString]) -> Vec<OsString> {
    let own = plan.command.iter().map(|word| OsStr::from_bytes(word.as_bytes()).to_owned());
    own.chain(arguments.iter().filter(|_| !plan.lifecycle.complete).cloned()).collect()
}

/// Opens the application if a kept plan fits the arguments.
pub(crate) fn shortcut(arguments: &[OsString], begun: Instant) -> Option<u8> {
    kept(&scan::scan_open(arguments)?, begun)
}

/// Opens the application if a kept plan fits the request.
pub(crate) fn kept(opened: &Opened<'_>, begun: Instant) -> Option<u8> {
    let cwd = std::env::current_dir().ok()?;
    let (anywhere, directory) = scan::key_of_open(opened, Path::new(""));
    let cache = store::cache(directory?, rustix::process::geteuid().as_raw());
    let names_files = application::names_files(opened.arguments, &cwd);
    let fits = |plan: &Plan<'_>| !names_files || !plan.lifecycle.pass_files || plan.lifecycle.complete;
    // Try the usual case first: an application whose plan doesn't depend on the working directory.
    let mut stored = cache.load(&anywhere);
    let usual =
        stored.as_ref().and_then(Stored::plan).is_some_and(|plan| plan.lifecycle.anywhere && fits(&plan));
    if !usual {
        let (key, _directory) = scan::key_of_open(opened, &cwd);
        let own = if names_files { cache.load(&key_with(&key, opened.arguments)) } else { None };
        stored = own.or_else(|| cache.load(&key));
    }
    let stored = stored?;
    let plan = stored.plan().filter(fits)?;
    let command = command(&plan, opened.arguments);
    match run::apply(&plan, &command, opened.presentation, begun, true, &mut |_happening| {}) {
        Ok(code) => Some(code),
        Err(error) if error.is_stale() || error.wants_overlay() => None,
        // What `palisade explain` can say of a profile, it can't say of a package.
        Err(error) if opened.verb == "package" => Some(run::fail(&error)),
        Err(error) => {
            let situation = situation_of(opened).ok();
            let this = This { verb: opened.verb, profile: opened.profile };
            Some(opened::fail(&error, this, situation.as_ref()))
        }
    }
}

/// Opens the application without a kept plan.
pub(crate) fn run(options: &Options, matches: &ArgMatches, arguments: &[OsString], begun: Instant) -> u8 {
    open("open", options, matches, arguments, begun)
}

/// The same for another verb that opens applications.
pub(crate) fn open(
    verb: &'static str,
    options: &Options,
    matches: &ArgMatches,
    arguments: &[OsString],
    begun: Instant,
) -> u8 {
    let this = This { verb, profile: options.profile() };
    let presentation = Presentation { application: Some(this), ..options.launch.presentation() };
    let started = home::launch(
        |home| prepare(verb, options, matches, arguments, home),
        |plan| {
            let command = command(plan, options.arguments());
            if options.launch.dry_run {
                crate::dry_run::print(plan, &command, options.launch.json);
                return Ok(0);
            }
            run::apply(plan, &command, presentation, begun, false, &mut |_happening| {})
        },
    );
    started.unwrap_or_else(|error| match error {
        RunError::Start(error) => {
            let situation = options.request(matches).ok().and_then(|request| request.settle().ok());
            opened::fail(&error, this, situation.as_ref())
        }
        error => {
            error.say_for(this);
            FAILURE
        }
    })
}

/// States the application's program.
pub(crate) fn say_program(words: &mut LayerPolicy, program: &str) -> Result<(), OptionError> {
    let said = words.say(Word::Program, program, 0);
    said.map(|_words| ()).map_err(|source| OptionError::Value {
        option: "program",
        value: program.to_owned(),
        source,
    })
}

impl Options {
    /// The profile.
    pub(crate) fn profile(&self) -> &OsStr {
        self.words.first().map(OsString::as_os_str).unwrap_or_default()
    }

    /// The request.
    pub(crate) fn request(&self, matches: &ArgMatches) -> Result<Request, RunError> {
        let application = Application {
            profile: self.profile().to_owned(),
            configuration: self.config.clone(),
            arguments: self.arguments().to_vec(),
        };
        let mut request = self.launch.request(matches, Subject::Application(application))?;
        if let Some(program) = &self.program {
            say_program(&mut request.words, program)?;
        }
        Ok(request)
    }

    /// The application's arguments: what follows the profile, without a `--` in front.
    pub(crate) fn arguments(&self) -> &[OsString] {
        match self.words.get(1..) {
            Some([first, rest @ ..]) if first == "--" => rest,
            Some(rest) => rest,
            None => &[],
        }
    }
}

fn prepare(
    verb: &'static str,
    options: &Options,
    matches: &ArgMatches,
    arguments: &[OsString],
    home: Home,
) -> Result<Plan<'static>, RunError> {
    let mut request = options.request(matches)?;
    home.state(&mut request);
    let situation = request.settle()?;
    let mut plan = situation.plan()?;
    home.note(&mut plan);
    // The parser and the scan must agree, or the next launch would run something else.
    let opened = own(verb, options);
    if home == Home::Stated
        && options.launch.env.is_empty()
        && scan::scan_open(arguments).is_some_and(|scanned| scanned == opened)
    {
        keep(&opened, &situation.facts, &plan);
    }
    Ok(plan)
}

/// The situation in which an application is opened without a parsed command line.
fn situation_of(opened: &Opened<'_>) -> Result<Situation, RunError> {
    let application = Application {
        profile: opened.profile.to_owned(),
        configuration: opened.configuration.map(|name| name.to_string_lossy().into_owned()),
        arguments: opened.arguments.to_vec(),
    };
    let mut request = Request::here(Subject::Application(application))?;
    if let Some(program) = opened.program {
        say_program(&mut request.words, &program.to_string_lossy())?;
    }
    Ok(request.settle()?)
}

/// The plan of an application without further options.
fn plain(opened: &Opened<'_>) -> Result<(Plan<'static>, Facts), RunError> {
    let application = Application { profile: opened.profile.to_owned(), ..Application::default() };
    let situation = Request::here(Subject::Application(application))?.settle()?;
    Ok((situation.plan()?, situation.facts))
}

/// Keeps a plan for the next launch with the same arguments. Returns whether the plan may be kept.
pub(crate) fn keep(opened: &Opened<'_>, facts: &Facts, plan: &Plan<'_>) -> bool {
    let Some((key, directory)) = kept_as(opened, facts, plan) else { return false };
    run::keep(&key, directory, facts, plan);
    true
}

/// The key and the directory under which a plan is kept, if it may be kept.
fn kept_as(opened: &Opened<'_>, facts: &Facts, plan: &Plan<'_>) -> Option<(Key, Option<PathBuf>)> {
    if facts.is_volatile() {
        return None;
    }
    let place = if plan.lifecycle.anywhere { Path::new("") } else { &facts.cwd };
    let (mut key, directory) = scan::key_of_open(opened, place);
    if plan.lifecycle.complete {
        key = key_with(&key, opened.arguments);
    }
    Some((key, directory))
}

/// Makes the plan of a profile's application ahead of its launch, and keeps it if asked to. Returns the number of
/// steps, and whether the plan is kept.
pub(crate) fn ahead(profile: &OsStr, kept: bool) -> Result<(usize, bool), RunError> {
    let presentation = Presentation::default();
    let opened =
        Opened { verb: "open", profile, configuration: None, program: None, presentation, arguments: &[] };
    let (plan, facts) = plain(&opened)?;
    Ok((plan.steps.len(), kept && keep(&opened, &facts, &plan)))
}

/// Makes the plan of a profile's application for the system store. Returns the number of steps, and the content to keep
/// if the plan may be kept.
pub(crate) fn for_store(profile: &OsStr) -> Result<(usize, Option<Vec<u8>>), RunError> {
    let presentation = Presentation::default();
    let opened =
        Opened { verb: "open", profile, configuration: None, program: None, presentation, arguments: &[] };
    let (plan, facts) = plain(&opened)?;
    let packed = |(key, _own): (Key, _)| Some(store::packed(&key, &Cache::keepable(&plan)?));
    // A plan for one working directory would be for root's: don't keep it.
    let kept = if plan.lifecycle.anywhere { kept_as(&opened, &facts, &plan) } else { None };
    Ok((plan.steps.len(), kept.and_then(packed)))
}

/// The arguments as the parser read them.
fn own<'o>(verb: &'static str, options: &'o Options) -> Opened<'o> {
    let this = This { verb, profile: options.profile() };
    Opened {
        verb,
        profile: options.profile(),
        configuration: options.config.as_deref().map(OsStr::new),
        program: options.program.as_deref().map(OsStr::new),
        presentation: Presentation { application: Some(this), ..options.launch.presentation() },
        arguments: options.arguments(),
    }
}
