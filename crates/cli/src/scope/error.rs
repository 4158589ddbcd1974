// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why scopes don't do what is asked.

use crate::palisaded::DaemonError;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScopeError {
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// A command can't be executed.
    #[error("can't execute {command:?}: {source}")]
    Execute {
        /// Its name.
        command: std::ffi::OsString,
        /// Why.
        source: std::io::Error,
    },
}

impl ScopeError {
    /// Its class, for programs.
    pub(crate) fn class(&self) -> &str {
        match self {
            Self::Daemon(error) => error.class(),
            Self::Execute { .. } => "execute",
        }
    }

    /// A command that helps, or what to look at.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Daemon(error) => error.hint(),
            Self::Execute { .. } => None,
        }
    }
}
