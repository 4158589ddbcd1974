// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why the guard doesn't do what the user asks, or why nothing is known about it.

use palisade_guard::setup::SetupError;
use palisade_guard::trust::{build, edit, filter, import, rebuild, store, verify};
use palisade_protocol::client::DaemonError;
use palisade_text::Show as _;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a verb of the guard fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    /// The daemon reports an error or can't be reached.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Settings or rules are wrong.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A path can't be sent to the daemon.
    #[error("can't ask palisaded about {path:?}: its name isn't text")]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// There is no trust database.
    #[error("there is no trust database in {}", state.shown())]
    NoDatabase {
        /// Where it would be.
        state: PathBuf,
    },
    /// The trust database can't be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The trust database can't be written.
    #[error(transparent)]
    Build(#[from] build::Error),
    /// Trust files can't be changed.
    #[error(transparent)]
    Edit(#[from] edit::Error),
    /// What is trusted can't be determined.
    #[error(transparent)]
    Import(#[from] import::Error),
    /// The filter of trusted files is wrong.
    #[error("{}: {source}", path.shown())]
    Filter {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: filter::Error,
    },
    /// No trust file lists that name.
    #[error("no trust file names {} or anything below it", path.shown())]
    NotListed {
        /// The path.
        path: PathBuf,
    },
    /// The address can't be served.
    #[error("can't answer at {address}: {source}")]
    Serve {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// No trusted file has this source.
    #[error("no file is trusted because of {name:?}")]
    NoSource {
        /// What was asked for.
        name: String,
    },
}

impl GuardError {
    /// The error's class, for programs.
    pub(crate) fn class(&self) -> &str {
        match self {
            Self::Daemon(error) => error.class(),
            Self::Setup(error) => error.class(),
            Self::NotText { .. } => "not-text",
            Self::NoProcess { .. } => "no-process",
            Self::NoDatabase { .. } => "no-database",
            Self::Serve { .. } => "not-served",
            Self::Store(store::Error::Locked { .. }) => "busy",
            Self::Store(_) | Self::Build(_) => "database",
            Self::Edit(_) => "trust-file",
            Self::Import(_) => "import",
            Self::Filter { .. } => "filter",
            Self::NotListed { .. } | Self::NoSource { .. } => "not-listed",
        }
    }

    /// A command that helps, or what to look at.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Daemon(error) => return error.hint(),
            Self::Setup(error) => return error.hint(),
            Self::NoProcess { .. } => "ps -e".to_owned(),
            Self::Serve { .. } => {
                "palisade guard metrics --serve 127.0.0.1:0   # at a port that is free".to_owned()
            }
            Self::NoDatabase { .. } | Self::Store(store::Error::Base(_) | store::Error::Wal(_)) => {
                "sudo palisade guard trust rebuild".to_owned()
            }
            Self::Store(store::Error::Locked { .. }) => "try again in a moment".to_owned(),
            Self::Edit(edit::Error::Duplicate { .. }) => "sudo palisade guard trust update PATH".to_owned(),
            Self::NotListed { .. } | Self::NoSource { .. } => "palisade guard trust list".to_owned(),
            _ => return None,
        })
    }
}

impl From<rebuild::Error> for GuardError {
    fn from(error: rebuild::Error) -> Self {
        match error {
            rebuild::Error::Store(error) => error.into(),
            rebuild::Error::Build(error) => error.into(),
            rebuild::Error::Edit(error) => error.into(),
            rebuild::Error::Import(error) => error.into(),
        }
    }
}

impl From<verify::DumpError> for GuardError {
    fn from(error: verify::DumpError) -> Self {
        match error {
            verify::DumpError::Store(error) => Self::Store(error),
            verify::DumpError::Write(error) => {
                Self::Daemon(DaemonError::Talk(palisade_protocol::ProtocolError::Broken(error)))
            }
        }
    }
}
