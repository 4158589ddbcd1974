// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which users may do what.

use super::world::{ORDINARY, OTHER, Run, World};
use palisade_acceptance::patience::Patience;
use serde_json::{Value, json};

fn list_as(world: &World, uid: u32) -> Vec<Value> {
    let run = world.scope_as(uid, &["list", "--json"]);
    let value: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error} {run:?}"));
    value["scopes"].as_array().unwrap().clone()
}

pub(crate) fn users_apart() {
    let world = World::new("");
    let mut sleeper = world.command(ORDINARY, &["sleep", "50"]).spawn().unwrap();
    let pid = child(sleeper.id());
    let run = world.scope_as(ORDINARY, &["mark", &pid]);
    assert_eq!(run.code, 0, "{run:?}");
    let id = run.out.trim().to_owned();
    assert_eq!(list_as(&world, ORDINARY).len(), 1);
    assert_eq!(list_as(&world, 0).len(), 1, "root sees all");
    assert_eq!(list_as(&world, OTHER), Vec::<Value>::new());
    assert!(world.scope_as(OTHER, &["clear", &id]).err.contains("no scope"));
    assert!(world.scope_as(OTHER, &["verdict", &id, "kill"]).err.contains("no scope"));
    assert_eq!(world.scope_as(OTHER, &["clear"]).code, 0, "all of one's own: none");
    assert_eq!(list_as(&world, ORDINARY).len(), 1);
    let run = world.scope_as(ORDINARY, &["run", "-q", "--", "sh", "-c", "/bin/echo mine"]);
    assert_eq!((run.code, run.out.as_str()), (0, "mine\n"), "{run:?}");
    world.event(|event| event["object"] == "/bin/echo" && event["subject"]["uid"] == ORDINARY);
    assert!(world.events_as(ORDINARY).iter().any(|event| event["object"] == "/bin/echo"));
    assert_eq!(world.events_as(OTHER), Vec::<Value>::new());
    let echo = |events: &[Value]| events.iter().any(|event| event["object"] == "/bin/echo");
    assert!(echo(&watched_by(&world, ORDINARY)), "what is own");
    assert!(echo(&watched_by(&world, 0)), "root sees all");
    assert_eq!(watched_by(&world, OTHER), Vec::<Value>::new(), "another's never");
    assert_eq!(world.scope_as(ORDINARY, &["clear", &id]).code, 0);
    let _gone = sleeper.kill();
    sleeper.wait().unwrap();
}

/// The events about scopes that `palisade watch` shows to the user `uid`.
fn watched_by(world: &World, uid: u32) -> Vec<Value> {
    let palisade = world.palisade.to_str().unwrap();
    let socket = world.base.join("guard.sock");
    let words =
        [palisade, "watch", "--json", "--no-follow", "--kind", "scope", "--socket", socket.to_str().unwrap()];
    let run: Run = world.command(uid, &words).env("HOME", world.base.join("files")).output().unwrap().into();
    assert_eq!(run.code, 0, "{run:?}");
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The process that `timeout` bounds.
fn child(timeout: u32) -> String {
    let mut patience = Patience::new(std::time::Duration::from_secs(10));
    loop {
        let text =
            std::fs::read_to_string(format!("/proc/{timeout}/task/{timeout}/children")).unwrap_or_default();
        if let Some(pid) = text.split_whitespace().next()
            && std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        {
            return pid.to_owned();
        }
        assert!(!patience.is_spent());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub(crate) fn root_only() {
    let world = World::new("");
    for words in [&["profile", "prompt"], &["depth", "one_level"]] {
        let run = world.scope_as(ORDINARY, words);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains("only root"), "{run:?}");
        assert_eq!(world.scope(words).code, 0);
    }
    assert_eq!(world.scope_as(ORDINARY, &["profile"]).out, "prompt\n", "anybody may know");
}

pub(crate) fn bad_marks() {
    let world = World::new("");
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let run = world.scope(&["mark", &ended.id().to_string()]);
    assert!(run.code == 2 && run.err.contains("no process"), "{run:?}");
    let run = world.scope_as(ORDINARY, &["mark", "1"]);
    assert!(run.code == 2 && run.err.contains("belongs to another user"), "{run:?}");
    let run = world.scope(&["mark", "--verdict", "kill", "1"]);
    assert!(run.code == 2 && run.err.contains("only be watched"), "{run:?}");
    let run = world.scope(&["mark", "--verdict", "watch", &world.pid().to_string()]);
    assert!(run.code == 2 && run.err.contains("is palisaded, which can't be"), "{run:?}");
    for bad in ["0", "-1", "4294967295", "x", "99999999999"] {
        assert_eq!(world.scope(&["mark", "--", bad]).code, 2, "{bad}");
    }
    let mut sleeper = world.command(0, &["sleep", "50"]).spawn().unwrap();
    let pid = child(sleeper.id());
    assert_eq!(world.scope(&["mark", &pid]).code, 0);
    let run = world.scope(&["mark", &pid]);
    assert!(run.code == 2 && run.err.contains("already"), "{run:?}");
    // With what it has started: the other was there before.
    let mut tree = world.command(0, &["sh", "-c", "sleep 50 & sleep 50"]).spawn().unwrap();
    let mut patience = Patience::new(std::time::Duration::from_secs(10));
    loop {
        let marked = world.json(&["mark", &tree.id().to_string(), "--json"]);
        if marked["processes"] == json!(4) {
            break;
        }
        assert_eq!(world.scope(&["clear", &marked["scope"].to_string()]).code, 0, "{marked}");
        assert!(!patience.is_spent(), "{marked}");
    }
    for child in [&mut sleeper, &mut tree] {
        // `timeout` passes it on.
        let _told = std::process::Command::new("kill").arg(child.id().to_string()).status();
        child.wait().unwrap();
    }
    assert_eq!(world.scope(&["clear"]).code, 0);
}

pub(crate) fn no_way_out() {
    let world = World::new("");
    let own = format!("{} scope --socket {}", world.palisade.display(), world.socket().display());
    for depth in ["propagate_on_fork", "ancestry(8)"] {
        assert_eq!(world.scope(&["depth", depth]).code, 0);
        let script = format!(
            "for what in clear 'verdict 1 watch' 'profile prompt' 'depth one_level' 'run true' 'mark 1'; do {own} $what 2>&1; done"
        );
        let run = world.script(&[], &script);
        assert_eq!(run.out.matches("can't change scopes").count(), 6, "{run:?}");
    }
}
