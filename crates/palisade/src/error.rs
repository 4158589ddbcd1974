// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of this crate.

use crate::{HelperError, RepositoryError};
use palisade_host::account::AccountError;
use palisade_policy::PatternError;
use palisade_policy::limits::AmountError;
use palisade_policy::names::NameError;
use palisade_policy::network::NetworkError;
use palisade_policy::value::ValueError;
use palisade_protocol::ProtocolError;
use palisade_sandbox::error::PlanError;
use palisade_sandbox::layers::LayerError;
use std::io;

/// Why a request can't be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanningError {
    /// The working directory is gone.
    #[error("can't find the working directory: {source}")]
    Directory {
        /// Why.
        source: io::Error,
    },
    /// The user is unknown.
    #[error("can't find out who you are: {0}")]
    Account(#[from] AccountError),
    /// A policy file is wrong.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The repository of the working directory can't be made writable.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// This host can't enforce the policy.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl PlanningError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Directory { .. } => Some("cd to a directory that exists".to_owned()),
            Self::Account(_) => None,
            Self::Layer(error) => error.hint(),
            Self::Repository(error) => Some(error.hint()),
            Self::Plan(error) => error.hint(),
        }
    }
}

/// Why a command isn't started, or why it isn't known how it ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A statement isn't valid.
    #[error("invalid value {value:?} for {what}: {source}")]
    Statement {
        /// What the statement is about: `a path to read`.
        what: &'static str,
        /// The value, as the caller gave it.
        value: String,
        /// What is wrong with it.
        source: StatementError,
    },
    /// No plan can be made.
    #[error(transparent)]
    Planning(#[from] PlanningError),
    /// The program that launches can't be found.
    #[error(transparent)]
    Helper(#[from] HelperError),
    /// The kernel refuses a process or a descriptor.
    #[error("can't {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The program that launches doesn't answer as it should.
    #[error("can't talk to {helper:?}: {source}")]
    Talk {
        /// The program.
        helper: std::path::PathBuf,
        /// What is wrong.
        source: ProtocolError,
    },
    /// The command couldn't be started.
    #[error("{message}")]
    Launch {
        /// In words: operation, object, cause.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// The exit code of `palisade run` in this case: 126 not executable, 127 not found, 125 everything else.
        code: u8,
    },
    /// The inputs of the plan change faster than the plan is made.
    #[error("can't plan the launch: its inputs change faster than the plan is made")]
    Restless,
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Statement { source, .. } => source.hint(),
            Self::Planning(error) => error.hint(),
            Self::Helper(error) => Some(error.hint()),
            Self::Launch { hint, .. } => hint.clone(),
            Self::Talk { helper, .. } => Some(format!(
                "{} --version   # it must have the version of this library",
                palisade_text::quoted(&helper.to_string_lossy())
            )),
            Self::System { .. } | Self::Restless => None,
        }
    }
}

/// What is wrong with a statement.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StatementError {
    /// A path isn't valid.
    #[error(transparent)]
    Path(#[from] PatternError),
    /// A name isn't valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A host, an address or a port isn't valid.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A limit isn't valid.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// Another value isn't valid.
    #[error(transparent)]
    Value(#[from] ValueError),
}

impl StatementError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Path(error) => error.hint(),
            Self::Name(error) => error.hint(),
            Self::Network(error) => error.hint(),
            Self::Amount(error) => error.hint().map(str::to_owned),
            Self::Value(error) => error.hint(),
        }
    }
}
