// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why scopes don't do what is asked.

use palisade_protocol::ProtocolError;
use palisade_protocol::guard::Refusal;
use std::path::PathBuf;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScopeError {
    /// Nobody answers.
    #[error("palisaded doesn't answer at {}: {source}", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The conversation broke off.
    #[error("can't talk to palisaded: {0}")]
    Talk(#[from] ProtocolError),
    /// The answer is to another question.
    #[error("palisaded answers something else than what was asked")]
    Strange,
    /// It says no.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// Signals can't be waited for.
    #[error("can't wait for signals: {0}")]
    Signals(#[source] std::io::Error),
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
            Self::NotRunning { .. } => "not-running",
            Self::Talk(_) | Self::Strange => "protocol",
            Self::Refused(refusal) => &refusal.class,
            Self::Signals(_) => "surroundings",
            Self::Execute { .. } => "execute",
        }
    }

    /// A command that helps, or what to look at.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotRunning { .. } => "systemctl start palisaded   # or, as root: palisaded".to_owned(),
            Self::Talk(ProtocolError::OtherVersion { .. }) | Self::Strange => {
                "systemctl restart palisaded   # if it was updated since".to_owned()
            }
            Self::Refused(refusal) => return refusal.hint.clone(),
            _ => return None,
        })
    }
}
