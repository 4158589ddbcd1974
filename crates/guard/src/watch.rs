// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fanotify backend: receives the kernel's questions and answers them. A question is a permission event of
//! fanotify: a process that opens or executes a file waits for its answer. In reading order:
//!
//! - [`mounts`]: which file systems are watched
//! - [`policy`]: everything that decides, as one value
//! - [`engine`]: answers the kernel's questions; [`workers`] determines which thread does
//! - [`later`]: questions that other threads answer; [`waiting`]: their queues, one for each user
//! - `occurrence`: one open or exec, whose facts are looked up when they are asked for; [`known`] and [`process`]: what
//!   is remembered of files and processes, in a [`remembered`] map; `executed`: the path of an executed program
//! - [`place`]: a file's real path
//! - [`revoke`]: asks again about files that were changed
//! - [`label`]: labels for the security module that answers where fanotify isn't asked
//! - [`line`](mod@line), [`counts`]: what is logged and counted

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

/// A decision that is to be logged or reported.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The decision.
    pub event: Event,
    /// Whether the rule logs it in the system's log.
    pub syslog: bool,
    /// The terminal of the process, where the refusal is shown to the user. It is looked up while the process waits for
    /// its answer, because a shell's child ends as soon as its exec is refused.
    pub terminal: Option<String>,
    /// The ordinary user who may see it; `None`: only root.
    pub user: Option<u32>,
}

/// The user that all user ids of a process name. If they differ (a set-user-id program), only root may see what the
/// process opens.
#[must_use]
pub fn whose(uids: &[u32]) -> Option<u32> {
    let (first, others) = uids.split_first()?;
    (*first != u32::MAX && others.iter().all(|other| other == first)).then_some(*first)
}

impl Judged {
    /// The decision, with its description.
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
