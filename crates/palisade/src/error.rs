// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong.

use crate::HelperError;
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

/// Why a request comes to no plan.
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
    /// The policy can't be kept here.
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
            Self::Plan(error) => error.hint(),
        }
    }
}

/// Why a command isn't started, or why it isn't known what became of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that was stated can't be.
    #[error("can't state {what} {value:?}: {source}")]
    Statement {
        /// What was to be stated: `a path to read`.
        what: &'static str,
        /// As it was given.
        value: String,
        /// What is wrong with it.
        source: StatementError,
    },
    /// There is no plan.
    #[error(transparent)]
    Planning(#[from] PlanningError),
    /// There is no program that launches.
    #[error(transparent)]
    Helper(#[from] HelperError),
    /// A process or a descriptor can't be had.
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
        /// As `palisade run` exits: 126 not executable, 127 not found, 125 everything else.
        code: u8,
    },
    /// What the plan is made from changes faster than it is made.
    #[error("can't plan the launch: what it depends on changes all the time")]
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
            Self::Talk { helper, .. } => {
                Some(format!("{} --version   # is it of this version?", helper.display()))
            }
            Self::System { .. } | Self::Restless => None,
        }
    }
}

/// What is wrong with something that was stated.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StatementError {
    /// With a path.
    #[error(transparent)]
    Path(#[from] PatternError),
    /// With a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// With a host, an address or a port.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// With a limit.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// With another value.
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
