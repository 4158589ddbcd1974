// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is asked, and how it is answered: the fanotify backend. In reading order:
//!
//! - [`mounts`]: which file systems are watched
//! - [`policy`]: everything that decides, as one value
//! - [`engine`]: answers the kernel's questions; [`crew`] says which thread does
//! - [`later`]: questions that other threads answer; [`waiting`]: where they wait, a line for each user
//! - `occurrence`: one open or exec, of which things are found out when they are asked for; [`known`] and [`process`]
//!   are what is remembered of files and processes, as long as [`remembered`] does; `executed`: where a program is
//! - [`place`]: where a file really is
//! - [`revoke`]: files that were changed are asked about again
//! - [`label`]: what is told to who answers where fanotify isn't asked
//! - [`line`](mod@line), [`counts`]: what is said and counted

pub mod counts;
pub mod crew;
mod device;
pub mod engine;
mod executed;
pub mod known;
pub mod label;
pub mod later;
pub mod line;
pub mod mounts;
mod occurrence;
pub mod place;
pub mod policy;
pub mod process;
pub mod remembered;
pub mod revoke;
pub mod waiting;

use crate::facts::Facts;
use crate::linear::Outcome;
use crate::rule::RuleId;
pub use device::name as device_name;
use palisade_protocol::guard::Decided;
use policy::Policy;
use std::time::{SystemTime, UNIX_EPOCH};

/// A decision that somebody is to hear of.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The decision.
    pub decided: Decided,
    /// Whether the rule wants it in the system's log.
    pub syslog: bool,
    /// Where the refusal is said to the user: the terminal of the process. It is found out while the process waits for
    /// its answer, because a shell's child ends as soon as its exec is refused.
    pub terminal: Option<String>,
}

impl Judged {
    /// The decision, with what is said of it.
    pub fn new(policy: &Policy, outcome: Outcome, refused: bool, facts: &dyn Facts) -> Self {
        let name = |bytes: &[u8]| {
            let mut text = String::new();
            line::text(&mut text, bytes);
            text
        };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            decided: Decided {
                time: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                decision: outcome.decision.name().into(),
                refused,
                access: facts.access().to_string(),
                rule: outcome.rule.map(RuleId::number),
                origin: outcome.rule.map(|rule| policy.origin(rule)),
                pid: facts.pid(),
                uid: facts.uids().first().copied().unwrap_or(u32::MAX),
                exe: name(facts.exe()),
                comm: name(facts.comm()),
                path: name(facts.path()),
                kind: facts.kind().into(),
                trusted: facts.trusted(),
                line: policy.line(outcome, facts),
                steps: Vec::new(),
            },
            syslog: outcome.decision.syslog,
            terminal: None,
        }
    }
}
