// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with the options of a launch.

use palisade::PlanningError;
use palisade_policy::limits::AmountError;
use palisade_policy::names::NameError;
use palisade_policy::network::NetworkError;
use palisade_policy::value::ValueError;
use palisade_policy::{Limit, PatternError};

/// An option has a value that isn't valid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionError {
    /// A path.
    #[error("--{option} {value}: {source}")]
    Path {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        source: PatternError,
    },
    /// A protected name.
    #[error("--{option} {value}: {source}")]
    Name {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// An option with another value.
    #[error("--{option} {value}: {source}")]
    Value {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        source: ValueError,
    },
    /// An option about the network.
    #[error("--{option} {value}: {source}")]
    Network {
        /// The option.
        option: &'static str,
        /// What was given, without a password.
        value: String,
        /// What is wrong with it.
        source: NetworkError,
    },
    /// Not of the form `KEY=VALUE`.
    #[error("--{option} {value}: no `=` in it")]
    NoValue {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
    },
    /// There is no such limit.
    #[error("--limit {value}: there is no limit of that name")]
    NoLimit {
        /// What was given.
        value: String,
        /// The nearest name.
        nearest: Option<&'static str>,
    },
    /// The amount isn't valid.
    #[error("--limit {value}: {source}")]
    Amount {
        /// What was given.
        value: String,
        /// What is wrong with it.
        source: AmountError,
    },
}

impl OptionError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Path { source, .. } => source.hint(),
            Self::Name { source, .. } => source.hint(),
            Self::Value { source, .. } => source.hint(),
            Self::Network { source, .. } => source.hint(),
            Self::NoValue { option: "env", value } => {
                Some(format!("--env {value}=VALUE   # or --keep-env {value}, to keep the value it has"))
            }
            Self::NoValue { option, .. } => Some(format!("--{option} KEY=VALUE")),
            Self::NoLimit { nearest: Some(nearest), .. } => Some(format!("--limit {nearest}=…")),
            Self::NoLimit { .. } => {
                let names: Vec<&str> = Limit::ALL.iter().map(|limit| limit.key()).collect();
                Some(format!("there are {}", names.join(", ")))
            }
            Self::Amount { source, .. } => source.hint().map(str::to_owned),
        }
    }
}

/// Why options make no request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// One of them is wrong.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The surroundings are wrong, such as the working directory.
    #[error(transparent)]
    Planning(#[from] PlanningError),
}
