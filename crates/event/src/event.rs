// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event type: one decision, with its reason.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::{Detail, Kind, Launch, Mechanism, Object, Operation, Origin, Subject, Verdict};

/// The version of the event's serialised form. It grows when words or members are added; no member changes its
/// meaning. Readers must ignore unknown members.
pub const EVENT_SCHEMA: u32 = 2;

/// A path has at most 4,096 bytes. One that isn't UTF-8 can need three bytes for each.
const LONGEST_OBJECT: usize = 3 * 4096;
/// The limit for all other texts: enough to recognise them.
pub(crate) const LONGEST: usize = 2048;

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The [`EVENT_SCHEMA`] of the writer.
    pub schema: u32,
    /// When the decision was made.
    pub time: SystemTime,
    /// The process that made the request.
    pub subject: Subject,
    /// The requested operation.
    pub operation: Operation,
    /// The object of the operation.
    pub object: Object,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason.
    pub why: Why,
    /// The mechanism that enforced the verdict.
    pub enforced_by: Mechanism,
    /// The members of one kind of event.
    pub detail: Detail,
    /// The launch of the sandbox to which the event belongs.
    pub launch: Option<Launch>,
    /// The command that would permit the operation, or explains more.
    pub hint: Option<String>,
    /// How often the event happened within a second.
    pub count: u64,
}

/// The reason of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The place of the rule that decided. `None` if no rule allowed it.
    #[serde(default)]
    pub origin: Option<Origin>,
    /// One line for users.
    pub text: String,
}

impl Why {
    /// A reason without a rule.
    pub fn text(text: impl Into<String>) -> Self {
        Self { origin: None, text: text.into() }
    }
}

impl Event {
    /// An event that happened once, at `time`, and isn't assigned to a launch yet.
    #[must_use]
    pub fn new(
        time: SystemTime,
        detail: Detail,
        subject: Subject,
        (operation, object): (Operation, Object),
        (verdict, enforced_by): (Verdict, Mechanism),
        why: Why,
    ) -> Self {
        Self {
            schema: EVENT_SCHEMA,
            time,
            subject,
            operation,
            object,
            verdict,
            why,
            enforced_by,
            detail,
            launch: None,
            hint: None,
            count: 1,
        }
    }

    /// Adds a command that would permit the operation.
    #[must_use]
    pub fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// The part of Palisade that the event is from.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.detail.kind()
    }

    /// What decided: the rule's place, or else the mechanism with its reason. `/etc/palisade/guard.d/10.rules:3`,
    /// `bpf-lsm: a file in memory`.
    #[must_use]
    pub fn decided_by(&self) -> String {
        match &self.why.origin {
            Some(origin) => origin.to_string(),
            None => format!("{}: {}", self.enforced_by, self.why.text),
        }
    }

    /// Cuts texts that are too long: confined programs choose the names, and made-up names must not fill the disk.
    pub fn shorten(&mut self) {
        shorten(self.object.text_mut(), LONGEST_OBJECT);
        shorten(&mut self.subject.program, LONGEST);
        shorten(&mut self.why.text, LONGEST);
        if let Some(hint) = &mut self.hint {
            shorten(hint, LONGEST_OBJECT);
        }
    }
}

/// Cuts a text that is too long, between characters.
pub(crate) fn shorten(text: &mut String, longest: usize) {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest));
        text.push('…');
    }
}

/// `refused: write /etc/passwd by sed: nothing allows it (mount)`. Other programs choose the names, so filter the
/// line before printing it.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} {} by {}: {}",
            self.verdict, self.operation, self.object, self.subject.program, self.why.text
        )?;
        if let Some(origin) = &self.why.origin {
            write!(f, ", {origin}")?;
        }
        write!(f, " ({})", self.enforced_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Sandbox};
    use std::path::Path;

    fn refusal(object: &str) -> Event {
        Event::new(
            SystemTime::UNIX_EPOCH,
            Detail::Sandbox(Sandbox::default()),
            Subject { pid: Some(7), program: "sed".into(), ..Subject::default() },
            (Operation::Write, Object::file(object)),
            (Verdict::Refused, Mechanism::Mount),
            Why {
                origin: Some(Origin::line(Layer::Administrator, Path::new("/etc/palisade/config.toml"), 12)),
                text: "denied".into(),
            },
        )
    }

    #[test]
    fn an_event_reads_as_one_line() {
        assert_eq!(
            refusal("/etc/passwd").to_string(),
            "refused: write /etc/passwd by sed: denied, /etc/palisade/config.toml:12 (mount)"
        );
    }

    #[test]
    fn nothing_is_longer_than_sensible() {
        let mut event = refusal(&"ä".repeat(1 << 20)).with_hint(Some("y".repeat(1 << 20)));
        event.subject.program = "p".repeat(1 << 20);
        event.why.text = "w".repeat(1 << 20);
        event.shorten();
        assert!(event.object.to_string().len() < 13_000 && event.hint.as_ref().unwrap().len() < 13_000);
        assert!(event.subject.program.len() < 2100 && event.why.text.len() < 2100);
    }
}
