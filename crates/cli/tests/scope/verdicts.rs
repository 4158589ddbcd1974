// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what happens to the programs that a scope executes, and what is reported about them.

use super::world::World;
use serde_json::json;

pub(crate) fn up() {
    let world = World::new("");
    assert!(world.socket().exists());
    assert!(!world.base.join("bpf/scope").exists(), "nobody asked for anything yet");
    let status = world.status();
    assert_eq!(
        (&status["in_force"], &status["depth"]),
        (&json!(true), &json!("propagate_on_fork")),
        "{status}"
    );
    assert_eq!(status["pid"], world.pid());
}

pub(crate) fn killed_before_the_first_instruction() {
    let world = World::new("");
    let outside = world.command(0, &["sh", "-c", "/bin/echo ran"]).output().unwrap();
    assert_eq!(outside.stdout, b"ran\n");
    for _ in 0..20 {
        let run = world.script(
            &["--verdict", "kill"],
            "/bin/echo ran; echo $?; ( /bin/echo ran & wait $! ); exec /bin/echo ran",
        );
        assert_eq!((run.code, run.out.as_str()), (137, "137\n"), "{run:?}");
    }
    assert_eq!(world.status()["killed"], 60);
}

pub(crate) fn refused_or_killed() {
    let world = World::new("");
    let words = ["--verdict", "refuse", "--", "sh", "-c", "/bin/echo ran; echo $?"];
    let run = world.scope(&[&["run"], &words[..]].concat());
    let status = world.status();
    if status["refuses"] == json!(true) {
        assert_eq!(run.out, "126\n", "{run:?}");
    } else {
        assert_eq!((run.code, run.out.as_str()), (125, ""), "{run:?}");
        assert!(run.err.contains("can't refuse") && run.err.contains("hint:"), "{run:?}");
        let run = world.scope(&[&["run", "--best-effort"], &words[..]].concat());
        assert_eq!(run.out, "137\n", "{run:?}");
        assert!(run.err.contains("are killed before their first instruction"), "{run:?}");
        assert!(status["refuses_not"].as_str().is_some_and(|why| !why.is_empty()), "{status}");
    }
}

pub(crate) fn warned() {
    let world = World::new("[enforcement]\nprofile = \"prompt\"");
    let run = world.script(&["--verdict", "warn", "--label", "mine"], "/bin/echo ran");
    assert_eq!((run.code, run.out.as_str()), (0, "ran\n"), "{run:?}");
    let event = world.event(|event| event["object"] == "/bin/echo");
    assert_eq!((&event["verdict"], &event["operation"]), (&json!("warned"), &json!("execute")));
}

pub(crate) fn event_with_its_parent() {
    let world = World::new("");
    let mut follower = world.scope_command(0, &["events", "--follow", "--new", "--json"]).spawn().unwrap();
    // It follows once it is among the daemon's conversations; an event comes again until it does.
    let stdout = follower.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        use std::io::BufRead;
        let lines = std::io::BufReader::new(stdout).lines();
        lines.map_while(Result::ok).find(|line| line.contains("\"path\":\"/bin/echo\"")).unwrap_or_default()
    });
    let mut shells = Vec::new();
    while !reader.is_finished() && shells.len() < 100 {
        shells.push(world.script(&[], "echo $$; /bin/echo 'one \"two' >/dev/null; :").out.trim().to_owned());
    }
    let line = reader.join().unwrap();
    let _gone = follower.kill();
    follower.wait().unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(shells.contains(&event["detail"]["parents"][0]["pid"].to_string()), "{event} {shells:?}");
    assert_eq!(event["detail"]["arguments"], json!(["/bin/echo", "one \"two"]));
    assert_eq!((&event["subject"]["uid"], &event["detail"]["distance"]), (&json!(0), &json!(0)));
    assert!(event["target"]["inode"].as_u64().is_some_and(|inode| inode > 0), "{event}");
    assert!(event["target"]["device"].as_str().is_some_and(|device| device.contains(':')), "{event}");
    assert_eq!((&event["kind"], &event["enforced_by"]), (&json!("scope"), &json!("bpf")));
}

pub(crate) fn chains() {
    let world = World::new("");
    let run = world.python(
        &[],
        "import subprocess; subprocess.run(['perl', '-e', 'system(\"sh\", \"-c\", \"/bin/echo deep; :\")'])",
    );
    assert_eq!((run.code, run.out.as_str()), (0, "deep\n"), "{run:?}");
    let event = world.event(|event| event["object"] == "/bin/echo");
    assert_eq!(event["detail"]["arguments"], json!(["/bin/echo", "deep"]));
    let names: Vec<&str> = event["detail"]["parents"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|parent| parent["comm"].as_str())
        .collect();
    assert!(names.len() >= 3, "{event}");
    let paths = ["python3", "perl", "sh", "echo"];
    for path in paths {
        world.event(|event| event["object"].as_str().is_some_and(|found| found.contains(path)));
    }
    // Also in the log that stays.
    let log = std::fs::read_to_string(world.base.join("state/scopes.jsonl")).unwrap();
    assert!(log.lines().any(|line| line.contains("\"/bin/echo\"")), "{log}");
}

pub(crate) fn rare_calls() {
    let world = World::new("");
    let script = "
import socket
for family, kind in [(socket.AF_INET, 1), (38, 5)]:
    try: socket.socket(family, kind)
    except OSError: pass
";
    world.python(&["--calls"], script);
    let event = world.event(|event| event["operation"] == "syscall");
    assert_eq!(
        (&event["target"]["name"], &event["target"]["argument"]),
        (&json!("socket(AF_ALG)"), &json!(38)),
        "{event}"
    );
    world.python(&[], script);
    let calls = world.events_as(0).iter().filter(|event| event["operation"] == "syscall").count();
    assert_eq!(calls, 1, "who doesn't ask isn't told");
}
