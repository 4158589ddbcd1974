// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard status`: says what is in force, and what isn't.

use super::{Places, count, lasting};
use crate::output;
use crate::verb::{self, Exit, NO, YES};
use palisade_protocol::client::{Client, DaemonError};
use palisade_protocol::guard::{Request, Response, Status};
use palisade_text::harmless;
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
struct Document<'a> {
    running: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    status: Option<&'a Status>,
    /// Why the daemon doesn't answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
}

/// Returns yes only if the guard refuses what the rules deny.
pub(super) fn status(places: &Places, json: bool) -> Exit {
    let mut talk = match Client::begin(&places.socket) {
        Err(error @ DaemonError::NotRunning { .. }) => {
            if json {
                let because = Some(error.to_string());
                verb::print_json(&Document { running: false, status: None, because })?;
            } else {
                verb::print("nothing is refused: the guard doesn't run\n")?;
                output::note(&error);
                let hint = error.hint().unwrap_or_default();
                output::say(&format!("hint: {}\n", output::as_typed(&hint)));
            }
            return Ok(NO);
        }
        talk => talk?,
    };
    let Response::Status(status) = talk.ask(&Request::Status)? else {
        return Err(DaemonError::Strange.into());
    };
    if json {
        verb::print_json(&Document { running: true, status: Some(&status), because: None })?;
    } else {
        verb::print(&words(&status))?;
    }
    Ok(if status.enforcing { YES } else { NO })
}

fn words(status: &Status) -> String {
    let mut lines = Vec::new();
    lines.push(match (status.enforcing, status.trying) {
        (true, Some(seconds)) => {
            format!(
                "enforcing, on trial for {seconds} s more: what the rules deny is refused (palisade guard keep)"
            )
        }
        (true, None) => "enforcing: what the rules deny is refused".to_owned(),
        (false, _) => "permissive: what the rules deny is only reported (palisade guard try)".to_owned(),
    });
    lines.push(format!(
        "  palisaded {}, process {}, for {}",
        status.version,
        status.pid,
        lasting(Duration::from_secs(status.seconds))
    ));
    lines.push(format!("  asked about: {}", status.asked));
    for mechanism in &status.mechanisms {
        let what = if mechanism.in_force { "decides" } else { "doesn't decide" };
        lines.push(format!("  {} {what}: {}", mechanism.name, mechanism.because));
    }
    let rules = count(status.rules as u64, "rule", "rules");
    lines.push(format!("  {rules} from {}, loaded {}", status.rules_from, times(status.generation)));
    let files = count(status.trusted, "file is trusted", "files are trusted");
    let age = status.trust_age.map_or_else(
        || "there is no database".to_owned(),
        |seconds| format!("as of {} ago", lasting(Duration::from_secs(seconds))),
    );
    lines.push(format!("  {files} ({age}), recognised by {}", recognised(&status.integrity)));
    listed(&mut lines, "watched", status.watched.iter().cloned());
    let unwatched = status.unwatched.iter().map(|(point, why)| format!("{point} ({why})"));
    listed(&mut lines, "not watched", unwatched);
    listed(&mut lines, "can't be seen", status.blind.iter().cloned());
    listed(&mut lines, "ALARM", status.alarms.iter().cloned());
    lines.iter().map(|line| harmless(line) + "\n").collect()
}

fn listed(lines: &mut Vec<String>, name: &str, items: impl Iterator<Item = String>) {
    lines.extend(items.map(|item| format!("  {name}: {item}")));
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

/// The setting `integrity` in words.
fn recognised(integrity: &str) -> &str {
    match integrity {
        "none" => "path",
        "size" => "path and size",
        "ima" => "path and IMA's digest",
        "sha256" => "path, size and SHA-256",
        "verity" => "path, size and SHA-256 of what fs-verity protects",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words() {
        let status = Status {
            version: "1.0".into(),
            enforcing: true,
            trying: Some(5),
            rules: 1,
            generation: 2,
            unwatched: vec![("/odd".into(), "its type isn't among watch.filesystems".into())],
            alarms: vec!["x".into()],
            integrity: "size".into(),
            ..Status::default()
        };
        let words = words(&status);
        assert!(words.starts_with("enforcing, on trial for 5 s more"), "{words}");
        assert!(words.contains("1 rule from , loaded 2 times"), "{words}");
        assert!(words.contains("there is no database), recognised by path and size"), "{words}");
        assert!(words.contains("not watched: /odd (its type"), "{words}");
        assert!(words.ends_with("ALARM: x\n"), "{words}");
    }
}
