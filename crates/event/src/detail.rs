// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Members that only events of one kind have.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::words::words;
use crate::{Kind, Verdict};

/// The members of one kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// Of a sandbox.
    Sandbox(Sandbox),
    /// Of its filtered network.
    Network(Network),
    /// Of the guard.
    Guard(Guard),
    /// Of a scope.
    Scope(Scope),
}

impl Detail {
    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Sandbox(_) => Kind::Sandbox,
            Self::Network(_) => Kind::Network,
            Self::Guard(_) => Kind::Guard,
            Self::Scope(_) => Kind::Scope,
        }
    }
}

/// The members of a sandbox's events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sandbox {
    /// The refused system call, where the object is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The protected name in the rule, as the rule writes it: `.git/hooks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<String>,
    /// Programs try this and can do without it. No line is printed about it while the command runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected: bool,
}

/// The outcome of a connection, or of a question about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The connection was made.
    Opened,
    /// The connection is closed.
    Closed,
    /// The policy refused it, or the user who was asked did; or a client sent another protocol or name than it may.
    Refused,
    /// It was allowed and failed.
    Failed,
    /// The gateway itself has reached a limit.
    Strained,
}

words!(Outcome {
    Opened => "opened",
    Closed => "closed",
    Refused => "refused",
    Failed => "failed",
    Strained => "strained",
});

impl Outcome {
    /// The verdict that belongs to this outcome. A failed connection was allowed.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Opened | Self::Closed | Self::Failed => Verdict::Allowed,
            Self::Refused | Self::Strained => Verdict::Refused,
        }
    }
}

/// The members of a network's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The outcome.
    pub outcome: Outcome,
    /// The real address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The address that the name leads to, if that address was refused: a rule would have to allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<IpAddr>,
    /// Bytes sent, for a closed connection.
    #[serde(default)]
    pub sent: u64,
    /// Bytes received.
    #[serde(default)]
    pub received: u64,
    /// How long the connection was open.
    #[serde(default, with = "nanoseconds")]
    pub duration: Duration,
}

impl Network {
    /// An event with only an outcome.
    #[must_use]
    pub const fn new(outcome: Outcome) -> Self {
        Self { outcome, address: None, leads_to: None, sent: 0, received: 0, duration: Duration::ZERO }
    }

    /// The value for an event of schema 1, which had no such member.
    pub(crate) const fn of_verdict(verdict: Verdict) -> Self {
        Self::new(if verdict.stopped_it() { Outcome::Refused } else { Outcome::Closed })
    }
}

/// The decision of a guard's rule, in fapolicyd's words. `_audit` also reports to the kernel's audit system,
/// `_syslog` to the system's log, `_log` to both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words of a language that isn't ours")]
pub enum Decision {
    Allow,
    Deny,
    AllowAudit,
    DenyAudit,
    AllowSyslog,
    DenySyslog,
    AllowLog,
    DenyLog,
}

words!(Decision {
    Allow => "allow",
    Deny => "deny",
    AllowAudit => "allow_audit",
    DenyAudit => "deny_audit",
    AllowSyslog => "allow_syslog",
    DenySyslog => "deny_syslog",
    AllowLog => "allow_log",
    DenyLog => "deny_log",
});

impl Decision {
    /// Whether the access is allowed.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Allow | Self::AllowAudit | Self::AllowSyslog | Self::AllowLog)
    }
}

/// The members of the guard's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The rule's decision.
    pub decision: Decision,
    /// The rule's number, from 1. `None` if no rule matched, or the kernel decided by itself.
    #[serde(default)]
    pub rule: Option<u32>,
    /// Whether the file is trusted. `None` if that wasn't looked up.
    #[serde(default)]
    pub trusted: Option<bool>,
    /// The file's kind: a MIME type. `?` if that wasn't looked up.
    pub file_kind: String,
    /// The line that is logged, in the format of the settings.
    pub line: String,
    /// Why the earlier rules didn't match. Only in answers about a hypothetical access.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

/// The members of a scope's events. The scope's number is in the subject.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scope {
    /// The user who owns the scope.
    pub owner: u32,
    /// How many levels above this process the marked process is.
    #[serde(default)]
    pub distance: u32,
    /// The parents that still existed, nearest first.
    #[serde(default)]
    pub parents: Vec<Parent>,
    /// The arguments. `None` if they couldn't be read.
    #[serde(default)]
    pub arguments: Option<Vec<String>>,
    /// The list of arguments was cut.
    #[serde(default)]
    pub arguments_cut: bool,
    /// The file exists only in memory.
    #[serde(default)]
    pub memory: bool,
}

/// A parent of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its process number.
    pub pid: u32,
    /// Its name. Empty if the process was gone.
    pub comm: String,
}

/// A duration as one exact number.
mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_nanos(u64::deserialize(from)?))
    }
}
