// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard watch`: decisions, as they are made.

use super::talk::Talk;
use super::{Answer, GuardError, Places};
use crate::answer::{self, Failure, NO, YES, harmless};
use crate::output;
use palisade_protocol::ProtocolError;
use palisade_protocol::guard::{Decided, Request, Response};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long an interruption waits to be noticed.
const PAUSE: Duration = Duration::from_millis(200);

/// Shows decisions until it is interrupted or nobody reads any more (yes), or palisaded ends (no).
pub(super) fn watch(places: &Places, all: bool, json: bool) -> Answer {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).map_err(GuardError::Signals)?;
    }
    let mut talk = Talk::begin(&places.socket)?;
    talk.ask(&Request::Follow { all })?;
    if !json {
        output::note(&if all { "waiting for decisions" } else { "waiting for what the rules log" });
    }
    while !interrupted.load(Ordering::Relaxed) && !reader_has_gone() {
        match talk.connection().receive_within::<Response>(Some(PAUSE)) {
            Ok(Response::Decided(decided)) => show(&decided, json)?,
            Ok(Response::Refused(refusal)) => return Err(GuardError::Refused(refusal).into()),
            Ok(_) => return Err(GuardError::Strange.into()),
            Err(ProtocolError::TooSlow) => {}
            Err(ProtocolError::Gone | ProtocolError::Broken(_)) => {
                output::note(&"palisaded has ended: nothing is refused any more");
                return Ok(NO);
            }
            Err(error) => return Err(GuardError::Talk(error).into()),
        }
    }
    Ok(YES)
}

/// A pipe without a reader is an error, which is told without being asked for.
fn reader_has_gone() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut output = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut output, Some(&now)), Ok(1..))
}

fn show(decided: &Decided, json: bool) -> Result<(), Failure> {
    let line = if json {
        serde_json::to_string(decided).map_err(|error| Failure::Output { source: error.into() })?
    } else {
        words(decided)
    };
    answer::print(&format!("{line}\n"))
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
        clock(decided.time)
    );
    harmless(&line)
}

/// The time of day, UTC, of nanoseconds since 1970.
fn clock(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000 % 86400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds % 3600 / 60, seconds % 60)
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
