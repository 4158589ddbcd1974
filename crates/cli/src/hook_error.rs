// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a hook, a wrapped command or a wrapped server isn't made, taken away or started.

use palisade_host::places::{Distrust, TrustError};
use palisade_sandbox::error::quoted;
use palisade_settings::{FileError, RecordError};
use palisade_text::Show as _;
use std::path::PathBuf;

/// Why it isn't made, taken away or started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    /// A settings file can't be changed.
    #[error(transparent)]
    Settings(#[from] RecordError),
    /// A file can't be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Others can change a file that says how commands are launched.
    #[error(transparent)]
    Distrusted(#[from] TrustError),
    /// A file can't be read.
    #[error("can't read {}: {source}", path.shown())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file or link can't be made or removed.
    #[error("can't {action} {}: {source}", path.shown())]
    Write {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of Palisade's is damaged.
    #[error("can't understand {}: {source}", path.shown())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// Another file has the name.
    #[error("{} is in the way: Palisade hasn't made it", path.shown())]
    InTheWay {
        /// The file.
        path: PathBuf,
    },
    /// Options of a launch can't be parsed.
    #[error("the options of the launch are wrong: {said}")]
    Options {
        /// What the parser said.
        said: String,
    },
    /// A path isn't UTF-8, which settings files need.
    #[error("{} can't be written into a settings file: it isn't UTF-8", path.shown())]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// This program's file can't be found.
    #[error("can't find this program's file: {source}")]
    Myself {
        /// Why.
        source: std::io::Error,
    },
    /// No command can have this name.
    #[error("{name:?} can't be wrapped: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// There is no such program.
    #[error("can't wrap {name:?}: there is no such program on PATH")]
    NoProgram {
        /// The name.
        name: String,
    },
    /// A command isn't wrapped.
    #[error("{name:?} isn't wrapped")]
    NotWrapped {
        /// The name.
        name: String,
    },
    /// The program of a wrapped command is gone.
    #[error("can't run {name:?}: its program isn't on PATH any more")]
    Gone {
        /// The name.
        name: String,
    },
    /// A program can't be started.
    #[error("can't start {}: {source}", path.shown())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A link was started by a name without its directory.
    #[error("{name:?} must be started by its whole path")]
    Nameless {
        /// The name.
        name: String,
    },
    /// A link's directory has no file that says how commands are launched.
    #[error("{} is gone: the hook was removed", path.shown())]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// A hook gets one argument.
    #[error("{name} takes one argument, a command line, but got {count}")]
    Arguments {
        /// The hook.
        name: &'static str,
        /// How many it got.
        count: usize,
    },
    /// No configuration of an agent is there.
    #[error("there is no configuration of {name:?} with servers")]
    NoConfiguration {
        /// What was named.
        name: String,
    },
    /// Neither an agent nor a file.
    #[error("{name:?} is neither an agent nor a file")]
    NoSuchConfiguration {
        /// What was named.
        name: String,
        /// The agents.
        known: String,
    },
    /// A server isn't in the configuration.
    #[error("there is no server {name:?} in {}", path.shown())]
    NoServer {
        /// The server.
        name: String,
        /// The configuration.
        path: PathBuf,
    },
    /// Nothing says which file of the shell is to be changed.
    #[error("can't tell which start-up file the shell {shell:?} reads")]
    Shell {
        /// The shell.
        shell: String,
        /// The line for it.
        line: String,
    },
}

impl HookError {
    /// The error's class, for programs.
    pub(crate) const fn class(&self) -> &'static str {
        match self {
            Self::Settings(RecordError::Malformed { .. } | RecordError::Edit { .. }) => "settings",
            Self::Settings(RecordError::File(error)) | Self::File(error) => match error {
                FileError::Foreign { .. } => "distrusted",
                _ => "write",
            },
            Self::Settings(_) | Self::Damaged { .. } => "store",
            Self::Distrusted(_) => "distrusted",
            Self::Read { .. } | Self::Removed { .. } => "read",
            Self::Write { .. } => "write",
            Self::InTheWay { .. } => "in-the-way",
            Self::Options { .. } | Self::Arguments { .. } | Self::Nameless { .. } => "option",
            Self::NotText { .. } | Self::Myself { .. } | Self::Start { .. } | Self::Shell { .. } => {
                "surroundings"
            }
            Self::Name { .. }
            | Self::NoProgram { .. }
            | Self::NotWrapped { .. }
            | Self::Gone { .. }
            | Self::NoConfiguration { .. }
            | Self::NoSuchConfiguration { .. }
            | Self::NoServer { .. } => "unknown-name",
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        let shown = |path: &PathBuf| quoted(&path.to_string_lossy());
        Some(match self {
            Self::Settings(RecordError::Malformed { path, .. } | RecordError::Edit { path, .. }) => {
                format!("look at the place, correct it, then do it again: cat -n {}", shown(path))
            }
            Self::Settings(RecordError::File(FileError::Foreign { path, .. }))
            | Self::File(FileError::Foreign { path, .. })
            | Self::Distrusted(TrustError::Distrusted { path, reason: Distrust::Owner { .. } }) => {
                format!("ls -ld {}   # shows the owner, who may change it", shown(path))
            }
            Self::Settings(RecordError::Damaged { path, .. }) => {
                format!("mv {0} {0}.old   # what was changed must then be taken back by hand", shown(path))
            }
            Self::Distrusted(TrustError::Distrusted { path, .. }) => {
                format!("look at it, then: chmod go-w {}", shown(path))
            }
            Self::Damaged { path, .. } => format!("remove it, and make the hook again: rm {}", shown(path)),
            Self::InTheWay { path } => format!("move it away: mv {0} {0}.old", shown(path)),
            Self::Options { .. } => "palisade run --help".to_owned(),
            Self::NoSuchConfiguration { known, .. } => format!("a file, or one of: {known}"),
            Self::NotWrapped { .. } => "palisade wrap --list".to_owned(),
            Self::Gone { name } => format!("palisade wrap --remove {}", quoted(name)),
            Self::NoServer { path, .. } => format!("palisade mcp list {}", shown(path)),
            Self::NoConfiguration { .. } => "palisade mcp list".to_owned(),
            Self::Shell { line, .. } => format!("add this line to the file yourself: {line}"),
            _ => return None,
        })
    }
}
