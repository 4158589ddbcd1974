// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard watch`: shows decisions as they are made.

use super::Places;
use crate::output;
use crate::palisaded::{self, Listening};
use crate::verb::Exit;
use palisade_event::{Detail, Event};
use palisade_protocol::client::Client;
use palisade_protocol::guard::{Request, Response};
use palisade_text::harmless;

/// Shows decisions until the user interrupts it or standard output is closed (yes), or palisaded ends (no).
pub(super) fn watch(places: &Places, all: bool, json: bool) -> Exit {
    let mut talk = Client::begin(&places.socket)?;
    talk.ask::<Response>(&Request::Follow { all, past: false, end: false, refused: false })?;
    if !json {
        output::note(&if all { "waiting for decisions" } else { "waiting for decisions that the rules log" });
    }
    let how = Listening { json, ends: false, gone: "palisaded has ended: nothing is refused any more" };
    palisaded::listen::<Response>(talk.connection(), &how, words)
}

fn words(event: &Event) -> String {
    harmless(&format!("{} {}", palisaded::clock(event.time), decided(event)))
}

/// A decision in words. The text isn't escaped yet.
pub(crate) fn decided(event: &Event) -> String {
    let Event { subject, operation, object, verdict, .. } = event;
    let (file, rule) = match &event.detail {
        Detail::Guard(guard) => (
            format!(" ({}, {})", guard.file_kind, trust(guard.trusted)),
            guard.rule.map(|number| format!("rule {number}, ")).unwrap_or_default(),
        ),
        _ => (String::new(), String::new()),
    };
    let [pid, uid] = [subject.pid, subject.uid].map(palisaded::number);
    format!(
        "{} ({pid}, user {uid}): {}: {operation} {object}{file}: {rule}{}",
        subject.program,
        verdict.word().replace('-', " "),
        event.decided_by(),
    )
}

/// Whether a file is trusted, in words.
fn trust(trusted: Option<bool>) -> &'static str {
    match trusted {
        Some(true) => "trusted",
        Some(false) => "not trusted",
        None => "trust unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_event::{
        Decision, Guard, Layer, Mechanism, Object, Operation, Origin, Subject, Verdict, Why,
    };
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    #[test]
    fn one_line_each() {
        let guard = Guard {
            decision: Decision::DenyAudit,
            rule: Some(2),
            trusted: Some(false),
            file_kind: "application/x-executable".into(),
            line: String::new(),
            steps: Vec::new(),
        };
        let event = Event::new(
            SystemTime::UNIX_EPOCH + Duration::from_secs(3_723),
            Detail::Guard(guard.clone()),
            Subject { pid: Some(7), uid: Some(1000), program: "/bin/sh".into(), ..Subject::default() },
            (Operation::Execute, Object::file("/tmp/x\u{1b}[2J")),
            (Verdict::Refused, Mechanism::Fanotify),
            Why {
                origin: Some(Origin::line(Layer::Administrator, Path::new("/r"), 3)),
                text: "rule 2 denies it".into(),
            },
        );
        assert_eq!(
            words(&event),
            "01:02:03Z /bin/sh (7, user 1000): refused: execute /tmp/x\\u{1b}[2J \
             (application/x-executable, not trusted): rule 2, /r:3"
        );
        // A decision that the kernel makes by itself has no rule.
        let kernel = Event {
            detail: Detail::Guard(Guard { rule: None, trusted: None, file_kind: "?".into(), ..guard }),
            verdict: Verdict::WouldBeRefused,
            enforced_by: Mechanism::BpfLsm,
            why: Why::text("a file in memory"),
            ..event
        };
        assert!(words(&kernel).contains(": would be refused: execute "), "{}", words(&kernel));
        assert!(
            words(&kernel).ends_with(" (?, trust unknown): bpf-lsm: a file in memory"),
            "{}",
            words(&kernel)
        );
    }
}
