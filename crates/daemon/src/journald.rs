// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes messages to systemd's journal, if standard error leads there. A message has a priority, and a decision has fields
//! to search by (`journalctl PALISADE_DECISION=deny`). Uses the journal's own protocol
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL>).

use palisade_event::{Event, Guard, Verdict};
use rustix::fs::Stat;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

const SOCKET: &str = "/run/systemd/journal/socket";

/// The importance of a line: the numbers of syslog(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The guard doesn't do its work.
    Alert = 1,
    /// Something failed.
    Error = 3,
    /// A process was refused something.
    Warning = 4,
    /// Something changed that an administrator wants to know.
    Notice = 5,
    /// Anything else.
    Information = 6,
}

/// A message for the journal.
#[derive(Debug)]
pub(crate) struct Message {
    /// For people: without characters that could mislead them.
    pub(crate) text: String,
    priority: Priority,
    /// For programs: unchanged.
    fields: Vec<(&'static str, String)>,
}

impl Message {
    /// The message for a line. The beginning of the line determines its priority.
    pub(crate) fn of_line(text: String) -> Self {
        let about = text.strip_prefix("palisaded: ").unwrap_or(&text);
        let begins = |words: &[&str]| words.iter().any(|word| about.starts_with(word));
        let priority = if begins(&["alarm: "]) {
            Priority::Alert
        } else if begins(&["error: ", "hint: "]) {
            Priority::Error
        } else if begins(&["alarm ended: "]) {
            Priority::Notice
        } else {
            Priority::Information
        };
        Self { text, priority, fields: Vec::new() }
    }

    /// The message for a decision; `text` is its line.
    pub(crate) fn of_decision(text: String, event: &Event, guard: &Guard) -> Self {
        let priority = if guard.decision.allows() { Priority::Information } else { Priority::Warning };
        let number = |number: Option<u32>| number.unwrap_or(u32::MAX).to_string();
        let mut fields = vec![
            ("PALISADE_DECISION", guard.decision.to_string()),
            ("PALISADE_REFUSED", u8::from(event.verdict == Verdict::Refused).to_string()),
            ("PALISADE_ACCESS", event.operation.to_string()),
            ("PALISADE_PATH", event.object.to_string()),
            ("PALISADE_KIND", guard.file_kind.clone()),
            ("PALISADE_TRUSTED", u8::from(guard.trusted == Some(true)).to_string()),
            // About the process that asked. The journal adds further fields with the prefix OBJECT_ by itself.
            ("OBJECT_PID", number(event.subject.pid)),
            ("PALISADE_UID", number(event.subject.uid)),
            ("PALISADE_EXE", event.subject.program.clone()),
            ("PALISADE_RULE_ORIGIN", event.decided_by()),
        ];
        fields.extend(guard.rule.map(|rule| ("PALISADE_RULE", rule.to_string())));
        Self { text, priority, fields }
    }

    /// The message in the journal's format.
    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let own = [
            ("MESSAGE", self.text.clone()),
            ("PRIORITY", (self.priority as u8).to_string()),
            ("SYSLOG_IDENTIFIER", "palisaded".to_owned()),
            ("SYSLOG_FACILITY", "3".to_owned()),
        ];
        for (name, value) in own.iter().chain(&self.fields) {
            bytes.extend(name.as_bytes());
            // A line break would end the value, so its length precedes it.
            if value.contains('\n') {
                bytes.push(b'\n');
                bytes.extend((value.len() as u64).to_le_bytes());
            } else {
                bytes.push(b'=');
            }
            bytes.extend(value.as_bytes());
            bytes.push(b'\n');
        }
        bytes
    }
}

/// The connection to the journal.
#[derive(Debug)]
pub(crate) struct Journald(UnixDatagram);

impl Journald {
    /// The journal, if systemd says that standard error is connected to it and that is still so.
    pub(crate) fn behind_standard_error() -> Option<Self> {
        let said = std::env::var("JOURNAL_STREAM").ok()?;
        let is_it = rustix::fs::fstat(std::io::stderr()).is_ok_and(|found| is_named(&said, &found));
        is_it.then(|| UnixDatagram::unbound().ok().map(Self)).flatten()
    }

    /// Sends a message. Returns false if the journal accepts none; text on standard error may still reach it later.
    pub(crate) fn send(&self, message: &Message) -> bool {
        // Uses the path each time: a restarted journal has another socket there.
        self.0.send_to(&message.encoded(), Path::new(SOCKET)).is_ok()
    }
}

/// Whether `found` is the file that `JOURNAL_STREAM` names as `DEVICE:INODE`.
fn is_named(said: &str, found: &Stat) -> bool {
    said.split_once(':').is_some_and(|(device, inode)| {
        device.parse() == Ok(found.st_dev) && inode.parse() == Ok(found.st_ino)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_forges_no_field() {
        let event = crate::followers::tests::refusal(0, "/a\nPRIORITY=7\n/b");
        let palisade_event::Detail::Guard(guard) = &event.detail else { panic!("it is the guard's") };
        let encoded = Message::of_decision("line".into(), &event, guard).encoded();
        let mut expected = b"PALISADE_PATH\n".to_vec();
        expected.extend(16_u64.to_le_bytes());
        expected.extend(b"/a\nPRIORITY=7\n/b\n");
        assert!(encoded.windows(expected.len()).any(|part| part == expected), "{encoded:?}");
        assert!(encoded.starts_with(b"MESSAGE=line\nPRIORITY=4\n"), "{encoded:?}");
    }

    #[test]
    fn alarms_are_told_from_what_is_only_said() {
        let of = |line: &str| Message::of_line(line.into()).priority;
        assert_eq!(of("palisaded: alarm: can't watch /x"), Priority::Alert);
        assert_eq!(of("palisaded: error: no rules"), Priority::Error);
        assert_eq!(of("palisaded: alarm ended: can't watch /x"), Priority::Notice);
        assert_eq!(of("palisaded: 3 files are trusted"), Priority::Information);
    }

    #[test]
    fn only_the_stream_that_is_named_is_the_journals() {
        let found = rustix::fs::stat("/dev/null").unwrap();
        assert!(is_named(&format!("{}:{}", found.st_dev, found.st_ino), &found));
        for other in ["", ":", "8:1", &format!("{}:{}", found.st_dev, found.st_ino + 1)] {
            assert!(!is_named(other, &found), "{other}");
        }
    }
}
