// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the end and the start of the daemon, and its errors.

use super::world::{ORDINARY, World};
use palisade_acceptance::patience::Patience;
use serde_json::json;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

/// A shell in a scope that waits for a line, then executes something.
fn waiting(world: &World, verdict: &str) -> std::process::Child {
    let mut command = world.scope_command(
        0,
        &[
            "run",
            "-q",
            "--verdict",
            verdict,
            "--label",
            "waits",
            "--",
            "sh",
            "-c",
            "read line; /bin/echo ran; echo $?",
        ],
    );
    let began =
        |world: &World| world.events_as(0).iter().filter(|event| event["operation"] == "launch").count();
    let before = began(world);
    let child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut patience = Patience::new(Duration::from_secs(10));
    while began(world) == before {
        assert!(!patience.is_spent(), "it doesn't begin");
    }
    child
}

fn go(mut child: std::process::Child) -> String {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

pub(crate) fn outlives() {
    let mut world = World::new("");
    let (first, second) = (waiting(&world, "kill"), waiting(&world, "kill"));
    world.end("-KILL");
    assert_eq!(go(first), "137\n", "nobody serves, and it is in force");
    world.start(&[]);
    let list = world.json(&["list", "--json"]);
    assert_eq!(list["scopes"][0]["label"], "waits", "{list}");
    assert_eq!(world.scope(&["clear"]).code, 0);
    assert_eq!(go(second), "ran\n0\n");
    // Ended orderly, without scopes, it leaves nothing.
    assert_eq!(world.script(&[], ":").code, 0);
    let mut patience = Patience::new(Duration::from_secs(10));
    while world.json(&["list", "--json"])["scopes"] != json!([]) {
        assert!(!patience.is_spent());
    }
    world.end("-TERM");
    assert!(!world.base.join("bpf/scope").exists());
}

pub(crate) fn killed_and_started() {
    let mut world = World::new("");
    for pause in [0, 1, 5, 20, 60, 120, 200] {
        let mut load = world
            .scope_command(0, &["run", "-q", "--best-effort", "--", "sh", "-c", "/bin/true; /bin/true"])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        world.end("-KILL");
        load.wait().unwrap();
        world.start(&[]);
        assert_eq!(
            world.script(&["--verdict", "kill"], "/bin/echo ran; echo $?").out,
            "137\n",
            "after {pause} ms"
        );
    }
}

pub(crate) fn cleared() {
    let world = World::new("");
    let waits = waiting(&world, "kill");
    assert!(world.base.join("bpf/scope").exists());
    assert_eq!(world.scope(&["clear"]).code, 0);
    assert!(!world.base.join("bpf/scope").exists());
    assert_eq!(go(waits), "ran\n0\n");
    // And again.
    assert_eq!(world.script(&["--verdict", "kill"], "/bin/echo ran; echo $?").out, "137\n");
}

pub(crate) fn without_rights() {
    let mut world = World::without_daemon("");
    world.start(&["setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon", "--inh-caps", "-all", "--"]);
    let run = world.scope(&["status"]);
    assert!(run.code == 1 && run.out.contains("holds no marks"), "{run:?}");
    let run = world.scope(&["run", "--", "echo", "ran"]);
    assert!(run.code == 125 && run.out.is_empty() && run.err.contains("can't hold scopes"), "{run:?}");
    let run = world.scope(&["run", "--best-effort", "--", "echo", "ran"]);
    assert!(run.code == 0 && run.out == "ran\n" && run.err.contains("unmarked"), "{run:?}");
}

pub(crate) fn without_pins() {
    let mut world = World::without_daemon("");
    rustix::mount::unmount(world.base.join("bpf"), rustix::mount::UnmountFlags::DETACH).unwrap();
    world.start(&[]);
    assert_eq!(world.script(&["--verdict", "kill"], "/bin/echo ran; echo $?").out, "137\n");
    let status = world.status();
    assert_eq!(status["pinned"], json!(null));
    assert!(
        status["alarms"][0].as_str().is_some_and(|alarm| alarm.contains("end with palisaded")),
        "{status}"
    );
}

pub(crate) fn clients() {
    let world = World::new("");
    // Silent ones, garbage, and one that breaks off.
    let silent: Vec<UnixStream> = (0..64).map(|_| UnixStream::connect(world.socket()).unwrap()).collect();
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[255; 64], &[0; 64], &[2, 0, 0, 0, b'{', b'}'], b"\x05\0\0\0ab"]
    {
        let mut stream = UnixStream::connect(world.socket()).unwrap();
        let _closed = stream.write_all(garbage);
    }
    // A follower that reads nothing.
    let follow = "
import json, os, socket, struct, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
for text in [{'version': 1, 'program': 'x'}, {'ask': 'follow', 'scope': None}]:
    frame = json.dumps(text).encode()
    s.sendall(struct.pack('<I', len(frame)) + frame)
print('follows', flush=True)
time.sleep(40)
";
    let socket = world.socket();
    let mut slow =
        world.command(0, &["/usr/bin/python3", "-c", follow, socket.to_str().unwrap()]).spawn().unwrap();
    let mut patience = Patience::new(Duration::from_secs(40));
    assert_eq!(world.script(&["--verdict", "kill"], "/bin/echo ran; echo $?").out, "137\n");
    let script = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done";
    assert_eq!(world.script(&[], script).code, 0);
    assert!(!patience.is_spent(), "nobody waits for them");
    assert_eq!(world.status()["lost"], 0);
    let _gone = slow.kill();
    slow.wait().unwrap();
    drop(silent);
    // One user's many leave room for others.
    let many = "
import os, socket, sys, time
socks = []
for _ in range(200):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(sys.argv[1])
    except OSError: pass
    socks.append(s)
print('ready', flush=True)
time.sleep(30)
";
    let mut many =
        world.command(ORDINARY, &["/usr/bin/python3", "-c", many, socket.to_str().unwrap()]).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(many.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(world.scope(&["list"]).code, 0);
    let _gone = many.kill();
    many.wait().unwrap();
}

/// Follows and reads nothing, in as many ways as there are words.
const DEAF: &str = "
import json, socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.connect(sys.argv[1])
for text in [{'version': 1, 'program': 'x'}, {'ask': 'follow', 'scope': None}]:
    frame = json.dumps(text).encode()
    s.sendall(struct.pack('<I', len(frame)) + frame)
print('follows', flush=True)
sys.stdin.read()
";

pub(crate) fn slow_readers() {
    let world = World::new("");
    assert_eq!(world.script(&[], ":").code, 0);
    let socket = world.socket();
    let mut deaf = Vec::new();
    for _ in 0..3 {
        let mut command = world.command(0, &["/usr/bin/python3", "-c", DEAF, socket.to_str().unwrap()]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let said = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
        assert_eq!(line, "follows\n");
        deaf.push(child);
    }
    // A client that reads gets the last event, while the clients that don't read miss some.
    let script = "i=0; while [ $i -lt 1800 ]; do /bin/true; i=$((i+1)); done; /bin/echo last";
    let mut rounds = 0;
    while world.status()["missed"] == 0 {
        assert_eq!(world.script(&[], script).code, 0);
        rounds += 1;
        assert!(rounds < 8, "nobody misses anything");
    }
    world.event(|event| event["detail"]["arguments"][1] == "last");
    let status = world.scope(&["status"]);
    assert!(
        status.out.contains(" missed by") && !status.out.contains(" 0 missed by"),
        "it is shown: {status:?}"
    );
    for mut child in deaf {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// As many as may talk at once each get their answers.
pub(crate) fn many_at_once() {
    let world = World::new("");
    assert_eq!(world.script(&[], ":").code, 0);
    let (world, runs) = (&world, std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for number in 0..64 {
            let runs = &runs;
            scope.spawn(move || {
                let run = match number % 4 {
                    0 => world.scope(&["list", "--json"]),
                    1 => world.scope(&["status", "--json"]),
                    2 => world.script(&["--verdict", "kill"], "/bin/echo ran; echo $?"),
                    _ => world.scope(&["events", "--json"]),
                };
                runs.lock().unwrap().push((number, run));
            });
        }
    });
    let runs = runs.into_inner().unwrap();
    assert_eq!(runs.len(), 64);
    for (number, run) in runs {
        assert_eq!(run.code, 0, "{number}: {run:?}");
        assert!(number % 4 != 2 || run.out == "137\n", "{number}: {run:?}");
    }
}

pub(crate) fn too_many() {
    let world = World::new("");
    // 256 of an ordinary user, in one command that holds them.
    let script = format!(
        "i=0; while [ $i -lt 258 ]; do i=$((i+1)); sleep 50 & {} scope --socket {} mark --alone $! >/dev/null 2>>said || echo refused; done; cat said | tail -1; kill $(jobs -p)",
        world.palisade.display(),
        world.socket().display()
    );
    let run: super::world::Run = world.command(ORDINARY, &["bash", "-c", &script]).output().unwrap().into();
    assert_eq!(run.out.matches("refused").count(), 2, "{run:?}");
    assert!(run.out.contains("palisade scope clear"), "{run:?}");
    assert_eq!(world.script(&[], "echo others").out, "others\n");
}

pub(crate) fn full_buffer() {
    let world = World::new("");
    assert_eq!(world.script(&[], ":").code, 0);
    // The daemon is stopped, so no process reads meanwhile; the 4 MiB buffer holds some thousand events.
    let mut load = world
        .scope_command(
            0,
            &[
                "run",
                "-q",
                "--",
                "sh",
                "-c",
                "read line; i=0; while [ $i -lt 3200 ]; do /bin/true; i=$((i+1)); done",
            ],
        )
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    world.event(|event| {
        event["operation"] == "launch"
            && event["detail"]["arguments"][2].as_str().is_some_and(|script| script.starts_with("read"))
    });
    world.signal("-STOP");
    load.stdin.take().unwrap().write_all(b"\n").unwrap();
    load.wait().unwrap();
    world.signal("-CONT");
    let lost = world.status()["lost"].as_u64().unwrap();
    assert!((1..3200).contains(&lost), "{lost}");
}

pub(crate) fn exit_codes() {
    let world = World::new("");
    for (words, code) in [
        (&["run", "--", "true"][..], 0),
        (&["run", "--", "sh", "-c", "exit 7"], 7),
        (&["run", "--", "/nowhere/at/all"], 127),
        (&["run", "--", "/etc/passwd"], 126),
        (&["run", "--", "sh", "-c", "kill -TERM $$"], 143),
        (&["run", "--verdict", "loud", "--", "true"], 125),
        (&["run"], 125),
        (&["clear", "77"], 2),
        (&["status"], 0),
    ] {
        let run = world.scope(words);
        // If a signal ended the command, `timeout` returns the code of that signal.
        assert_eq!(run.code, code, "{words:?} {run:?}");
    }
    let run = world
        .command(0, &[world.palisade.to_str().unwrap(), "scope", "--socket", "/nowhere", "run", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&run.stderr).contains("hint: "));
}
