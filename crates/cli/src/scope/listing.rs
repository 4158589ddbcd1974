// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists scopes, and prints what is in force.

use crate::output;
use crate::verb::{self, Exit, NO, YES};
use palisade_protocol::client::{self, DaemonError};
use palisade_protocol::scope::{Request, Response, Scope, Status};
use palisade_text::harmless;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// Prints what was marked.
pub(super) fn marked(response: Result<Response, DaemonError>, as_json: bool) -> Exit {
    let Response::Marked(marked) = response? else { return Err(DaemonError::Strange.into()) };
    for note in &marked.notes {
        output::note(note);
    }
    if as_json {
        verb::print_json(&marked)?;
    } else {
        verb::print(&format!("{}\n", marked.scope))?;
        let processes = if marked.processes == 1 { "process" } else { "processes" };
        output::say(&format!("scope {}: {} {processes} marked\n", marked.scope, marked.processes));
    }
    Ok(YES)
}

/// The JSON answer.
#[derive(Serialize)]
struct Listed<'s> {
    scopes: &'s [Scope],
}

/// Prints the scopes, one line each.
pub(super) fn list(socket: &Path, as_json: bool) -> Exit {
    let Response::Scopes { scopes } = client::ask(socket, &Request::List)? else {
        return Err(DaemonError::Strange.into());
    };
    if as_json {
        verb::print_json(&Listed { scopes: &scopes })?;
    } else {
        verb::print(&table(&scopes))?;
    }
    Ok(YES)
}

fn table(scopes: &[Scope]) -> String {
    let mut text = String::new();
    if scopes.is_empty() {
        return text;
    }
    text.push_str("SCOPE  USER   VERDICT  ROOT     LIVE   EVER    AGE      LABEL\n");
    for scope in scopes {
        let Scope { scope, owner, verdict, label, root, live, ever, age, .. } = scope;
        let _infallible = writeln!(
            text,
            "{scope:<6} {owner:<6} {verdict:<8} {root:<8} {live:<6} {ever:<7} {:<8} {}",
            format!("{age} s"),
            harmless(label)
        );
    }
    text
}

fn find(socket: &Path) -> Result<Status, DaemonError> {
    match client::ask(socket, &Request::Status)? {
        Response::Status(status) => Ok(*status),
        _ => Err(DaemonError::Strange),
    }
}

/// Prints one of the settings.
pub(super) fn setting(socket: &Path, of: impl FnOnce(&Status) -> String) -> Exit {
    verb::print(&format!("{}\n", of(&find(socket)?)))?;
    Ok(YES)
}

/// Prints what is in force.
pub(super) fn status(socket: &Path, as_json: bool) -> Exit {
    let status = find(socket)?;
    if as_json {
        verb::print_json(&status)?;
    } else {
        verb::print(&words(&status))?;
    }
    Ok(if status.in_force { YES } else { NO })
}

fn words(status: &Status) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _infallible = writeln!(text, "{name:<10} {}", harmless(value));
    };
    line("daemon", &format!("{} (process {})", status.version, status.pid));
    line(
        "kernel",
        &match &status.because {
            Some(because) => format!("holds no marks: {because}"),
            None => "holds marks".to_owned(),
        },
    );
    line("depth", &status.depth.to_string());
    line("profile", &status.profile.to_string());
    line(
        "refuse",
        &match &status.refuses_not {
            _ if status.refuses => "fails the exec with EPERM".to_owned(),
            Some(why) => format!("kills before the first instruction: {why}"),
            None => "nothing is loaded".to_owned(),
        },
    );
    line("pinned", status.pinned.as_deref().unwrap_or("no: scopes end with palisaded"));
    let [names, files, contents] = status.denied;
    line("denied", &format!("{names} names, {files} files, {contents} contents"));
    line("scopes", &format!("{} with {} processes", status.scopes, status.marked));
    line(
        "execs",
        &format!(
            "{} seen, {} killed, {} killed by the daemon, {} refused",
            status.execs, status.killed, status.killed_later, status.refused
        ),
    );
    line("lost", &format!("{} events, {} missed by slow followers", status.lost, status.missed));
    line("unmarked", &format!("{} children; {} marked beyond the table", status.unmarked, status.overflowed));
    for alarm in &status.alarms {
        line("alarm", alarm);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each() {
        let scope =
            Scope { scope: 7, owner: 1000, label: "npm\u{1b}[2J".into(), root: 42, ..Scope::default() };
        let text = table(&[scope]);
        assert!(
            text.contains("7      1000   watch    42       0      0       0 s      npm\\u{1b}[2J"),
            "{text}"
        );
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn what_is_not_in_force_is_said_with_its_reason() {
        let text = words(&Status { because: Some("no types".into()), ..Status::default() });
        assert!(text.contains("kernel     holds no marks: no types\n"), "{text}");
    }
}
