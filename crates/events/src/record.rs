// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An event with what only its launch knows.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use palisade_policy::event::{Event, Operation};
use palisade_policy::layer::Origin;
use serde::Serialize;

use palisade_text::harmless;

/// A path has at most 4,096 bytes; one that isn't UTF-8 takes three for each.
const LONGEST_OBJECT: usize = 3 * 4096;
/// Of everything else: enough to recognise it.
const LONGEST: usize = 2048;

/// What is kept of an event. Its JSON is the event's with these members beside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// The launch's number: [`Launch::sandbox`].
    pub sandbox: Arc<str>,
    /// What was launched: [`Launch::command`].
    pub command: Arc<str>,
    /// The command that would permit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How often it happened within a second.
    pub count: u64,
    /// A line is said of it while the command runs. Not kept.
    #[serde(skip)]
    pub said: bool,
}

impl Record {
    /// An event that happened once, with nothing in it longer than is sensible: names come from confined
    /// programs, and what they make up must not fill the disk.
    #[must_use]
    pub fn new(launch: &Launch, mut event: Event, mut hint: Option<String>) -> Self {
        shorten(&mut event.object, LONGEST_OBJECT);
        shorten(&mut event.subject.program, LONGEST);
        shorten(&mut event.why.text, LONGEST);
        if let Some(hint) = &mut hint {
            shorten(hint, LONGEST_OBJECT);
        }
        Self {
            event,
            sandbox: Arc::clone(&launch.sandbox),
            command: Arc::clone(&launch.command),
            hint,
            count: 1,
            said: true,
        }
    }

    /// What makes another one the same.
    pub(crate) fn likeness(&self) -> Likeness<'_> {
        Likeness {
            operation: self.event.operation,
            object: &self.event.object,
            rule: self.event.why.origin.as_ref(),
        }
    }
}

/// What makes two events of a launch the same, if they happen within a second: the operation, what it is on
/// and the rule that refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Likeness<'a> {
    /// What was asked for.
    pub operation: Operation,
    /// Of what.
    pub object: &'a str,
    /// The rule's place.
    pub rule: Option<&'a Origin>,
}

/// One start of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Its number, short enough to be typed and never used twice: the launcher's process and a part of the
    /// time.
    pub sandbox: Arc<str>,
    /// The command line, on one line and harmless.
    pub command: Arc<str>,
}

impl Launch {
    /// A launch of `command` by this process, now.
    #[must_use]
    pub fn new<S: AsRef<OsStr>>(command: &[S]) -> Self {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let mut line = String::new();
        for word in command {
            if line.len() > LONGEST {
                break;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&quoted(&word.as_ref().to_string_lossy()));
        }
        let mut line = harmless(&line);
        shorten(&mut line, LONGEST);
        Self {
            // Process numbers come again, but not within the same 16 seconds' same microsecond.
            sandbox: format!("{}-{:06x}", std::process::id(), micros & 0xff_ffff).into(),
            command: line.into(),
        }
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Cuts what is too long, between characters.
fn shorten(text: &mut String, longest: usize) {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest));
        text.push('…');
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use palisade_policy::event::{EVENT_SCHEMA, Mechanism, Subject, Verdict, Why};
    use palisade_policy::layer::Layer;
    use std::path::Path;

    /// A refusal to write `object`.
    pub(crate) fn refusal(object: &str) -> Event {
        Event {
            schema: EVENT_SCHEMA,
            time: SystemTime::now(),
            subject: Subject { pid: Some(7), uid: Some(1), program: "sed".into(), sandbox: None },
            operation: Operation::Write,
            object: object.into(),
            verdict: Verdict::Refused,
            why: Why {
                origin: Some(Origin {
                    layer: Layer::User,
                    file: Some(Path::new("/c/config.toml").into()),
                    line: 3,
                    column: 1,
                }),
                text: "protected".into(),
            },
            enforced_by: Mechanism::Broker,
        }
    }

    #[test]
    fn a_launch_is_one_harmless_line() {
        let launch = Launch::new(&["sh", "-c", "echo 'a'\n\x1b[2J", ""]);
        assert_eq!(&*launch.command, r"sh -c 'echo '\''a'\''\n\u{1b}[2J' ''");
        let long = Launch::new(&["ä".repeat(5000)]);
        assert!(long.command.len() <= LONGEST + '…'.len_utf8() && long.command.ends_with('…'));
        assert!(launch.sandbox.starts_with(&format!("{}-", std::process::id())));
        std::thread::sleep(std::time::Duration::from_micros(5));
        assert_ne!(launch.sandbox, Launch::new(&["sh"]).sandbox);
    }

    #[test]
    fn json_is_the_event_and_more() {
        let launch = Launch::new(&["true"]);
        let record = Record::new(&launch, refusal("/a"), Some("palisade run --rw /a".into()));
        let json = serde_json::to_value(&record).unwrap();
        assert_eq!((&json["schema"], &json["object"]), (&1.into(), &"/a".into()));
        assert_eq!((&json["command"], &json["count"]), (&"true".into(), &1.into()));
        assert_eq!(json["hint"], "palisade run --rw /a");
        assert_eq!(json["why"]["origin"]["line"], 3);
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), record.event);
    }

    #[test]
    fn nothing_is_longer_than_sensible() {
        let launch = Launch::new(&["true"]);
        let event = refusal(&"x".repeat(1 << 20));
        let record = Record::new(&launch, event, Some("y".repeat(1 << 20)));
        assert!(record.event.object.len() < 13_000 && record.hint.unwrap().len() < 13_000);
    }
}
