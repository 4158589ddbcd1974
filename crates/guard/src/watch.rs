// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is asked, and how it is answered: the fanotify backend. In reading order:
//!
//! - [`mounts`]: which file systems are watched
//! - [`policy`]: everything that decides, as one value
//! - [`engine`]: answers the kernel's questions; [`workers`] says which thread does
//! - [`later`]: questions that other threads answer; [`waiting`]: where they wait, a line for each user
//! - `occurrence`: one open or exec, of which things are found out when they are asked for; [`known`] and [`process`]
//!   are what is remembered of files and processes, as long as [`remembered`] does; `executed`: where a program is
//! - [`place`]: where a file really is
//! - [`revoke`]: files that were changed are asked about again
//! - [`label`]: what is told to who answers where fanotify isn't asked
//! - [`line`](mod@line), [`counts`]: what is said and counted

pub mod counts;
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
pub mod workers;

use crate::facts::{Access, Facts};
use crate::linear::Outcome;
use crate::rule::RuleId;
pub use device::name as device_name;
use palisade_event::{
    Detail, Device, Event, File, Guard, Mechanism, Object, Operation, Subject, Verdict, Why,
};
use policy::Policy;
use std::time::SystemTime;

/// A decision that somebody is to hear of.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The decision.
    pub event: Event,
    /// Whether the rule wants it in the system's log.
    pub syslog: bool,
    /// Where the refusal is said to the user: the terminal of the process. It is found out while the process waits for
    /// its answer, because a shell's child ends as soon as its exec is refused.
    pub terminal: Option<String>,
    /// The ordinary user who may hear of it; none: only root.
    pub user: Option<u32>,
}

/// The user whose process it is: the one whom all its user ids name. What a set-user-id program opens is nobody's business but
/// root's.
#[must_use]
pub fn whose(uids: &[u32]) -> Option<u32> {
    let (first, others) = uids.split_first()?;
    (*first != u32::MAX && others.iter().all(|other| other == first)).then_some(*first)
}

impl Judged {
    /// The decision, with what is said of it.
    pub fn new(policy: &Policy, outcome: Outcome, refused: bool, facts: &dyn Facts) -> Self {
        let name = |bytes: &[u8]| {
            let mut text = String::new();
            line::text(&mut text, bytes);
            text
        };
        let decision = outcome.decision.word();
        let verdict = match (decision.allows(), refused) {
            (true, _) => Verdict::Allowed,
            (false, true) => Verdict::Refused,
            (false, false) => Verdict::WouldBeRefused,
        };
        let done = if decision.allows() { "allows" } else { "denies" };
        let why = match outcome.rule {
            Some(rule) => {
                Why { origin: Some(policy.place(rule)), text: format!("rule {} {done} it", rule.number()) }
            }
            None => Why::text("no rule matches"),
        };
        let operation = match facts.access() {
            Access::Open => Operation::Open,
            Access::Execute => Operation::Execute,
        };
        let id = facts.file_id();
        let file = File {
            path: name(facts.path()),
            device: id.map(|(device, _)| Device {
                major: rustix::fs::major(device),
                minor: rustix::fs::minor(device),
            }),
            inode: id.map(|(_, inode)| inode),
        };
        let guard = Guard {
            decision,
            rule: outcome.rule.map(RuleId::number),
            trusted: Some(facts.trusted()),
            file_kind: facts.kind().into(),
            line: policy.line(outcome, facts),
            steps: Vec::new(),
        };
        let uids = facts.uids();
        let subject = Subject {
            pid: Some(facts.pid()),
            uid: uids.first().copied().filter(|uid| *uid != u32::MAX),
            program: name(facts.exe()),
            comm: Some(name(facts.comm())),
            ..Subject::default()
        };
        Self {
            event: Event::new(
                SystemTime::now(),
                Detail::Guard(guard),
                subject,
                (operation, Object::File(file)),
                (verdict, Mechanism::Fanotify),
                why,
            ),
            syslog: outcome.decision.syslog,
            terminal: None,
            user: whose(uids),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_its_user_s_if_all_its_ids_are() {
        assert_eq!(whose(&[1000, 1000, 1000, 1000]), Some(1000));
        assert_eq!(whose(&[0, 0, 0, 0]), Some(0));
        for others in [&[1000, 0, 0, 0][..], &[1000, 1000, 0, 1000], &[u32::MAX], &[]] {
            assert_eq!(whose(others), None, "{others:?}");
        }
    }
}
