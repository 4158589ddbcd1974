// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade scope events`: what happens in scopes.

use super::{Answer, ScopeError, talk};
use crate::answer::{self, Failure, NO, YES, harmless};
use crate::output;
use palisade_protocol::ProtocolError;
use palisade_protocol::scope::{Happened, Request, Response, Verdict};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long an interruption waits to be noticed.
const PAUSE: Duration = Duration::from_millis(200);

/// Which events.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Go on with those that happen
    #[arg(long, short)]
    follow: bool,
    /// Only those that happen from now on; with --follow
    #[arg(long, requires = "follow")]
    new: bool,
    /// Only of this scope
    #[arg(long, value_name = "SCOPE")]
    scope: Option<u32>,
    /// Print one JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

/// Shows events until it is interrupted or nobody reads any more (yes), or palisaded ends (no).
pub(super) fn events(socket: &Path, options: &Options) -> Answer {
    let interrupted = Arc::new(AtomicBool::new(false));
    if options.follow {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).map_err(ScopeError::Signals)?;
        }
    }
    let mut connection = talk::begin(socket)?;
    let request =
        Request::Follow { scope: options.scope, past: !options.new, end: !options.follow, refused: false };
    connection.send(&request).map_err(ScopeError::Talk)?;
    if options.follow && !options.json {
        output::note(&"waiting for what happens in scopes");
    }
    while !interrupted.load(Ordering::Relaxed) && !reader_has_gone() {
        match connection.receive_within::<Response>(Some(PAUSE)) {
            Ok(Response::Happened(happened)) => show(&happened, options.json)?,
            Ok(Response::Done { .. }) => {}
            Ok(Response::Refused(refusal)) => return Err(ScopeError::Refused(refusal).into()),
            Ok(_) => return Err(ScopeError::Strange.into()),
            Err(ProtocolError::TooSlow) => {}
            Err(ProtocolError::Gone | ProtocolError::Broken(_)) if !options.follow => return Ok(YES),
            Err(ProtocolError::Gone | ProtocolError::Broken(_)) => {
                output::note(&"palisaded has ended; what is marked stays so where it is pinned");
                return Ok(NO);
            }
            Err(error) => return Err(ScopeError::Talk(error).into()),
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

fn show(happened: &Happened, json: bool) -> Result<(), Failure> {
    let line = if json {
        serde_json::to_string(happened).map_err(|error| Failure::Output { source: error.into() })?
    } else {
        words(happened)
    };
    answer::print(&format!("{line}\n"))
}

fn words(happened: &Happened) -> String {
    let Happened { what, scope, verdict, why, pid, uid, path, .. } = happened;
    let verdict = match (what.as_str(), verdict) {
        ("killed", _) | (_, Verdict::Kill) => "killed",
        (_, Verdict::Refuse) => "refused",
        (_, Verdict::Warn) => "warned",
        (_, Verdict::Watch) => "seen",
    };
    let command = match &happened.arguments {
        Some(arguments) if !arguments.is_empty() => {
            let cut = if happened.arguments_cut { " …" } else { "" };
            format!("{path} [{}{cut}]", arguments.join(" "))
        }
        _ => path.clone(),
    };
    let parents: Vec<String> =
        happened.parents.iter().take(4).map(|parent| format!("{} ({})", parent.comm, parent.pid)).collect();
    let parents = parents.join(" < ");
    let what = match (what.as_str(), &happened.call) {
        ("call", Some((call, _))) => format!("calls {call}: {} ({pid}, user {uid})", happened.comm),
        ("ended", _) => "has ended".to_owned(),
        ("began", _) => format!("begins: {command} ({pid}, user {uid})"),
        _ => format!("{verdict}: {command} ({pid}, user {uid}): {why}: below {parents}"),
    };
    harmless(&format!("{} scope {scope} {what}", clock(happened.time)))
}

/// The time of day, UTC, of nanoseconds since 1970.
fn clock(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000 % 86400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds % 3600 / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::scope::Parent;

    #[test]
    fn one_line_each() {
        let happened = Happened {
            time: 3_723_000_000_000,
            what: "exec".into(),
            scope: 3,
            verdict: Verdict::Kill,
            why: "the name is denied".into(),
            pid: 9,
            uid: 1000,
            path: "/bin/nc".into(),
            arguments: Some(vec!["nc".into(), "-l\u{1b}".into()]),
            arguments_cut: false,
            parents: vec![Parent { pid: 8, comm: "sh".into() }, Parent { pid: 7, comm: "node".into() }],
            ..Happened::default()
        };
        assert_eq!(
            words(&happened),
            "01:02:03Z scope 3 killed: /bin/nc [nc -l\\u{1b}] (9, user 1000): the name is denied: below sh (8) < node (7)"
        );
        let call = Happened { what: "call".into(), call: Some(("socket(AF_ALG)".into(), 38)), ..happened };
        assert_eq!(words(&call), "01:02:03Z scope 3 calls socket(AF_ALG):  (9, user 1000)");
    }
}
