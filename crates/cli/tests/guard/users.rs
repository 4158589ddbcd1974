// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which users see which decisions: root sees all, a user sees those about the user's own processes.

use super::world::{Guarded, NOT_BAD};
use crate::support::job::{Run, finish};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Two users without accounts.
const ONE: u32 = 47_310;
const OTHER: u32 = 47_311;

/// `palisade …` as the user `uid`, not yet started.
fn command(guarded: &Guarded, uid: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new(guarded.top().join("palisade"));
    command
        .args(arguments)
        .arg("--socket")
        .arg(guarded.top().join("sock"))
        .current_dir("/")
        .env_clear()
        .env("HOME", guarded.top())
        .env("PATH", "/usr/bin:/bin")
        .uid(uid)
        .gid(uid);
    command
}

/// The events that palisaded remembers and shows to the user `uid`.
fn remembered(guarded: &Guarded, uid: u32) -> Vec<Value> {
    let run = finish(&mut command(guarded, uid, &["watch", "--json", "--no-follow", "--kind", "guard"]));
    assert_eq!((run.code, run.err.is_empty()), (0, !run.out.is_empty()), "{run:?}");
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Executes a command as the user `uid`, and asserts that it fails.
fn refused(guarded: &Guarded, uid: u32, line: &[&str]) -> Run {
    let (user, group) = (format!("--reuid={uid}"), format!("--regid={uid}"));
    let run = finish(&mut guarded.inside(&[&["setpriv", &user, &group, "--clear-groups"], line].concat()));
    assert_ne!(run.code, 0, "{run:?}");
    run
}

fn users(events: &[Value]) -> BTreeSet<u64> {
    events.iter().map(|event| event["subject"]["uid"].as_u64().unwrap()).collect()
}

#[test]
fn root_sees_all_and_a_user_what_is_own() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["enforce"]).ok();
    let bad = guarded.file("bad");
    assert!(remembered(&guarded, 0).is_empty() && remembered(&guarded, ONE).is_empty());
    for uid in [0, ONE, OTHER] {
        refused(&guarded, uid, &["sh", "-c", "exec \"$0\"", &bad]);
    }
    guarded.wait_until("all three are told", || users(&remembered(&guarded, 0)).len() == 3);
    for uid in [ONE, OTHER] {
        let own = remembered(&guarded, uid);
        assert_eq!(users(&own), BTreeSet::from([u64::from(uid)]), "{own:?}");
        assert!(own.iter().all(|event| event["object"] == *bad && event["verdict"] == "refused"), "{own:?}");
    }
    assert_eq!(remembered(&guarded, 47_312), Vec::<Value>::new());
    // The same for events as they happen.
    let mut child =
        command(&guarded, OTHER, &["guard", "watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let heard = std::thread::spawn(move || lines.next());
    guarded.wait_until("it is told", || {
        refused(&guarded, ONE, &["sh", "-c", "exec \"$0\"", &bad]);
        refused(&guarded, OTHER, &["sh", "-c", "exec \"$0\"", &bad]);
        heard.is_finished()
    });
    let event: Value = serde_json::from_str(&heard.join().unwrap().unwrap().unwrap()).unwrap();
    assert_eq!(event["subject"]["uid"], OTHER, "{event}");
    child.kill().unwrap();
    child.wait().unwrap();
    // An option that makes the kernel ask about everything is for root only.
    let run = finish(&mut command(&guarded, ONE, &["guard", "watch", "--all"]));
    assert!(run.code == 2 && run.err.contains("only root can send this request to the guard"), "{run:?}");
}

/// A program with the set-user-ID bit runs for its owner, so its caller doesn't see what it opens.
#[test]
fn what_a_set_user_id_program_does_is_root_s_to_see() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["enforce"]).ok();
    let (env, bad) = (guarded.file("env"), guarded.file("bad"));
    assert_eq!(finish(&mut guarded.inside(&["cp", "/usr/bin/env", &env])).code, 0);
    assert_eq!(finish(&mut guarded.inside(&["chmod", "4755", &env])).code, 0);
    // Without the bit it is the user's.
    refused(&guarded, ONE, &["env", &bad]);
    guarded.wait_until("it is told", || !remembered(&guarded, ONE).is_empty());
    let before = remembered(&guarded, ONE).len();
    refused(&guarded, ONE, &[&env, &bad]);
    let program = |event: &Value| event["subject"]["program"] == *env;
    guarded.wait_until("root is told", || remembered(&guarded, 0).iter().any(program));
    let found = remembered(&guarded, 0);
    let found = found.iter().find(|event| program(event)).unwrap();
    assert_eq!(found["subject"]["uid"], ONE, "the real user is the caller: {found}");
    let own = remembered(&guarded, ONE);
    assert!(own.len() == before && !own.iter().any(program), "{own:?}");
    let mode = std::fs::metadata(guarded.top().join("palisade")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "the others could execute it");
}
