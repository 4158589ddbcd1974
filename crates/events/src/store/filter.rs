// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter for wanted events: in SQL for the store's, in Rust for others.

use std::time::SystemTime;

use palisade_event::{Event, Kind, Verdict};
use rusqlite::types::Value;

use super::nanoseconds;

/// Which events are wanted. Every condition that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only events since this time.
    pub since: Option<SystemTime>,
    /// Only events of the launch with this number, of launches by this process, or of sandboxes with this name.
    pub sandbox: Option<String>,
    /// Only events of this process.
    pub pid: Option<u32>,
    /// Only events with this verdict.
    pub verdict: Option<Verdict>,
    /// Only events of these kinds. If empty, of all kinds.
    pub kinds: Vec<Kind>,
}

/// Parameters 3 to 7 are the filter's. Events of schema 1 don't state their kind: those that the gateway enforced are
/// network events, the others sandbox events.
pub(super) const WANTED: &str = "(?3 IS NULL OR e.time >= ?3) AND (?4 IS NULL
    OR l.sandbox = ?4 OR substr(l.sandbox, 1, length(?4) + 1) = ?4 || '-' OR json_extract(e.event, '$.subject.sandbox') = ?4)
    AND (?5 IS NULL OR json_extract(e.event, '$.subject.pid') = ?5)
    AND (?6 IS NULL OR json_extract(e.event, '$.verdict') = ?6)
    AND (?7 IS NULL OR instr(?7, ',' || coalesce(json_extract(e.event, '$.kind'),
        iif(json_extract(e.event, '$.enforced_by') = 'gateway', 'network', 'sandbox')) || ','))";

impl Filter {
    /// The parameters of [`WANTED`], in order.
    pub(super) fn parameters(&self) -> [Value; 5] {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.word()).collect();
        [
            self.since.map(nanoseconds).into(),
            self.sandbox.clone().into(),
            self.pid.map(i64::from).into(),
            self.verdict.map(|verdict| verdict.word().to_owned()).into(),
            (!kinds.is_empty()).then(|| format!(",{},", kinds.join(","))).into(),
        ]
    }

    /// Whether events of this kind can be wanted.
    #[must_use]
    pub fn wants_kind(&self, kind: Kind) -> bool {
        let has_launch = matches!(kind, Kind::Sandbox | Kind::Network);
        (self.kinds.is_empty() || self.kinds.contains(&kind)) && (self.sandbox.is_none() || has_launch)
    }

    /// Whether an event is wanted.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        self.wants_kind(event.kind())
            && self.since.is_none_or(|since| event.time >= since)
            && self.sandbox.as_ref().is_none_or(|sandbox| is_of(event, sandbox))
            && self.pid.is_none_or(|pid| event.subject.pid == Some(pid))
            && self.verdict.is_none_or(|verdict| event.verdict == verdict)
    }
}

fn is_of(event: &Event, sandbox: &str) -> bool {
    let number = event.launch.as_ref().map(|launch| &*launch.sandbox);
    let by_process = |number: &str| number.strip_prefix(sandbox).is_some_and(|rest| rest.starts_with('-'));
    event.subject.sandbox.as_deref() == Some(sandbox)
        || number.is_some_and(|number| number == sandbox || by_process(number))
}
