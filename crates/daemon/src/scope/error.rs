// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of requests about scopes, in the words that the caller gets.

use crate::log::chain;
use palisade_protocol::guard::Refusal;

/// The class of the error "execs can't be refused here". A caller that accepts less asks again for the next best verdict.
pub(super) const CANT_REFUSE: &str = "cant-refuse";

/// Why a request about scopes fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScopeError {
    /// The kernel doesn't hold marks here.
    #[error("the kernel can't hold scopes here: {0}")]
    NotHere(String),
    /// An operation on the eBPF programs failed.
    #[error("{}", chain(.0))]
    Programs(#[from] palisade_bpf::Error),
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The process belongs to another user.
    #[error("process {pid} belongs to another user")]
    NotYours {
        /// The process's number.
        pid: u32,
    },
    /// A process on which the whole host depends.
    #[error("process {pid} can only be watched: the whole host depends on it")]
    Vital {
        /// The process's number.
        pid: u32,
    },
    /// palisaded itself.
    #[error("process {0} is palisaded, which can't be in a scope")]
    Own(u32),
    /// The process is in a scope already.
    #[error("process {pid} is in scope {scope} already")]
    Taken {
        /// The process's number.
        pid: u32,
        /// The scope.
        scope: u32,
    },
    /// The calling process is in a scope.
    #[error("a process in scope {0} can't change scopes")]
    Inside(u32),
    /// There is no such scope.
    #[error("you have no scope {0}")]
    NoScope(u32),
    /// There are too many scopes.
    #[error("there are {0} scopes already, the most that are allowed")]
    TooMany(usize),
    /// The table of marks is full.
    #[error("the table of marked processes is full")]
    Full,
    /// Only root may make this request.
    #[error("only root can change the settings of all scopes")]
    RootOnly,
    /// Execs would be killed where the request demands that they are refused.
    #[error("can't refuse execs in a scope: {0}")]
    CantRefuse(String),
    /// The daemon can't kill what the kernel doesn't report.
    #[error("the profile session needs a ring buffer, which this kernel lacks")]
    Deaf,
    /// A shell's line would have to leave its control group again, which isn't possible.
    #[error("the depth cgroup allows no scopes for single lines of a shell")]
    LineInGroup,
    /// A control group can't be made or used.
    #[error("can't make a control group: {0}")]
    Group(#[source] std::io::Error),
}

impl ScopeError {
    pub(super) fn refusal(&self) -> Refusal {
        Refusal { class: self.class().into(), message: self.to_string(), hint: Some(self.hint()) }
    }

    const fn class(&self) -> &'static str {
        match self {
            Self::NotHere(_) => "not-here",
            Self::Programs(_) => "programs",
            Self::NoProcess(_) => "no-process",
            Self::NotYours { .. } => "not-yours",
            Self::Vital { .. } | Self::Own(_) => "vital",
            Self::Taken { .. } => "taken",
            Self::Inside(_) => "inside",
            Self::NoScope(_) => "no-scope",
            Self::TooMany(_) | Self::Full => "too-many",
            Self::LineInGroup | Self::Group(_) => "cgroup",
            Self::RootOnly => "root-only",
            Self::CantRefuse(_) => CANT_REFUSE,
            Self::Deaf => "deaf",
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::NotHere(_) => "palisade scope status".to_owned(),
            Self::Programs(_) => "sudo palisade scope clear".to_owned(),
            Self::NoProcess(_) | Self::Own(_) | Self::Vital { .. } => "ps -e".to_owned(),
            Self::NotYours { .. } | Self::RootOnly => "run this command again with sudo".to_owned(),
            Self::Taken { .. } | Self::NoScope(_) => "palisade scope list".to_owned(),
            Self::Inside(_) => "run this command outside of the scope".to_owned(),
            Self::TooMany(_) | Self::Full => {
                "palisade scope clear SCOPE   # palisade scope list shows them".to_owned()
            }
            Self::LineInGroup | Self::Group(_) => "sudo palisade scope depth propagate_on_fork".to_owned(),
            Self::CantRefuse(_) => {
                "palisade scope run --verdict kill -- COMMAND…   # kills instead of refusing".to_owned()
            }
            Self::Deaf => "sudo palisade scope profile strict".to_owned(),
        }
    }
}
