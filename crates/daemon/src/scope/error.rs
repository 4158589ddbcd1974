// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why something about scopes can't be done, as whoever asked is told.

use crate::log::chain;
use palisade_protocol::guard::Refusal;

/// The class of a refusal to refuse: whoever makes the best of it asks again for the next best.
pub(super) const CANT_REFUSE: &str = "cant-refuse";

/// Why not.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScopeError {
    /// The kernel doesn't hold marks here.
    #[error("the kernel can't hold scopes here: {0}")]
    NotHere(String),
    /// Something about the programs.
    #[error("{}", chain(.0))]
    Programs(#[from] palisade_bpf::Error),
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// It isn't the asker's.
    #[error("process {pid} isn't yours")]
    NotYours {
        /// Its number.
        pid: u32,
    },
    /// A process that everything depends on.
    #[error("process {pid} may only be watched: everything depends on it")]
    Vital {
        /// Its number.
        pid: u32,
    },
    /// It is in a scope.
    #[error("process {pid} is in scope {scope} already")]
    Taken {
        /// Its number.
        pid: u32,
        /// The scope.
        scope: u32,
    },
    /// Who asks is in a scope.
    #[error("what is in scope {0} can't change scopes")]
    Inside(u32),
    /// There is no such scope.
    #[error("there is no scope {0} of yours")]
    NoScope(u32),
    /// There are too many.
    #[error("there are {0} scopes, and no more can be had")]
    TooMany(usize),
    /// The table of marks is full.
    #[error("no more processes can be marked")]
    Full,
    /// It is root's to ask.
    #[error("only root can change what holds for all scopes")]
    RootOnly,
    /// What is refused would be killed, and that isn't what was asked for.
    #[error("can't refuse what is executed in a scope: {0}")]
    CantRefuse(String),
    /// What the kernel doesn't tell the daemon can't kill.
    #[error("the profile session needs a buffer for events, which this kernel lacks")]
    Deaf,
    /// A line of a shell, where a control group would have to be left again.
    #[error("with the depth cgroup, lines of a shell aren't scopes")]
    LineInGroup,
    /// A control group.
    #[error("can't make a control group: {0}")]
    Group(#[source] std::io::Error),
}

impl ScopeError {
    pub(super) fn refusal(&self) -> Refusal {
        let (class, hint) = match self {
            Self::NotHere(_) => ("not-here", Some("palisade scope status")),
            Self::Programs(_) => ("programs", Some("sudo palisade scope clear")),
            Self::NoProcess(_) => ("no-process", Some("ps -e")),
            Self::NotYours { .. } => ("not-yours", Some("say it with sudo")),
            Self::Vital { .. } => ("vital", Some("palisade scope mark --verdict watch PID")),
            Self::Taken { .. } => ("taken", Some("palisade scope list")),
            Self::Inside(_) => ("inside", Some("ask from outside of the scope")),
            Self::NoScope(_) => ("no-scope", Some("palisade scope list")),
            Self::TooMany(_) | Self::Full => ("too-many", Some("palisade scope clear SCOPE")),
            Self::LineInGroup => ("cgroup", Some("sudo palisade scope depth propagate_on_fork")),
            Self::RootOnly => ("root-only", Some("say it with sudo")),
            Self::CantRefuse(_) => (CANT_REFUSE, Some("palisade scope run --verdict kill -- COMMAND")),
            Self::Deaf => ("deaf", Some("sudo palisade scope profile strict")),
            Self::Group(_) => ("cgroup", Some("sudo palisade scope depth propagate_on_fork")),
        };
        Refusal { class: class.into(), message: self.to_string(), hint: hint.map(str::to_owned) }
    }
}
