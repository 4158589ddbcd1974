// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What only events of one kind have.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::words::words;
use crate::{Kind, Verdict};

/// What only events of this kind have.
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
    /// Which kind it is.
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

/// What only a sandbox's events have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sandbox {
    /// The system call that was refused, where the object isn't that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The protected name that a rule is about, as the rule writes it: `.git/hooks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<String>,
    /// Programs try this and do without: no line is said of it while the command runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected: bool,
}

/// What became of a connection, or of a question about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The connection was made.
    Opened,
    /// It is over.
    Closed,
    /// The policy, or the user who was asked, refused it; or a client said something else than it may.
    Refused,
    /// It was allowed, and didn't work.
    Failed,
    /// The server itself is at a limit.
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
    /// The answer that it is. What failed was allowed.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Opened | Self::Closed | Self::Failed => Verdict::Allowed,
            Self::Refused | Self::Strained => Verdict::Refused,
        }
    }
}

/// What only a network's events have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// What became of it.
    pub outcome: Outcome,
    /// The real address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The address that the name leads to, where that is what was refused: a rule would have to allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<IpAddr>,
    /// Bytes that went out, of a connection that is over.
    #[serde(default)]
    pub sent: u64,
    /// Bytes that came in.
    #[serde(default)]
    pub received: u64,
    /// How long the connection was.
    #[serde(default, with = "nanoseconds")]
    pub duration: Duration,
}

impl Network {
    /// Of which nothing more is known.
    #[must_use]
    pub const fn new(outcome: Outcome) -> Self {
        Self { outcome, address: None, leads_to: None, sent: 0, received: 0, duration: Duration::ZERO }
    }

    /// What schema 1 said nothing of.
    pub(crate) const fn of_verdict(verdict: Verdict) -> Self {
        Self::new(if verdict.stopped_it() { Outcome::Refused } else { Outcome::Closed })
    }
}

/// What a rule of the guard says, in fapolicyd's words: `_audit` has the kernel's audit system told, `_syslog` the
/// system's log, `_log` both.
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
    /// Whether it may happen.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Allow | Self::AllowAudit | Self::AllowSyslog | Self::AllowLog)
    }
}

/// What only the guard's events have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// What the rule says.
    pub decision: Decision,
    /// The rule's number, from one; none when no rule matched, or the kernel decided by itself.
    #[serde(default)]
    pub rule: Option<u32>,
    /// Whether the file is trusted; none where nobody looked.
    #[serde(default)]
    pub trusted: Option<bool>,
    /// The file's kind: a MIME type; `?` where nobody looked.
    pub file_kind: String,
    /// The line that is logged, in the format of the settings.
    pub line: String,
    /// Why the rules before this one didn't match: to a question about an access that is only supposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

/// What only a scope's events have. The scope's number is the subject's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scope {
    /// The user whose scope it is.
    pub owner: u32,
    /// How many processes above this one the mark is.
    #[serde(default)]
    pub distance: u32,
    /// The parents, nearest first, as far as they were still there.
    #[serde(default)]
    pub parents: Vec<Parent>,
    /// The arguments; none where they couldn't be read.
    #[serde(default)]
    pub arguments: Option<Vec<String>>,
    /// There were more.
    #[serde(default)]
    pub arguments_cut: bool,
    /// The file is only in memory.
    #[serde(default)]
    pub memory: bool,
}

/// A parent of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its number.
    pub pid: u32,
    /// Its name; empty where it was gone.
    pub comm: String,
}

/// A time as one number: exact.
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
