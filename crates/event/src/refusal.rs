// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A refusal for a program that acts on what it reads, such as an agent's model: as a sentence, and as JSON.
//!
//! Such a program must learn two facts that a user knows already: no command inside permits the operation, and another
//! attempt is refused, too.

use std::fmt;
use std::time::UNIX_EPOCH;

use serde::Serialize;

use crate::{Event, Kind, Mechanism, Operation, Origin};

/// The version of the serialised form of [`Refusal`].
const SCHEMA: u32 = 1;
/// The beginning of a comment behind a hint's command.
const COMMENT: &str = "   #";
/// Stands for the other arguments of the user's launch.
const REST: &str = "…";

/// The sentence about a refusal. Like the event's own text, with what a program inside can do about it: nothing.
#[derive(Debug, Clone, Copy)]
pub struct ForModel<'e>(pub &'e Event);

impl fmt::Display for ForModel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = self.0;
        write!(f, "{event}. Do not retry. ")?;
        match &event.hint {
            Some(hint) if permits(hint) => write!(f, "Only the user can permit it: {hint}"),
            Some(hint) => write!(f, "Only the user can permit it; what it needs: {hint}"),
            None => f.write_str("Only the user can change what is permitted."),
        }
    }
}

/// A refusal as one JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal<'e> {
    schema: u32,
    /// How often the same was refused in this launch.
    pub count: u64,
    #[serde(flatten)]
    facts: Facts<'e>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Facts<'e> {
    /// Whether another attempt can succeed: never.
    retry: bool,
    /// When it was first refused: nanoseconds since 1970, UTC.
    time: u64,
    kind: Kind,
    operation: Operation,
    object: String,
    program: &'e str,
    pid: Option<u32>,
    wall: Mechanism,
    rule: Option<&'e Origin>,
    why: &'e str,
    /// Whether the hint's command permits it. Otherwise it explains more.
    permits: bool,
    /// The user's command, in words.
    hint: Option<Vec<String>>,
    text: String,
}

impl<'e> Refusal<'e> {
    /// The refusal that an event reports, which happened `count` times.
    #[must_use]
    pub fn new(event: &'e Event, count: u64) -> Self {
        let since = event.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            schema: SCHEMA,
            count,
            facts: Facts {
                retry: false,
                time: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
                kind: event.kind(),
                operation: event.operation,
                object: event.object.to_string(),
                program: &event.subject.program,
                pid: event.subject.pid,
                wall: event.enforced_by,
                rule: event.why.origin.as_ref(),
                why: &event.why.text,
                permits: event.hint.as_deref().is_some_and(permits),
                hint: event.hint.as_deref().and_then(command),
                text: ForModel(event).to_string(),
            },
        }
    }

    /// The number of bytes of a line before the count.
    pub const COUNT_AT: usize = r#"{"schema":1,"count":"#.len();
    /// The bytes of the count.
    pub const COUNT_WIDTH: usize = 10;

    /// The object as one line of JSON, without the line's end. The count has the same place and the same width in each
    /// line, so that a writer can replace it ([`Self::COUNT_AT`]).
    ///
    /// # Errors
    /// None is known.
    pub fn line(&self) -> serde_json::Result<String> {
        let facts = palisade_text::json(serde_json::to_string(&self.facts)?);
        let count = Self::shown_count(self.count);
        Ok(format!(r#"{{"schema":{SCHEMA},"count":{count},{}"#, facts.trim_start_matches('{')))
    }

    /// A count in its fixed width. JSON allows spaces before a number.
    #[must_use]
    pub fn shown_count(count: u64) -> String {
        format!("{:>width$}", count.min(9_999_999_999), width = Self::COUNT_WIDTH)
    }

    /// Whether an event is a refusal that a program could act on. An operation that programs do without is none.
    #[must_use]
    pub fn is_one(event: &Event) -> bool {
        let expected = matches!(&event.detail, crate::Detail::Sandbox(sandbox) if sandbox.expected);
        event.verdict.stopped_it() && !expected
    }
}

/// Whether a hint's command permits the operation. A verb that explains permits nothing.
fn permits(hint: &str) -> bool {
    !hint.split(' ').skip(1).take(2).any(|word| word == "explain")
}

/// The command of a hint as words, without its comment and without the mark that stands for the rest of the user's
/// command. `None`: the hint is no command.
fn command(hint: &str) -> Option<Vec<String>> {
    let command = hint.split(COMMENT).next()?.trim_end();
    let mut words = words(command)?;
    if words.last().is_some_and(|word| word == REST) {
        words.pop();
    }
    (words.first().is_some_and(|word| word == "palisade")).then_some(words)
}

/// Splits a line into the words that [`palisade_text::quoted`] has quoted. `None`: a quote isn't closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        quoted => word.push(quoted),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next()?),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Detail, Network, Object, Outcome, Sandbox, Subject, Verdict, Why};
    use serde_json::Value;

    fn refused(hint: Option<&str>) -> Event {
        let event = Event::new(
            UNIX_EPOCH,
            Detail::Network(Network::new(Outcome::Refused)),
            Subject { pid: Some(7), program: "curl".into(), ..Subject::default() },
            (Operation::Connect, Object::host("example.org", 443)),
            (Verdict::Refused, Mechanism::Gateway),
            Why::text("no rule allows it"),
        );
        event.with_hint(hint.map(str::to_owned))
    }

    #[test]
    fn the_sentence_says_what_the_reader_must_not_do_and_who_can_permit_it() {
        let of = |hint| ForModel(&refused(hint)).to_string();
        let begins = "refused: connect example.org:443 by curl: no rule allows it (gateway). Do not retry. ";
        assert_eq!(
            of(Some("palisade run --allow example.org:443 …")),
            format!("{begins}Only the user can permit it: palisade run --allow example.org:443 …")
        );
        assert_eq!(
            of(Some("palisade explain --syscall bpf")),
            format!("{begins}Only the user can permit it; what it needs: palisade explain --syscall bpf")
        );
        assert_eq!(of(None), format!("{begins}Only the user can change what is permitted."));
    }

    #[test]
    fn a_line_is_json_whose_count_has_a_fixed_place() {
        let event = refused(Some("palisade run --allow example.org:443 …"));
        for count in [1, 12_345, u64::MAX] {
            let line = Refusal::new(&event, count).line().unwrap();
            let read: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(read["count"], count.min(9_999_999_999));
            assert_eq!(
                line[Refusal::COUNT_AT..][..Refusal::COUNT_WIDTH].trim_start(),
                read["count"].to_string()
            );
            assert_eq!((&read["retry"], &read["permits"]), (&false.into(), &true.into()));
            assert_eq!((&read["wall"], &read["kind"]), (&"gateway".into(), &"network".into()));
            assert_eq!(read["hint"], serde_json::json!(["palisade", "run", "--allow", "example.org:443"]));
            assert_eq!(read["rule"], Value::Null);
            // Both forms have the same members.
            let other = serde_json::to_value(Refusal::new(&event, count.min(9_999_999_999))).unwrap();
            assert_eq!(other, read);
        }
    }

    #[test]
    fn a_hint_is_read_back_into_words() {
        for word in ["/a b", "it's", "", "a'b'c", "ä\\n", "$(id)", "plain"] {
            let hint = format!("palisade run --rw {} …", palisade_text::quoted(word));
            assert_eq!(command(&hint).unwrap(), ["palisade", "run", "--rw", word], "{hint}");
        }
        assert_eq!(
            command("palisade run -- COMMAND…   # the command without bwrap").unwrap(),
            ["palisade", "run", "--", "COMMAND…"]
        );
        assert_eq!(command("write into ./a.toml: [network] allow = [\"x\"]"), None);
        assert_eq!(command("palisade run 'open"), None);
    }

    #[test]
    fn what_programs_do_without_is_no_refusal() {
        let detail = |expected| Detail::Sandbox(Sandbox { expected, ..Sandbox::default() });
        let of = |detail, verdict| Refusal::is_one(&Event { detail, verdict, ..refused(None) });
        assert!(of(detail(false), Verdict::Refused) && of(detail(false), Verdict::Killed));
        assert!(!of(detail(true), Verdict::Refused) && !of(detail(false), Verdict::Allowed));
    }
}
