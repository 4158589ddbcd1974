// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why the guard does not begin, or does not do what it is asked.

use palisade_guard::setup::SetupError;
use palisade_protocol::guard::{Refusal, Response};
use palisade_text::Show as _;
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// Why the guard doesn't begin, or what was asked of it isn't done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    /// Settings, rules or trust.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It isn't root's.
    #[error("only root can guard a host")]
    RootOnly,
    /// fanotify isn't to be had.
    #[error("can't ask the kernel about opens and execs (fanotify): {0}")]
    Gate(#[source] Errno),
    /// The kernel didn't forget what it answered by itself.
    #[error("can't put other rules in force: {0}")]
    Replace(#[source] Errno),
    /// The socket can't be made.
    #[error("can't listen at {}: {source}", path.shown())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another one answers there.
    #[error("another palisaded answers at {}", path.shown())]
    Running {
        /// Where.
        path: PathBuf,
    },
    /// A thread or signal handler can't be had.
    #[error("can't begin: {0}")]
    Begin(#[source] io::Error),
    /// libmagic.
    #[error("{}", .0.split("\nhint: ").next().unwrap_or_default())]
    Kinds(String),
    /// The rules would stop the host.
    #[error("these rules would stop the host: {}", .0.join("; "))]
    Unsafe(Vec<String>),
    /// BPF LSM was asked for.
    #[error("backend = \"bpf-lsm\", and it can't be in force here: {0}")]
    NoLsm(String),
    /// Closed on death, without what stays when the guard dies.
    #[error("on-death = \"closed\" needs BPF LSM, which isn't in force: {0}")]
    NotClosed(String),
    /// Nothing is being tried.
    #[error("nothing is being tried")]
    NoTrial,
    /// Somebody waited for the trust database.
    #[error("what packages and trust files say by now isn't in force: {0}")]
    NotSynced(String),
    /// Settings of scopes.
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
                "the kernel needs CONFIG_FANOTIFY_ACCESS_PERMISSIONS; palisade doctor says more".into()
            }
            Self::Running { .. } => "palisade guard status".into(),
            Self::Unsafe(_) => "palisade guard try --for 60s shows what happens; --force insists".into(),
            Self::NoLsm(_) => "boot with lsm=…,bpf, or say backend = \"auto\" in guard.toml".into(),
            Self::NotClosed(_) => {
                "boot with lsm=…,bpf and leave backend = \"auto\", or say on-death = \"open\" in guard.toml"
                    .into()
            }
            Self::NoTrial => "palisade guard try --for 60s".into(),
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

    /// 2 for what was written wrong, 1 for what the host doesn't give.
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
