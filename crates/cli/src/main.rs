// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Palisade: starts programs in isolation and says what was refused and why.
//!
//! - [`scan`], [`run`], [`run_options`], [`network_options`], [`dry_run`], [`reporter`], [`status`]: `palisade run`
//! - [`embedded`]: a launch for a program that embeds Palisade
//! - [`open`], [`opened`]: `palisade open`, and hints about it
//! - [`agent`]: coding agents
//! - [`home`]: a launch whose home another sandbox has
//! - [`asked`]: the options of a launch, for verbs that only read
//! - [`trace`]: what is printed after a launch
//! - [`learn`]: `palisade learn`
//! - [`explain`] with `explain_path`, `explain_host`, `explain_command`, `explain_name`; [`check`], [`doctor`],
//!   [`config`], [`profile`], [`project`]: the verbs that read and trust
//! - [`caches`]: what is kept for each project
//! - [`desktop`]: links, desktop entries and services that start profiles
//! - [`guard`]: exec control, which decides what may execute on this host at all
//! - [`scope`]: marked subtrees of processes
//! - [`palisaded`]: shows the daemon's events
//! - [`import`]: profiles of other launchers
//! - [`package`], [`packaged`], [`package_info`]: applications as one program each, and what such a program does
//! - [`shell`]: the user's own shell behind the shell proxy
//! - [`syscalls`]: which system calls were learned
//! - [`bwrap`]: bubblewrap's command line
//! - [`agent_install`], [`mcp_wrap`], [`wrap`]: hooks of agents, wrapped servers and wrapped commands; [`hook`]: what they
//!   start; [`kept`], [`link`], [`changed_settings`], `hook_error`: their options, links, differences and errors
//! - [`interpose`]: a command's system calls, counted or answered in the command's own processes
//! - [`mcp`]: answers agents about their sandbox
//! - [`watch`]: what is refused and decided, as it happens; [`ps`]: which sandboxes run
//! - [`own`]: how this program was installed, and how to update and remove it
//! - [`completions`], [`man`], [`schema`]: files for packages and editors
//! - [`setup`]: what a host's AppArmor needs so that launches work
//! - [`situation`], [`verb`]: common code of these verbs: what they read, and how they answer
//! - [`mod@bench`]: executes the measuring suite
//! - [`output`], [`progress`]: messages and progress bars for people
#![forbid(unsafe_code)]

mod account;
mod aftermath;
mod agent;
mod agent_install;
mod asked;
mod asking;
mod bench;
mod bwrap;
mod caches;
mod calls;
mod changed_settings;
mod check;
mod completions;
mod config;
mod desktop;
mod doctor;
mod dry_run;
mod embedded;
mod explain;
mod explain_command;
mod explain_guarantee;
mod explain_host;
mod explain_name;
mod explain_path;
mod guard;
mod home;
mod hook;
mod hook_error;
mod import;
mod interpose;
mod kept;
mod learn;
mod link;
mod man;
mod mcp;
mod mcp_wrap;
mod network;
mod network_options;
mod notice;
mod open;
mod opened;
mod option_error;
mod output;
mod own;
mod package;
mod package_info;
mod package_menu;
mod packaged;
mod palisaded;
mod profile;
mod progress;
mod project;
mod prompt;
mod ps;
mod question;
mod reporter;
mod repositories;
mod run;
mod run_options;
mod scan;
mod schema;
mod scope;
mod setup;
mod shell;
mod situation;
mod status;
mod store;
mod syscalls;
mod trace;
mod verb;
mod watch;
mod why;
mod wrap;

use clap::{FromArgMatches, Parser, Subcommand};
use palisade_package::trailer::Trailer;
use palisade_sandbox::bus::launcher;
use palisade_sandbox::bus::proxy::ATTEND;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Confines programs and controls what runs, fast enough that nobody turns it off.
#[derive(Debug, Parser)]
#[command(name = "palisade", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a command in isolation
    Run(Box<run_options::RunOptions>),
    /// Open an application by its profile
    Open(Box<open::Options>),
    /// Run a coding agent: its project writable, secrets hidden, only its own hosts, a home of its own
    Agent(Box<agent::Options>),
    /// Run a command, watch what it uses, and write a profile that allows just that
    Learn(Box<learn::Options>),
    /// Say what happens with a path, a host, a command, a system call or a variable, and why
    Explain(Box<explain::Options>),
    /// Say whether a policy file can be understood
    Check(Box<check::Options>),
    /// Say what this host can guarantee, and what to do about the rest
    Doctor(Box<doctor::Options>),
    /// Make launches work where AppArmor refuses user namespaces
    Setup(setup::Options),
    /// Show the merged policy, and where its files are
    Config(config::Options),
    /// List, show and change profiles
    Profile(profile::Options),
    /// List, show and change features
    Feature(profile::FeatureOptions),
    /// Say what may execute on this host: rules, trust, and what the daemon does with them
    Guard(Box<guard::Options>),
    /// Mark commands and processes, with all that they start: watched, warned about, killed or refused
    Scope(Box<scope::Options>),
    /// Take over a profile of Antimony or firejail, or the rules and trust of fapolicyd
    Import(import::Options),
    /// Have only the system's policy and plans count for ordinary users
    Store(store::Options),
    /// Put a project's policy file in force, or take it back
    Project(project::Options),
    /// List and remove what is kept of package managers and compilers for each project
    Caches(caches::Options),
    /// Have named commands always run confined
    Wrap(wrap::Options),
    /// Have applications' links and desktop entries start their profiles
    Desktop(desktop::Options),
    /// Make one program of an application and all that it needs
    Package(Box<package::Options>),
    /// Show, compare, exchange and forget which system calls were learned
    Syscalls(syscalls::Options),
    /// Count a command's system calls inside its own processes
    Interpose(interpose::Options),
    /// Run a command as bubblewrap's `bwrap` does, with its options
    Bwrap(bwrap::Options),
    /// Start your own shell with history, ghost text and a guard in front of it
    Shell(Box<shell::Options>),
    /// Show what sandboxes are refused, what the guard decides and what happens in scopes, as it happens
    Watch(watch::Options),
    /// Say what the last launch from this terminal was refused, and what would permit it
    Why(why::Options),
    /// Serve agents that ask what they may do, what was refused, and for the user's permission
    Mcp(mcp::Options),
    /// List the sandboxes that run
    Ps(ps::Options),
    /// Say how this program was installed, and how to update and remove it
    #[command(name = "self")]
    Own(own::Options),
    /// Measure Palisade beside other launchers
    Bench(bench::Options),
    /// Print completions for a shell
    Completions(completions::Options),
    /// Print or write manual pages
    Man(man::Options),
    /// Print the JSON schema of policy files
    Schema(schema::Options),
}

/// A launch allocates little and ends soon, so an arena is enough.
#[global_allocator]
static ALLOCATOR: palisade_sys::arena::Arena = palisade_sys::arena::Arena::new();

/// The arguments. If a link started this program, they are the arguments that open the application of the link's name.
fn arguments(mut given: Vec<OsString>) -> Vec<OsString> {
    let own = if given.is_empty() { OsString::new() } else { given.remove(0) };
    let name = Path::new(&own).file_name().unwrap_or_default();
    if name == env!("CARGO_BIN_NAME") || name.is_empty() || !is_link(name) {
        return given;
    }
    // What follows is the application's, even if it looks like an option of Palisade.
    ["open".into(), name.to_owned(), "--".into()].into_iter().chain(given).collect()
}

/// Whether the program was started under another name than its file has.
fn is_link(name: &OsStr) -> bool {
    std::env::current_exe()
        .is_ok_and(|file| file.file_name().is_some_and(|file| file != name && name != "exe"))
}

fn main() -> ExitCode {
    let begun = Instant::now();
    palisade_sys::process::abort_on_panic();
    if let Some(trailer) = Trailer::own() {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        return ExitCode::from(
            attendance(&arguments).unwrap_or_else(|| packaged::run(&trailer, &arguments, begun)),
        );
    }
    let given: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = bwrap::shortcut(&given, begun) {
        return ExitCode::from(code);
    }
    let arguments = match hook::started(&given) {
        None => arguments(given),
        Some(hook::Started::Launch(arguments)) => arguments,
        Some(hook::Started::Ended(code)) => return ExitCode::from(code),
    };
    if let Some(code) = run::shortcut(&arguments, begun) {
        return concluded(&arguments, code);
    }
    if let Some(code) = embedded::shortcut(&arguments, begun) {
        return ExitCode::from(code);
    }
    if let Some(code) = interpose::shortcut(&arguments) {
        return ExitCode::from(code);
    }
    concluded(&arguments, long_way(&arguments, begun))
}

/// Ends with this code. The failure of an application is told on the desktop if the user can't see standard error.
fn concluded(arguments: &[OsString], code: u8) -> ExitCode {
    if code != 0 && arguments.first().is_some_and(|verb| verb == "open" || verb == "agent") {
        let profile = scan::scan_open(arguments).map(|opened| opened.profile.to_string_lossy());
        notice::failed(profile.as_deref().unwrap_or("The application"), code);
    }
    ExitCode::from(code)
}

/// Serves a bus, if a launcher started this process for that. The launcher reports the printed error to the user.
fn attendance(arguments: &[OsString]) -> Option<u8> {
    if let [first, name, said] = arguments
        && first == notice::TELL
    {
        notice::tell(&name.to_string_lossy(), &said.to_string_lossy());
        return Some(0);
    }
    let [only] = arguments else { return None };
    (only == ATTEND).then(|| match launcher::attend() {
        Ok(()) => 0,
        Err(error) => {
            output::say(&format!("{error}\n"));
            1
        }
    })
}

/// Prints help, or what is wrong with the arguments. Others may have chosen the arguments, so hidden characters are escaped.
fn say_usage(error: &clap::Error, arguments: &[OsString]) {
    if !error.use_stderr() {
        let _nobody_listens = verb::print_exactly(&error.to_string());
        return;
    }
    output::say(&usage(error, arguments));
}

/// What is wrong with the arguments, with their hidden characters escaped.
fn usage(error: &clap::Error, arguments: &[OsString]) -> String {
    let mut text = error.to_string();
    for argument in arguments.iter().map(|argument| argument.to_string_lossy()) {
        let value = argument.split_once('=').map_or(&*argument, |(_option, value)| value);
        for part in [&*argument, value].into_iter().filter(|part| part.contains(palisade_text::is_hidden)) {
            text = text.replace(part, &palisade_text::harmless(part));
        }
    }
    text
}

/// If the first word is a program, says how the command is written behind `verb`.
fn suggest(command: &[OsString], verb: &[&str]) {
    let Some(program) = command.first() else { return };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if is_program {
        let words: Vec<String> =
            command.iter().map(|word| palisade_text::quoted(&word.to_string_lossy())).collect();
        let words = palisade_text::harmless(&words.join(" "));
        output::say(&format!("hint: palisade {} {words}\n", verb.join(" ")));
    }
}

/// Parses the words behind the program's name.
fn parse(arguments: &[OsString]) -> Result<(clap::ArgMatches, Cli), clap::Error> {
    let command = <Cli as clap::CommandFactory>::command();
    let named = std::iter::once(OsString::from("palisade")).chain(arguments.iter().cloned());
    let matches = command.try_get_matches_from(named)?;
    let cli = Cli::from_arg_matches(&matches)?;
    Ok((matches, cli))
}

/// Handles everything except a launch with a kept plan.
fn long_way(arguments: &[OsString], begun: Instant) -> u8 {
    if let Some(code) = attendance(arguments) {
        return code;
    }
    let (second, arguments) = match learn::is_second_run(arguments) {
        Some((number, arguments)) => (Some(number), Cow::Owned(arguments)),
        None => (None, Cow::Borrowed(arguments)),
    };
    let arguments: &[OsString] = &arguments;
    let (matches, cli) = match parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            say_usage(&error, arguments);
            match (error.kind(), arguments.split_first()) {
                (clap::error::ErrorKind::InvalidSubcommand, _) => suggest(arguments, &["run", "--"]),
                (clap::error::ErrorKind::UnknownArgument, Some((verb, words))) if verb == "explain" => {
                    suggest(words, &["explain", "--"]);
                }
                _ => {}
            }
            let running = arguments.first().is_some_and(|verb| {
                ["run", "learn", "open", "agent", "interpose"].iter().any(|known| verb == known)
            }) || (arguments.first().is_some_and(|verb| verb == "scope")
                && arguments.iter().take_while(|word| *word != "--").any(|word| word == "run"));
            return match (error.use_stderr(), running) {
                (false, _) => 0,
                (true, true) => 125,
                (true, false) => 2,
            };
        }
    };
    let account = match &cli.verb {
        Verb::Run(options) => options.launch.account.as_deref(),
        Verb::Open(options) => options.launch.account.as_deref(),
        Verb::Agent(options) => options.account(),
        Verb::Learn(options) => options.account(),
        Verb::Explain(options) => options.asked.launch.account.as_deref(),
        Verb::Check(options) => options.asked.launch.account.as_deref(),
        Verb::Doctor(options) => options.asked.launch.account.as_deref(),
        Verb::Package(options) => options.launch.account.as_deref(),
        Verb::Mcp(options) => options.account(),
        _ => None,
    };
    let failure = match &cli.verb {
        Verb::Run(_) | Verb::Open(_) | Verb::Agent(_) | Verb::Learn(_) => run::FAILURE,
        _ => verb::ERROR,
    };
    if !account::ensure(account, arguments) {
        return failure;
    }
    match (&cli.verb, matches.subcommand()) {
        (Verb::Run(options), Some((_run, matches))) => run::run(options, matches, arguments, begun),
        (Verb::Open(options), Some((_open, matches))) => open::run(options, matches, arguments, begun),
        (Verb::Agent(options), Some((_agent, matches))) => agent::run(options, matches, arguments, begun),
        (Verb::Learn(options), Some((_learn, matches))) => learn::run(options, matches, second, begun),
        (Verb::Explain(options), Some((_explain, matches))) => explain::run(options, matches),
        (Verb::Check(options), Some((_check, matches))) => check::run(options, matches),
        (Verb::Doctor(options), Some((_doctor, matches))) => doctor::run(options, matches),
        (Verb::Setup(options), _) => setup::run(options),
        (Verb::Config(options), _) => config::run(options),
        (Verb::Profile(options), _) => profile::run(options),
        (Verb::Feature(options), _) => profile::run_feature(options),
        (Verb::Guard(options), _) => guard::run(options),
        (Verb::Scope(options), _) => scope::run(options),
        (Verb::Import(options), _) => import::run(options),
        (Verb::Store(options), _) => store::run(options),
        (Verb::Project(options), _) => project::run(options),
        (Verb::Caches(options), _) => caches::run(options),
        (Verb::Wrap(options), _) => wrap::run(options),
        (Verb::Desktop(options), _) => desktop::run(options),
        (Verb::Package(options), Some((_package, matches))) => package::run(options, matches),
        (Verb::Syscalls(options), _) => syscalls::run(options),
        (Verb::Interpose(options), _) => interpose::run(options),
        (Verb::Bwrap(options), _) => bwrap::run(options, begun),
        (Verb::Shell(options), _) => shell::run(options),
        (Verb::Watch(options), _) => watch::run(options),
        (Verb::Why(options), _) => why::run(options),
        (Verb::Mcp(options), Some((_mcp, matches))) => mcp::run(options, matches),
        (Verb::Ps(options), _) => ps::run(options),
        (Verb::Own(options), _) => own::run(options),
        (Verb::Bench(options), _) => bench::run(options),
        (Verb::Completions(options), _) => completions::run(options),
        (Verb::Man(options), _) => man::run(options),
        (Verb::Schema(options), _) => schema::run(options),
        (_, None) => 2,
    }
}

#[cfg(test)]
mod one_plan_tests;

/// The options that clap reads from the arguments of `run`.
#[cfg(test)]
fn parse_run(arguments: &[OsString]) -> Result<run_options::RunOptions, clap::Error> {
    let named = std::iter::once(OsString::from("palisade")).chain(arguments.iter().cloned());
    match Cli::try_parse_from(named)?.verb {
        Verb::Run(options) => Ok(*options),
        _ => Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand)),
    }
}
