// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard watch`: decisions, as they are made.

use super::talk::Talk;
use super::{Answer, Places};
use crate::output;
use crate::palisaded::{self, DaemonError, Listening};
use palisade_protocol::guard::{Decided, Request, Response};
use palisade_text::harmless;

/// Shows decisions until it is interrupted or nobody reads any more (yes), or palisaded ends (no).
pub(super) fn watch(places: &Places, all: bool, json: bool) -> Answer {
    let mut talk = Talk::begin(&places.socket)?;
    talk.ask(&Request::Follow { all })?;
    if !json {
        output::note(&if all { "waiting for decisions" } else { "waiting for what the rules log" });
    }
    let how = Listening { json, ends: false, gone: "palisaded has ended: nothing is refused any more" };
    let news = |answer| match answer {
        Response::Decided(decided) => Ok(Some(*decided)),
        Response::Refused(refusal) => Err(DaemonError::Refused(refusal)),
        _ => Err(DaemonError::Strange),
    };
    palisaded::listen(talk.connection(), &how, news, words)
}

fn words(decided: &Decided) -> String {
    let verdict = match (decided.decision.starts_with("allow"), decided.refused) {
        (true, _) => "allowed",
        (false, true) => "refused",
        (false, false) => "would be refused",
    };
    let Decided { exe, pid, uid, access, path, kind, .. } = decided;
    let trust = if decided.trusted { "trusted" } else { "not trusted" };
    let rule = match (decided.rule, &decided.origin) {
        (Some(number), Some(origin)) => format!("rule {number}, {origin}"),
        _ => "no rule".to_owned(),
    };
    let line = format!(
        "{} {exe} ({pid}, user {uid}): {verdict}: {access} {path} ({kind}, {trust}): {rule}",
        palisaded::clock(decided.time)
    );
    harmless(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_each() {
        let decided = Decided {
            time: 3_723_000_000_000,
            decision: "deny_audit".into(),
            refused: true,
            access: "execute".into(),
            rule: Some(2),
            origin: Some("/r:3".into()),
            pid: 7,
            uid: 1000,
            exe: "/bin/sh".into(),
            path: "/tmp/x\u{1b}[2J".into(),
            kind: "application/x-executable".into(),
            ..Decided::default()
        };
        assert_eq!(
            words(&decided),
            "01:02:03Z /bin/sh (7, user 1000): refused: execute /tmp/x\\u{1b}[2J \
             (application/x-executable, not trusted): rule 2, /r:3"
        );
    }
}
