// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a request comes to no plan.

use palisade_host::account::AccountError;
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
