// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard's requests and answers.
//!
//! Each request gets one [`Response`]. Only [`Request::Follow`] gets one after another until the client closes the
//! connection. Only root may make requests that change anything. A user may follow decisions about the user's own
//! processes; root may follow all.

use palisade_event::Event;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The guard's socket.
pub const SOCKET: &str = "/run/palisade/guard.sock";

/// A request to the guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// Tell what is in force, and what isn't.
    Status,
    /// Tell the counts of what happened so far; with `reset`, counting begins anew.
    Metrics {
        /// Begin anew.
        #[serde(default)]
        reset: bool,
    },
    /// List the rules in force, each with how often it decided.
    Rules,
    /// Read settings, rules and trust files again. If one of them can't be understood, nothing changes.
    Reload {
        /// Accept rules that would stop the host.
        #[serde(default)]
        force: bool,
    },
    /// Enforce, or only report what would be refused.
    Mode {
        /// Enforce.
        enforce: bool,
        /// Do so although the rules would stop the host.
        #[serde(default)]
        force: bool,
    },
    /// Enforce for a while, then go back automatically.
    Try {
        /// For how long.
        seconds: u64,
        /// The rules to try instead of those in force: a file or a directory.
        rules: Option<String>,
        /// Do so although the rules would stop the host.
        #[serde(default)]
        force: bool,
    },
    /// Keep what is being tried.
    Keep,
    /// End now what is being tried.
    Revert,
    /// Bring the trust database up to date.
    Trust {
        /// Hash every file again, also those that seem unchanged.
        #[serde(default)]
        everything: bool,
        /// Only trust files have changed.
        #[serde(default)]
        files: bool,
    },
    /// Answer once the present state of packages and trust files is in force.
    Sync {
        /// The longest time to wait.
        seconds: u64,
    },
    /// Tell how the guard would decide an open or exec, and why.
    Judge(Supposition),
    /// Send every decision that is logged, as it is made: a user gets decisions about own processes, root gets all.
    /// [`Response::Done`] comes first, and again after the remembered decisions.
    Follow {
        /// Send decisions that aren't logged, too. Only root may ask for this, because the kernel then asks about
        /// everything.
        #[serde(default)]
        all: bool,
        /// Send the remembered decisions first.
        #[serde(default)]
        past: bool,
        /// End after the remembered decisions.
        #[serde(default)]
        end: bool,
        /// Send refusals only.
        #[serde(default)]
        refused: bool,
    },
    /// Begin or end measuring how long decisions take.
    Timing {
        /// Begin.
        start: bool,
    },
    /// Hash a file, which the caller passes after the answer [`Response::Done`]. The caller can't open the file for reading
    /// while the guard refuses it.
    Measure,
    /// End the guard; afterwards nothing asks about opens and execs.
    Stop,
}

impl Request {
    /// Whether only root may make this request.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Self::Status | Self::Metrics { reset: false } | Self::Rules | Self::Follow { all: false, .. }
        )
    }
}

/// A hypothetical open or exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supposition {
    /// The file. A name that isn't text can't be sent over the socket.
    pub path: String,
    /// Whether the file would be executed, not opened.
    pub execute: bool,
    /// The existing process that would open the file; if none, the caller.
    pub pid: Option<u32>,
}

/// An answer of the guard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// The request is done.
    Done {
        /// In words: what was done.
        said: String,
    },
    /// The request can't be done.
    Refused(Refusal),
    /// The answer to [`Request::Status`].
    Status(Box<Status>),
    /// The answer to [`Request::Metrics`].
    Metrics(Box<Metrics>),
    /// The answer to [`Request::Rules`].
    Rules {
        /// In the order in which they are evaluated.
        rules: Vec<RuleHits>,
    },
    /// The answer to [`Request::Judge`].
    Judged(Box<Event>),
    /// One of many answers to [`Request::Follow`].
    Event(Arc<Event>),
    /// To [`Request::Follow`]: the client read too slowly.
    Missed {
        /// This number of events wasn't sent.
        count: u64,
    },
    /// The answer to [`Request::Timing`] when measuring ends.
    Timing(Box<Timing>),
    /// The answer to [`Request::Measure`] after the file was passed.
    Measured {
        /// Its size in bytes.
        size: u64,
        /// Its SHA-256, in hexadecimal.
        sha256: String,
    },
}

/// Why something can't be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The class of the error (`rules.unknown-field`), for programs.
    pub class: String,
    /// In words: operation, object, cause.
    pub message: String,
    /// A command that helps, or what to look at.
    pub hint: Option<String>,
}

/// What is in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The daemon's process number.
    pub pid: u32,
    /// Seconds since the daemon began.
    pub seconds: u64,
    /// Whether the guard refuses; otherwise it only reports what it would refuse.
    pub enforcing: bool,
    /// For how many more seconds something is being tried.
    pub trying: Option<u64>,
    /// Which accesses the guard decides: `open` and `execute`, or `execute`.
    pub asked: String,
    /// The mechanisms, best first. Those that aren't in force come with the reason.
    pub mechanisms: Vec<Mechanism>,
    /// Where the rules come from.
    pub rules_from: String,
    /// The number of rules.
    pub rules: usize,
    /// How often rules were loaded.
    pub generation: u64,
    /// Files in the trust database.
    pub trusted: u64,
    /// The database's age in seconds.
    pub trust_age: Option<u64>,
    /// How a trusted file is recognised.
    pub integrity: String,
    /// The mount points that are watched.
    pub watched: Vec<String>,
    /// The mount points that aren't watched, each with the reason.
    pub unwatched: Vec<(String, String)>,
    /// What the mechanisms in force can't see, and what to do about it.
    pub blind: Vec<String>,
    /// What is wrong.
    pub alarms: Vec<String>,
}

/// One mechanism.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mechanism {
    /// `fanotify`, `bpf-lsm`.
    pub name: String,
    /// Whether the mechanism decides.
    pub in_force: bool,
    /// How that was found out, or why the mechanism isn't in force.
    pub because: String,
}

/// What happened, counted since the daemon began or since the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// Questions that the kernel asked.
    pub questions: u64,
    /// Of these, questions about execs.
    pub executes: u64,
    /// Questions answered with yes.
    pub allowed: u64,
    /// Questions answered with no; in permissive mode those that would have been.
    pub denied: u64,
    /// Questions denied because the process couldn't be examined.
    pub unknown_subject: u64,
    /// Files for which the kernel has since answered by itself.
    pub passed: u64,
    /// Files about which the kernel asks again because they changed.
    pub revoked: u64,
    /// Lookups of a file's facts that had to examine the file.
    pub objects_missed: u64,
    /// Lookups of a file's facts that the cache answered.
    pub objects_hit: u64,
    /// Lookups of a process's facts that had to examine the process.
    pub subjects_missed: u64,
    /// Lookups of a process's facts that the cache answered.
    pub subjects_hit: u64,
    /// Times that the kernel's queue ran over, or a file couldn't be given to this process.
    pub lost: u64,
    /// Decisions that should have been logged and weren't, because there were too many.
    pub unlogged: u64,
    /// Times that the reader was found stalled.
    pub stalls: u64,
    /// Times that an answer couldn't be given because the asking process was gone.
    pub unanswered: u64,
}

/// A rule and how often it decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleHits {
    /// The rule's number, from one.
    pub number: u32,
    /// File and line.
    pub origin: String,
    /// The rule's text.
    pub text: String,
    /// How often it decided.
    pub hits: u64,
}

/// How long decisions took: counts per power of two of nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Seconds that were measured.
    pub seconds: u64,
    /// Decisions.
    pub decisions: u64,
    /// The sum of their nanoseconds.
    pub nanoseconds: u64,
    /// `histogram[i]` decisions took less than `2^i` ns and no less than half of that.
    pub histogram: Vec<u64>,
}
