// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade scope events`: shows what happens in scopes.

use crate::output;
use crate::palisaded::{self, Listening};
use crate::verb::Exit;
use palisade_event::{Detail, Event, Operation, Scope, Verdict};
use palisade_protocol::client::{Client, DaemonError};
use palisade_protocol::scope::{Request, Response};
use palisade_text::harmless;
use std::path::Path;

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

/// Shows events until the user interrupts it or standard output is closed (yes), or palisaded ends (no).
pub(super) fn events(socket: &Path, options: &Options) -> Exit {
    let mut client = Client::begin(socket)?;
    let connection = client.connection();
    let request =
        Request::Follow { scope: options.scope, past: !options.new, end: !options.follow, refused: false };
    connection.send(&request).map_err(DaemonError::Talk)?;
    if options.follow && !options.json {
        output::note(&"waiting for events of scopes");
    }
    let gone = "palisaded has ended; marked processes keep their marks only if these are pinned";
    let how = Listening { json: options.json, ends: !options.follow, gone };
    palisaded::listen::<Response>(connection, &how, words)
}

fn words(event: &Event) -> String {
    let scope = event.subject.scope.unwrap_or_default();
    harmless(&format!("{} scope {scope} {}", palisaded::clock(event.time), happened(event)))
}

/// What happened, in words. The text isn't escaped yet.
pub(crate) fn happened(event: &Event) -> String {
    let Event { subject, object, why, .. } = event;
    let nothing = Scope::default();
    let detail = if let Detail::Scope(detail) = &event.detail { detail } else { &nothing };
    let verdict = match event.verdict {
        Verdict::Allowed => "seen",
        verdict => verdict.word(),
    };
    let command = match &detail.arguments {
        Some(arguments) if !arguments.is_empty() => {
            let cut = if detail.arguments_cut { " …" } else { "" };
            format!("{object} [{}{cut}]", arguments.join(" "))
        }
        _ => object.to_string(),
    };
    let [pid, uid] = [subject.pid, subject.uid].map(palisaded::number);
    match event.operation {
        Operation::Syscall => format!("calls {object}: {} ({pid}, user {uid})", subject.program),
        Operation::Exit => "has ended".to_owned(),
        Operation::Launch => format!("begins: {command} ({pid}, user {uid})"),
        _ => {
            let parents = detail.parents.iter().take(4);
            let parents: Vec<String> =
                parents.map(|parent| format!("{} ({})", parent.comm, parent.pid)).collect();
            let parents = parents.join(" < ");
            format!("{verdict}: {command} ({pid}, user {uid}): {}: below {parents}", why.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_event::{Mechanism, Object, Parent, Subject, Why};
    use std::time::{Duration, SystemTime};

    #[test]
    fn one_line_each() {
        let parent = |pid, comm: &str| Parent { pid, comm: comm.into() };
        let detail = Scope {
            arguments: Some(vec!["nc".into(), "-l\u{1b}".into()]),
            parents: vec![parent(8, "sh"), parent(7, "node")],
            ..Scope::default()
        };
        let event = Event::new(
            SystemTime::UNIX_EPOCH + Duration::from_secs(3_723),
            Detail::Scope(detail),
            Subject {
                pid: Some(9),
                uid: Some(1000),
                program: "sh".into(),
                scope: Some(3),
                ..Subject::default()
            },
            (Operation::Execute, Object::file("/bin/nc")),
            (Verdict::Killed, Mechanism::Bpf),
            Why::text("the name is denied"),
        );
        assert_eq!(
            words(&event),
            "01:02:03Z scope 3 killed: /bin/nc [nc -l\\u{1b}] (9, user 1000): the name is denied: below sh (8) < node (7)"
        );
        let call = Event {
            operation: Operation::Syscall,
            object: Object::syscall("socket(AF_ALG)", Some(41)),
            ..event.clone()
        };
        assert_eq!(words(&call), "01:02:03Z scope 3 calls socket(AF_ALG): sh (9, user 1000)");
        let launch = Event { operation: Operation::Launch, ..event.clone() };
        assert!(words(&launch).starts_with("01:02:03Z scope 3 begins: /bin/nc [nc "));
        let exit = Event { operation: Operation::Exit, ..event };
        assert_eq!(words(&exit), "01:02:03Z scope 3 has ended");
    }
}
