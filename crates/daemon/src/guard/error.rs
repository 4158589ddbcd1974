// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of the guard: why it doesn't begin, or refuses a request.

use palisade_guard::setup::SetupError;
use palisade_protocol::guard::{Refusal, Response};
use palisade_text::Show as _;
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// Why the guard doesn't begin, or why it doesn't do what a request asks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    /// Settings, rules or trust files can't be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The daemon doesn't run as root.
    #[error("only root can guard a host")]
    RootOnly,
    /// fanotify isn't available.
    #[error("the kernel can't ask palisaded about opens and execs (fanotify): {0}")]
    Gate(#[source] Errno),
    /// The kernel kept answers that it gives by itself.
    #[error("can't put new rules or trusted files in force: {0}")]
    Replace(#[source] Errno),
    /// The socket can't be made.
    #[error("can't listen at {}: {source}", path.shown())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another palisaded answers at the socket.
    #[error("another palisaded answers at {}", path.shown())]
    Running {
        /// Where.
        path: PathBuf,
    },
    /// A thread or signal handler can't be had.
    #[error("can't start: {0}")]
    Begin(#[source] io::Error),
    /// The process that runs libmagic can't begin.
    #[error("{}", .0.split("\nhint: ").next().unwrap_or_default())]
    Kinds(String),
    /// The rules would stop the host.
    #[error("these rules would stop the host: {}", .0.join("; "))]
    Unsafe(Vec<String>),
    /// The settings demand BPF LSM, and it can't be in force.
    #[error("backend = \"bpf-lsm\" isn't available here: {0}")]
    NoLsm(String),
    /// The settings demand `on-death = "closed"`, and labels can't outlive the guard.
    #[error("on-death = \"closed\" needs BPF LSM, which isn't in force: {0}")]
    NotClosed(String),
    /// Nothing is being tried.
    #[error("no trial is running")]
    NoTrial,
    /// A caller waited until the trust database was up to date, and it isn't.
    #[error("the latest packages and trust files aren't in force: {0}")]
    NotSynced(String),
    /// The settings of scopes can't be used.
    #[error(transparent)]
    Scopes(#[from] palisade_scopes::SettingsError),
}

impl GuardError {
    /// A command that helps, or what to look at.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Setup(error) => return error.hint(),
            Self::Scopes(error) => return error.hint(),
            Self::RootOnly => "sudo palisaded".into(),
            Self::Gate(_) => {
                "the kernel needs CONFIG_FANOTIFY_ACCESS_PERMISSIONS; palisade doctor shows details".into()
            }
            Self::Running { .. } => "palisade guard status".into(),
            Self::Unsafe(_) => {
                "sudo palisade guard lint   # shows all; --force enforces the rules anyway".into()
            }
            Self::NoLsm(_) => "boot with lsm=…,bpf, or write backend = \"auto\" in guard.toml".into(),
            Self::NotClosed(_) => {
                "boot with lsm=…,bpf and leave backend = \"auto\", or write on-death = \"open\" in guard.toml"
                    .into()
            }
            Self::NoTrial => "sudo palisade guard try --for 60s".into(),
            Self::NotSynced(_) => "palisade guard status".into(),
            Self::Kinds(reason) => return reason.split_once("\nhint: ").map(|(_, hint)| hint.to_owned()),
            Self::Replace(_) | Self::Socket { .. } | Self::Begin(_) => return None,
        })
    }

    fn class(&self) -> &'static str {
        match self {
            Self::Setup(error) => error.class(),
            Self::RootOnly => "root-only",
            Self::Gate(_) | Self::Replace(_) => "fanotify",
            Self::Socket { .. } => "socket",
            Self::Running { .. } => "running",
            Self::Begin(_) => "begin",
            Self::Kinds(_) => "kind",
            Self::Unsafe(_) => "unsafe",
            Self::NoLsm(_) | Self::NotClosed(_) => "bpf-lsm",
            Self::NoTrial => "no-trial",
            Self::NotSynced(_) => "trust",
            Self::Scopes(_) => "scopes",
        }
    }

    /// 2 for mistakes in options, settings or rules; 1 for what the host doesn't provide.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Setup(_) | Self::Scopes(_) | Self::Unsafe(_) => 2,
            _ => 1,
        }
    }

    pub(super) fn refusal(&self) -> Response {
        Response::Refused(Refusal {
            class: self.class().into(),
            message: self.to_string(),
            hint: self.hint(),
        })
    }
}
