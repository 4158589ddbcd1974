// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a verb that reads answers: data on standard output, messages on standard error, and an exit code for yes, no or error.

use crate::guard::GuardError;
use crate::hook_error::HookError;
use crate::output;
use crate::run_options::RequestError;
use crate::shell::classify::LineError;
use palisade::explanation::ExplainError;
use palisade::{PlanningError, RepositoryError};
use palisade_desktop::DesktopError;
use palisade_host::account::AccountError;
use palisade_package::error::PackageError;
use palisade_policy::value::ValueError;
use palisade_policy::{ParseError, ResolveError};
use palisade_protocol::client::DaemonError;
use palisade_sandbox::error::PlanError;
use palisade_sandbox::layers::trust::StoreError;
use palisade_sandbox::layers::{LayerError, Sort};
use palisade_sandbox::registry::RegistryError;
use palisade_text::{harmless_lines, quoted};
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The version of the `--json` output. Readers ignore members that they don't know.
pub(crate) const SCHEMA: u32 = 1;
/// The answer is yes, or what was asked for is done.
pub(crate) const YES: u8 = 0;
/// The answer is no.
pub(crate) const NO: u8 = 1;
/// There is no answer.
pub(crate) const ERROR: u8 = 2;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The working directory is gone.
    #[error("can't find the working directory: {source}")]
    Cwd {
        /// Why.
        source: std::io::Error,
    },
    /// The user is unknown.
    #[error("can't find out who you are: {0}")]
    Account(#[from] AccountError),
    /// A policy file is wrong.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The places in the policy can't be found.
    #[error("can't resolve the policy: {0}")]
    Resolve(#[from] ResolveError),
    /// The store of events can't be read.
    #[error(transparent)]
    Events(palisade_events::StoreError),
    /// The repository of the working directory can't be made writable.
    #[error(transparent)]
    Repository(RepositoryError),
    /// This host can't enforce the policy.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The store of allowed projects can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A system call's name is unknown.
    #[error(transparent)]
    Syscall(#[from] palisade_syscall::Error),
    /// No variable can have this name.
    #[error(transparent)]
    Name(#[from] ValueError),
    /// The text isn't a host.
    #[error("{text:?} is no host")]
    NoHost {
        /// The text.
        text: String,
    },
    /// An option is wrong.
    #[error(transparent)]
    Option(#[from] crate::run_options::OptionError),
    /// The user named nothing to explain.
    #[error("no path, host or command is given to explain")]
    NothingAsked,
    /// A path can't be read.
    #[error("can't read {path:?}: {source}")]
    Read {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file can't be written.
    #[error("can't write {path:?}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A package can't be made or read.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The desktop can't be changed or examined.
    #[error(transparent)]
    Desktop(#[from] DesktopError),
    /// A foreign profile can't be imported.
    #[error(transparent)]
    Import(#[from] palisade_import::ImportError),
    /// An error about lines of shell.
    #[error(transparent)]
    Line(#[from] LineError),
    /// An error of the daemon.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// A hook, a wrapped command or a wrapped server isn't made or taken away.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// An error of the host's guard.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The host isn't set up.
    #[error(transparent)]
    Setup(#[from] crate::setup::SetupError),
    /// The list of running sandboxes can't be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A record of installed programs can't be read.
    #[error(transparent)]
    Own(#[from] crate::own::OwnError),
    /// The process can't wait for signals.
    #[error("can't wait for signals: {source}")]
    Signals {
        /// Why.
        source: std::io::Error,
    },
    /// An error about learned system calls.
    #[error(transparent)]
    Syscalls(#[from] crate::syscalls::SyscallsError),
    /// An error about the history.
    #[error(transparent)]
    History(#[from] crate::shell::HistoryError),
    /// The page of the shell can't be served.
    #[error(transparent)]
    Page(#[from] crate::shell::PageFailure),
    /// Only root may do this.
    #[error("only root can change {what}")]
    RootOnly {
        /// What isn't changed.
        what: &'static str,
    },
    /// The host has no system store.
    #[error("the system store isn't enabled")]
    NoStore,
    /// There is no such account.
    #[error("there is no ordinary account {name:?} in /etc/passwd")]
    NoAccount {
        /// Its name.
        name: String,
    },
    /// There is no project file.
    #[error("there is no .palisade.toml in {directory:?} or above it")]
    NoProject {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// No definition can have this name.
    #[error("{name:?} can't be a {}'s name", sort.name())]
    DefinitionName {
        /// What it would be.
        sort: Sort,
        /// The name.
        name: String,
    },
    /// The user has a definition of this name already.
    #[error("there is a {} {name:?} of yours: {file:?}", sort.name())]
    DefinitionExists {
        /// What it is.
        sort: Sort,
        /// The name.
        name: String,
        /// Its file.
        file: PathBuf,
    },
    /// The user has no definition of this name.
    #[error("there is no {} {name:?} of yours", sort.name())]
    NotYours {
        /// What it would be.
        sort: Sort,
        /// The name.
        name: String,
    },
    /// The definition replaces no other one.
    #[error("{} {name:?} replaces no other", sort.name())]
    NothingToCompare {
        /// What it is.
        sort: Sort,
        /// The name.
        name: String,
    },
    /// A file can't be edited.
    #[error("can't edit with {editor}: {reason}")]
    Editor {
        /// A profile or a feature.
        sort: Sort,
        /// Its name.
        name: String,
        /// The editor.
        editor: String,
        /// Why.
        reason: String,
    },
    /// The profile isn't an agent's.
    #[error("{name:?} isn't an agent that has a profile")]
    NoAgent {
        /// The profile.
        name: String,
    },
    /// The agent keeps nothing.
    #[error("profile {name:?} keeps no home: there is no place for a login")]
    NoOwnHome {
        /// The profile.
        name: String,
    },
    /// A file of a login can't be read.
    #[error("can't read the login: {source}")]
    Login {
        /// Why.
        source: palisade_host::file::FileError,
    },
    /// There is no terminal to ask on.
    #[error("there is no terminal to ask on")]
    NobodyToAsk,
    /// Standard output can't be written.
    #[error("can't write to standard output: {source}")]
    Output {
        /// Why.
        source: std::io::Error,
    },
    /// The reader of standard output has closed it.
    #[error("standard output is closed")]
    ReaderGone,
}

impl Failure {
    /// The error's class, for programs.
    fn class(&self) -> &str {
        match self {
            Self::Desktop(error) => error.class(),
            Self::Package(_) => "package",
            Self::Cwd { .. } | Self::Account(_) | Self::Signals { .. } => "surroundings",
            Self::Layer(
                LayerError::Parse { .. }
                | LayerError::NotText { .. }
                | LayerError::Cycle { .. }
                | LayerError::Deep { .. },
            ) => "policy",
            Self::Layer(LayerError::Unknown { .. }) => "unknown-profile",
            Self::Layer(LayerError::Distrusted { .. }) => "distrusted",
            Self::Layer(LayerError::Store(_)) | Self::Store(_) => "store",
            Self::Layer(_) | Self::Read { .. } => "read",
            Self::Resolve(_) | Self::Plan(_) => "plan",
            Self::Option(_) | Self::NothingAsked => "option",
            Self::NoHost { .. } | Self::Syscall(_) | Self::Name(_) | Self::DefinitionName { .. } => {
                "unknown-name"
            }
            Self::DefinitionExists { .. } => "exists",
            Self::NotYours { .. } | Self::NothingToCompare { .. } => "unknown-profile",
            Self::Editor { .. } => "editor",
            Self::Write { .. } | Self::Output { .. } | Self::ReaderGone => "write",
            Self::Import(error) => error.class(),
            Self::Syscalls(error) => error.class(),
            Self::Line(error) => error.class(),
            Self::Daemon(error) => error.class(),
            Self::Hook(error) => error.class(),
            Self::Guard(error) => error.class(),
            Self::History(error) => error.class(),
            Self::Page(_) => "listen",
            Self::Registry(_) => "registry",
            Self::Setup(error) => error.class(),
            Self::Own(_) => "installation",
            Self::NoProject { .. } => "no-project",
            Self::Repository(_) => "no-repository",
            Self::Events(_) => "store",
            Self::RootOnly { .. } => "root-only",
            Self::NoStore => "store",
            Self::NoAccount { .. } => "unknown-name",
            Self::NoAgent { .. } | Self::NoOwnHome { .. } => "no-agent",
            Self::Login { .. } => "read",
            Self::NobodyToAsk => "nobody-to-ask",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Cwd { .. } => Some("cd to a directory that exists".to_owned()),
            Self::Option(error) => error.hint(),
            Self::NoHost { .. } => {
                Some("a name or an address: example.com, example.com:443, 10.0.0.1".to_owned())
            }
            Self::NothingAsked => Some("palisade explain PATH".to_owned()),
            Self::DefinitionName { .. } => {
                Some("use a name without a slash and without a leading dot".to_owned())
            }
            Self::DefinitionExists { sort, name, .. } => {
                Some(format!("palisade {} edit {}", sort.name(), quoted(name)))
            }
            Self::NotYours { sort, .. } | Self::NothingToCompare { sort, .. } => {
                Some(format!("palisade {} list   # lists all, and the layer of each", sort.name()))
            }
            Self::RootOnly { .. } => Some(format!("sudo {}", again())),
            Self::NoStore => Some("palisade store enable".to_owned()),
            Self::Editor { sort, name, .. } => {
                Some(format!("VISUAL=PROGRAM palisade {} edit {}", sort.name(), quoted(name)))
            }
            Self::Layer(error) => error.hint(),
            Self::Repository(error) => Some(error.hint()),
            Self::Events(error) => error.hint(),
            Self::Plan(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Desktop(error) => error.hint(),
            Self::Import(error) => error.hint(),
            Self::Syscalls(error) => error.hint(),
            Self::Line(error) => error.hint(),
            Self::Daemon(error) => error.hint(),
            Self::Hook(error) => error.hint(),
            Self::Guard(error) => error.hint(),
            Self::History(error) => error.hint(),
            Self::Page(error) => error.hint(),
            Self::Registry(error) => error.hint(),
            Self::Setup(error) => error.hint(),
            Self::Own(error) => Some(error.hint()),
            Self::Package(error) => error.hint(),
            Self::NoAgent { .. } => Some("palisade agent list   # names the agents".to_owned()),
            Self::NoOwnHome { name } => {
                Some(format!("palisade profile edit {}   # [home] policy = \"private\"", quoted(name)))
            }
            Self::NobodyToAsk => Some(yes_hint()),
            _ => None,
        }
    }
}

/// The command line of this process, as a user types it.
pub(crate) fn again() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("palisade".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The hint where a question can't be asked. No verb that asks takes arguments behind `--`.
pub(crate) fn yes_hint() -> String {
    format!("{} --yes   # after you have read what it changes", again())
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Option(error) => Self::Option(error),
            RequestError::Planning(error) => error.into(),
        }
    }
}

impl From<PlanningError> for Failure {
    fn from(error: PlanningError) -> Self {
        match error {
            PlanningError::Directory { source } => Self::Cwd { source },
            PlanningError::Account(error) => Self::Account(error),
            PlanningError::Layer(error) => Self::Layer(error),
            PlanningError::Repository(error) => Self::Repository(error),
            PlanningError::Plan(error) => Self::Plan(error),
        }
    }
}

impl From<ExplainError> for Failure {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Plan(error) => Self::Plan(error),
            ExplainError::Syscall(error) => Self::Syscall(error),
            ExplainError::Name(error) => Self::Name(error),
        }
    }
}

/// An answer or an error as JSON, with the version of its form.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// An error as JSON.
#[derive(Serialize)]
struct Problem<'a> {
    error: ProblemBody<'a>,
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    class: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The result of a verb: an exit code, or a failure that hasn't been reported yet.
pub(crate) type Exit = Result<u8, Failure>;

/// Reports the failure, if there is one. Returns the exit code.
pub(crate) fn finish(json: bool, exit: Exit) -> u8 {
    let failure = match exit {
        Ok(code) => return code,
        // A closed output (`| head`) is no failure: its reader has seen enough.
        Err(Failure::ReaderGone) => return YES,
        Err(failure) => failure,
    };
    let hint = failure.hint().map(|hint| output::as_typed(&hint).to_owned());
    match &failure {
        // The first line of this error only names what the excerpts below show.
        Failure::Layer(LayerError::Parse { errors }) => say_parse_errors(errors),
        // These errors show the line of the settings that is wrong.
        Failure::Guard(GuardError::Setup(_)) | Failure::Line(LineError::Settings(_)) => {
            output::error_in_lines(&failure, hint.as_deref());
        }
        _ => output::error(&failure, hint.as_deref()),
    }
    if json {
        let problem =
            Problem { error: ProblemBody { class: failure.class(), message: failure.to_string(), hint } };
        let _told_in_words = print_json(&problem);
    }
    ERROR
}

/// Shows what is wrong with a file, in colour if the terminal allows it.
pub(crate) fn say_parse_errors(errors: &[ParseError]) {
    let colour = rustix::termios::isatty(rustix::stdio::stderr())
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    for error in errors {
        // The text has colours, and what it quotes is escaped already.
        output::draw(&format!("{}\n", error.render(colour)));
    }
}

/// Prints lines for people on standard output. Characters that control a terminal or are invisible are escaped. The
/// caller escapes the line breaks in names ([`palisade_text::harmless`]).
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_exactly(&harmless_lines(text))
}

/// Prints Palisade's own text on standard output, unchanged.
pub(crate) fn print_exactly(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|source| match source.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Output { source },
    })
}

/// Prints a JSON answer. Control characters in it are escaped, because people read it, too.
pub(crate) fn print_json(body: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&Document { schema: SCHEMA, body });
    let mut text = text.map_err(|error| Failure::Output { source: error.into() })?;
    text.push('\n');
    print_exactly(&palisade_text::json(text))
}

/// Prints an answer as JSON, or in lines for people.
pub(crate) fn tell<T: Serialize>(
    json: bool,
    body: &T,
    words: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    if json { print_json(body) } else { print(&words(body)) }
}

/// The exit code for yes or no.
pub(crate) const fn verdict(yes: bool) -> u8 {
    if yes { YES } else { NO }
}

/// Asks on the terminal itself, because standard input may be anything. Every answer except yes means no. `None`
/// without a terminal.
pub(crate) fn confirmed(question: &str) -> Option<bool> {
    const LONGEST: u64 = 1024;
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
    terminal.write_all(question.as_bytes()).ok()?;
    let mut line = String::new();
    let read = BufReader::new(terminal.take(LONGEST)).read_line(&mut line);
    Some(read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// A path in JSON, which has only text: bytes that aren't UTF-8 are replaced.
pub(crate) fn lossy<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}
