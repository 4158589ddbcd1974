// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a host wasn't set up, and what to do about it.

use palisade_host::places::TrustError;
use palisade_sandbox::error::user_namespaces::{self, Cause};
use palisade_sandbox::error::{packages, quoted};
use palisade_text::Show as _;
use std::path::PathBuf;

/// Why a host wasn't set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// A profile doesn't help against the refusal.
    #[error("a profile for AppArmor doesn't help: {}", user_namespaces::words(cause))]
    NoHelp {
        /// Why user namespaces are refused.
        cause: Cause,
    },
    /// The program's own file can't be found.
    #[error("can't find this program's file: {source}")]
    Program {
        /// Why.
        source: std::io::Error,
    },
    /// A child that answers for another user can't be started.
    #[error("can't start {} as user {uid}: {source}", program.shown())]
    Child {
        /// The program.
        program: PathBuf,
        /// The user.
        uid: u32,
        /// Why.
        source: std::io::Error,
    },
    /// There is no program that loads profiles.
    #[error("can't load a profile: there is no apparmor_parser on this host")]
    NoParser,
    /// The program that loads profiles can't be started.
    #[error("can't start {}: {source}", parser.shown())]
    Parser {
        /// The program.
        parser: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The program that loads profiles is too old.
    #[error("{} doesn't understand a profile with rules for user namespaces: {}", parser.shown(), said.shown())]
    Rejected {
        /// The program.
        parser: PathBuf,
        /// What it said.
        said: String,
    },
    /// A profile can't be loaded or unloaded.
    #[error("{} can't {action} {}: {}", parser.shown(), file.shown(), said.shown())]
    Kernel {
        /// The program that loads profiles.
        parser: PathBuf,
        /// `load` or `unload`.
        action: &'static str,
        /// The profile's file.
        file: PathBuf,
        /// What it said.
        said: String,
    },
    /// A file can't be read.
    #[error("can't read {}: {source}", path.shown())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file can't be written.
    #[error("can't write {}: {source}", path.shown())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The copy's directory can be written by others than root.
    #[error("can't install a copy: {0}")]
    Distrusted(TrustError),
    /// Another program is where the copy is to be.
    #[error("can't install a copy: {} is there, and `palisade setup` hasn't installed it", path.shown())]
    Taken {
        /// The program.
        path: PathBuf,
    },
    /// The administrator has disabled the profile, or a package for an older AppArmor has.
    #[error("the profile is disabled by {}", path.shown())]
    Disabled {
        /// The link that disables it.
        path: PathBuf,
    },
    /// Launches are refused nevertheless.
    #[error(
        "nothing is changed: with the profile, a launch by user {uid} still fails: {}",
        said.shown()
    )]
    Launch {
        /// The user.
        uid: u32,
        /// What the launch said.
        said: String,
    },
    /// Launches are refused nevertheless in the session of the caller, which a profile confines.
    #[error("the profile is installed, and a launch from here still fails: {}", said.shown())]
    Session {
        /// What the launch said.
        said: String,
    },
    /// This user can't become root.
    #[error("only root can install a profile, and there is no sudo on this host")]
    NoSudo {
        /// The command for root.
        command: String,
    },
}

impl SetupError {
    /// The error of a launch after root's part is done.
    pub(super) fn here(self) -> Self {
        match self {
            Self::Launch { said, .. } => Self::Session { said },
            other => other,
        }
    }

    /// The error's class, for programs.
    pub(crate) const fn class(&self) -> &'static str {
        match self {
            Self::NoHelp { .. } | Self::Launch { .. } | Self::Session { .. } => "user-namespaces",
            Self::Program { .. } | Self::Child { .. } => "surroundings",
            Self::NoParser | Self::Parser { .. } | Self::Rejected { .. } | Self::Kernel { .. } => "apparmor",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Distrusted(_) => "distrusted",
            Self::Taken { .. } => "exists",
            Self::Disabled { .. } => "disabled",
            Self::NoSudo { .. } => "root-only",
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoHelp { cause } => user_namespaces::hint(cause),
            Self::NoParser => return packages::install("apparmor"),
            Self::Rejected { parser, .. } => format!(
                "{} --version   # rules for user namespaces need 4.0 or newer",
                quoted(&parser.to_string_lossy())
            ),
            Self::Distrusted(TrustError::Distrusted { path, .. }) => format!(
                "namei -l {}   # shows each part; then, for root's directories: sudo chmod go-w PART",
                quoted(&path.to_string_lossy())
            ),
            Self::Taken { path } => {
                format!("{} setup   # makes a profile for that program", quoted(&path.to_string_lossy()))
            }
            Self::Disabled { path } => {
                format!("sudo rm {}   # enables the profile, at the next setup or boot", quoted(&path.to_string_lossy()))
            }
            Self::Session { .. } => {
                "palisade setup --undo   # takes the profile away again; or start palisade from another session".to_owned()
            }
            Self::NoSudo { command } => format!("su -c {}", quoted(command)),
            _ => return None,
        })
    }
}
