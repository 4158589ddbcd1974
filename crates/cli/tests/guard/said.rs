// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what palisaded answers, and to which users.

use super::world::{Guarded, NOT_BAD};
use crate::support::job::finish;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

#[test]
fn refusals_are_shown_as_they_happen() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["enforce"]).ok();
    let mut command = guarded.guard_command(&["watch", "--json"]);
    let mut watch = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    // It follows once it has been answered; a refusal before that isn't shown.
    let mut lines = BufReader::new(watch.stdout.take().unwrap());
    let shown = std::thread::spawn(move || {
        let mut line = String::new();
        lines.read_line(&mut line).map(|_| line)
    });
    guarded.wait_until("something is shown", || !guarded.runs("bad") && shown.is_finished());
    let line = shown.join().unwrap().unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&event["kind"], &event["verdict"]), (&"guard".into(), &"refused".into()), "{line}");
    assert_eq!(
        (&event["operation"], &event["enforced_by"]),
        (&"execute".into(), &"fanotify".into()),
        "{line}"
    );
    assert_eq!((&event["object"], &event["target"]["path"]), (&guarded.file("bad").into(), &event["object"]));
    assert!(event["target"]["inode"].as_u64().is_some_and(|inode| inode > 0), "{line}");
    let origin = &event["why"]["origin"];
    assert!(origin["file"].as_str().unwrap().ends_with("10.rules") && origin["line"] == 1, "{line}");
    assert_eq!((&event["detail"]["rule"], &event["subject"]["uid"]), (&1.into(), &0.into()), "{line}");
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn what_is_explained_is_what_happens() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["enforce"]).ok();
    for name in ["good", "bad"] {
        let (code, answer) = guarded.json(&["explain", &guarded.file(name)]);
        assert_eq!(answer["judged_by"], "daemon");
        assert_eq!(code == 0, guarded.runs(name), "{answer}");
        assert_eq!(answer["allowed"], code == 0);
    }
    let run = guarded.guard(&["explain", &guarded.file("bad")]);
    assert!(run.out.contains(": refused (palisaded says)"), "{run:?}");
    assert!(run.out.contains("by rule 1, ") && run.err.starts_with("hint: "), "{run:?}");
    let own = std::process::id().to_string();
    let (_, answer) = guarded.json(&["explain", &guarded.file("good"), "--open", "--pid", &own]);
    assert_eq!(
        (&answer["event"]["subject"]["pid"], &answer["event"]["operation"]),
        (&std::process::id().into(), &"open".into())
    );
}

#[test]
fn ordinary_users_may_look_and_not_change() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["enforce"]).ok();
    for arguments in [&["status"][..], &["rules", "--json"], &["metrics", "--prometheus"]] {
        guarded.guard_as_user(arguments).ok();
    }
    for arguments in [
        &["permissive"][..],
        &["stop"],
        &["reload"],
        &["try"],
        &["metrics", "--reset"],
        &["watch", "--all"],
        &["timing", "start"],
    ] {
        guarded
            .guard_as_user(arguments)
            .refused(2, &["only root can send this request to the guard"])
            .with_hint();
    }
    let run = guarded.guard_as_user(&["explain", "/usr/bin/true"]);
    assert!(run.code == 0 && run.err.contains("palisaded answers only root"), "{run:?}");
    assert!(!guarded.runs("bad"));
}

#[test]
fn counted_and_timed() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["enforce"]).ok();
    guarded.guard(&["timing", "start"]).ok();
    guarded.wait_until("enough is timed", || {
        (0..5).for_each(|_| assert!(!guarded.runs("bad")));
        true
    });
    let (code, timing) = guarded.json(&["timing", "stop"]);
    assert_eq!(code, 0);
    assert!(
        timing["decisions"].as_u64().unwrap() >= 5 && timing["p99"].as_u64() >= timing["p50"].as_u64(),
        "{timing}"
    );
    assert!(guarded.json(&["metrics"]).1["denied"].as_u64().unwrap() >= 5);
    let run = guarded.guard(&["metrics", "--prometheus", "--reset"]);
    assert!(
        run.ok().contains("# TYPE palisade_guard_denied_total counter\npalisade_guard_denied_total "),
        "{run:?}"
    );
    assert_eq!(guarded.json(&["metrics"]).1["denied"], 0);
    let (_, rules) = guarded.json(&["rules"]);
    assert!(rules["rules"][0]["hits"].as_u64().unwrap() >= 5, "{rules}");
}

#[test]
fn garbage_is_no_question() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    for garbage in [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0xff; 64], &[0; 4], b"\x02\0\0\0{}\x05\0\0\0xxxxx"] {
        let mut stream = UnixStream::connect(guarded.top().join("sock")).unwrap();
        let _it_may_hang_up = stream.write_all(garbage);
    }
    assert_eq!(guarded.json(&["status"]).0, 1);
    // If another program than palisaded is at the socket, that is an error and not an answer.
    let strange = guarded.top().join("strange");
    let listener = std::os::unix::net::UnixListener::bind(&strange).unwrap();
    let answering = std::thread::spawn(move || {
        listener.accept().map(|(mut stream, _)| stream.write_all(b"SSH-2.0-x\r\n"))
    });
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_palisade"));
    let run = finish(command.args(["guard", "status", "--json", "--socket"]).arg(&strange));
    answering.join().unwrap().unwrap().unwrap();
    assert_eq!((run.code, &super::world::parse(&run)["error"]["class"]), (2, &"protocol".into()));
}
