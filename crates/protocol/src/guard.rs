// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked of the guard, and what it answers.
//!
//! One request, one [`Response`]; only [`Request::Follow`] is answered by one after the other until somebody hangs
//! up. What changes anything is root's to ask. Decisions about own processes everybody may follow; root follows all.

use palisade_event::Event;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where the guard listens.
pub const SOCKET: &str = "/run/palisade/guard.sock";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// What is in force, and what isn't.
    Status,
    /// What happened so far, counted; with `reset`, counting begins anew.
    Metrics {
        /// Begin anew.
        #[serde(default)]
        reset: bool,
    },
    /// The rules in force, each with how often it decided.
    Rules,
    /// Read settings, rules and trust files again. What can't be understood changes nothing.
    Reload {
        /// Take rules that would stop the host.
        #[serde(default)]
        force: bool,
    },
    /// Enforce, or only say what would be refused.
    Mode {
        /// Enforce.
        enforce: bool,
        /// Although the rules would stop the host.
        #[serde(default)]
        force: bool,
    },
    /// Enforce for a while, then go back by itself.
    Try {
        /// For how long.
        seconds: u64,
        /// Rules to be tried, a file or a directory, instead of those in force.
        rules: Option<String>,
        /// Although the rules would stop the host.
        #[serde(default)]
        force: bool,
    },
    /// What is being tried stays.
    Keep,
    /// What is being tried ends now.
    Revert,
    /// Bring the trust database up to date.
    Trust {
        /// Hash everything again, what seems unchanged too.
        #[serde(default)]
        everything: bool,
        /// Only trust files have changed.
        #[serde(default)]
        files: bool,
    },
    /// Answer when what packages and trust files say by now is in force.
    Sync {
        /// The longest that is waited.
        seconds: u64,
    },
    /// What would become of an open or exec, and why.
    Judge(Supposition),
    /// Every decision that is logged, as it is made: of own processes, and for root of all. [`Response::Done`] comes first,
    /// and once more when what is remembered was told.
    Follow {
        /// Those that are not logged, too. Root's to ask: the kernel asks about everything meanwhile.
        #[serde(default)]
        all: bool,
        /// First those that are remembered.
        #[serde(default)]
        past: bool,
        /// End after those.
        #[serde(default)]
        end: bool,
        /// Only what was refused.
        #[serde(default)]
        refused: bool,
    },
    /// Begin or end measuring how long decisions take.
    Timing {
        /// Begin.
        start: bool,
    },
    /// Hash a file that is passed after the answer is [`Response::Done`]: whoever asks may not open it while the guard
    /// refuses that.
    Measure,
    /// End the guard; opens and execs aren't asked about any more.
    Stop,
}

impl Request {
    /// Whether only root may ask it.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Self::Status | Self::Metrics { reset: false } | Self::Rules | Self::Follow { all: false, .. }
        )
    }
}

/// An open or exec that is only supposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supposition {
    /// The file; a name that isn't text can't be asked about over the socket.
    pub path: String,
    /// To be executed, rather than opened.
    pub execute: bool,
    /// Whose open it is: a process that exists. Otherwise the caller's own.
    pub pid: Option<u32>,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// It is done; in words.
    Done {
        /// What was done.
        said: String,
    },
    /// It can't be done.
    Refused(Refusal),
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Metrics`].
    Metrics(Box<Metrics>),
    /// To [`Request::Rules`].
    Rules {
        /// In the order in which they are asked.
        rules: Vec<RuleHits>,
    },
    /// To [`Request::Judge`].
    Judged(Box<Event>),
    /// To [`Request::Follow`], one of many.
    Event(Arc<Event>),
    /// To [`Request::Follow`]: the reader was slow.
    Missed {
        /// So many events weren't told.
        count: u64,
    },
    /// To [`Request::Timing`] when it ends.
    Timing(Box<Timing>),
    /// To [`Request::Measure`], once the file was passed.
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
    /// Its process.
    pub pid: u32,
    /// Seconds since it began.
    pub seconds: u64,
    /// Does it refuse, or only say what it would refuse?
    pub enforcing: bool,
    /// For how many seconds more something is being tried.
    pub trying: Option<u64>,
    /// What is asked about: `open` and `execute`, or `execute`.
    pub asked: String,
    /// The mechanisms in force, best first, and those that aren't with the reason.
    pub mechanisms: Vec<Mechanism>,
    /// Where the rules are from.
    pub rules_from: String,
    /// How many.
    pub rules: usize,
    /// How often rules were loaded.
    pub generation: u64,
    /// Files in the trust database.
    pub trusted: u64,
    /// The database's age in seconds.
    pub trust_age: Option<u64>,
    /// How a trusted file is recognised.
    pub integrity: String,
    /// Mount points that are watched.
    pub watched: Vec<String>,
    /// Mount points that aren't, each with the reason.
    pub unwatched: Vec<(String, String)>,
    /// What can't be seen by what is in force, and what to do about it.
    pub blind: Vec<String>,
    /// What is wrong.
    pub alarms: Vec<String>,
}

/// One mechanism.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mechanism {
    /// `fanotify`, `bpf-lsm`.
    pub name: String,
    /// Does it decide?
    pub in_force: bool,
    /// How that was found out, or why not.
    pub because: String,
}

/// What happened, counted since the daemon began or since the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// Questions of the kernel.
    pub questions: u64,
    /// Of these, about execs.
    pub executes: u64,
    /// Answered with yes.
    pub allowed: u64,
    /// Answered with no; in permissive mode those that would have been.
    pub denied: u64,
    /// Denied because the process couldn't be looked at.
    pub unknown_subject: u64,
    /// Files that the kernel answers for by itself since then.
    pub passed: u64,
    /// Files about which it asks again because they changed.
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
    /// Decisions that were to be logged and weren't, because there were too many.
    pub unlogged: u64,
    /// Times that the reader was found stalled.
    pub stalls: u64,
    /// Times that an answer couldn't be given (who asked was gone).
    pub unanswered: u64,
}

/// A rule and how often it decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleHits {
    /// Its number, from one.
    pub number: u32,
    /// File and line.
    pub origin: String,
    /// The rule.
    pub text: String,
    /// How often.
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
