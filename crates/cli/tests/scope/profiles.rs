// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the daemon's profiles, and what is denied.

use super::world::World;
use palisade_acceptance::patience::Patience;
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;

pub(crate) fn prompt_and_audit() {
    let world = World::new("[enforcement]\nprofile = \"prompt\"");
    assert_eq!(world.script(&[], "/bin/echo ran").out, "ran\n");
    assert_eq!(world.scope(&["profile", "audit"]).code, 0);
    assert_eq!(world.script(&[], "/bin/true; :").code, 0);
    world.event(|event| event["object"] == "/bin/true");
    assert!(world.events_as(0).iter().all(|event| event["object"] != "/bin/echo"));
}

/// Whether the script is killed. The script must keep running until then, because the daemon is told of an exec only afterwards.
fn dies(world: &World, script: &str) -> bool {
    let mut patience = Patience::new(Duration::from_secs(50));
    let run = world.script(&[], script);
    assert!(!patience.is_spent(), "{run:?}");
    run.out == "137\n"
}

pub(crate) fn session() {
    let world = World::without_daemon("");
    let file = world.copy("/bin/sleep", "by-file");
    let content = world.copy("/bin/sleep", "by-content");
    // Another content than sleep's own.
    let mut bytes = std::fs::read(&content).unwrap();
    bytes.push(b'x');
    let written = world.base.join("files/written");
    std::fs::write(&written, &bytes).unwrap();
    world.command(0, &["cp", "written", "by-content"]).status().unwrap();
    world.copy("/bin/sleep", "by-name");
    std::fs::write(world.base.join("files/script"), "sleep 30\n").unwrap();
    let sum = world.command(0, &["sha256sum", content.to_str().unwrap()]).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
    world.settings(&format!(
        "[enforcement]\nprofile = \"session\"\n[deny]\nnames = [\"by-name\", \"script\"]\nfiles = [\"{}\"]\nsha256 = [\"{sum}\"]",
        file.display()
    ));
    let mut world = world;
    world.start(&[]);
    for script in [
        "./by-file 30; echo $?",
        "./by-name 30; echo $?",
        "./by-content 30; echo $?",
        "cp by-content other; ./other 30; echo $?",
        "sh ./script; echo $?",
        "/lib64/ld-linux-x86-64.so.2 ./by-file 30; echo $?",
    ] {
        if script.starts_with("/lib64") && !std::path::Path::new("/lib64/ld-linux-x86-64.so.2").exists() {
            continue;
        }
        assert!(dies(&world, script), "{script}\n{:#?}", world.events_as(0));
    }
    let killed = world.event(|event| event["enforced_by"] == "daemon");
    assert_eq!(killed["verdict"], "killed");
    assert!(world.status()["killed_later"].as_u64().is_some_and(|count| count >= 5));
    assert_eq!(world.script(&[], "cp /bin/echo fine; ./fine ran; echo $?").out, "ran\n0\n");
    // The same with a profile that only reports.
    assert_eq!(world.scope(&["profile", "audit"]).code, 0);
    assert_eq!(world.script(&[], "./by-file 0; echo $?").out, "0\n");
}

/// What a refused command's code is: EPERM where it can be refused, otherwise killed.
fn refused(world: &World) -> &'static str {
    if world.status()["refuses"] == json!(true) { "126\n" } else { "137\n" }
}

pub(crate) fn strict() {
    let world = World::without_daemon("");
    let file = world.copy("/bin/echo", "by-file");
    world.copy("/bin/echo", "by-name");
    world.settings(&format!(
        "[enforcement]\nprofile = \"strict\"\n[deny]\nnames = [\"by-name\"]\nfiles = [\"{}\"]\nmemory = true",
        file.display()
    ));
    let mut world = world;
    world.start(&[]);
    let code = refused(&world);
    for script in [
        "./by-file ran; echo $?",
        "./by-name ran; echo $?",
        "ln -f by-file linked; ./linked ran; echo $?",
        "ln -sf by-file soft; ./soft ran; echo $?",
        "ln -sf by-name soft2; ./soft2 ran; echo $?",
        "mv by-file renamed; ./renamed ran; echo $?; mv renamed by-file",
        "/usr/bin/env ./by-file ran; echo $?",
    ] {
        let run = world.script(&[], script);
        assert_eq!(run.out, code, "{script} {run:?}");
        let outside = world.command(0, &["sh", "-c", &script.replace("; echo $?", "")]).output().unwrap();
        assert_eq!(outside.stdout, b"ran\n", "{script}, outside");
    }
    let memory = "
import os
memory = os.memfd_create('x')
os.write(memory, open('/bin/echo', 'rb').read())
if os.fork() == 0:
    try: os.execve(memory, ['echo', 'ran'], {})
    except PermissionError: os._exit(126)
print(os.waitstatus_to_exitcode(os.wait()[1]))
";
    assert_eq!(world.python(&[], memory).out, if code == "126\n" { code } else { "-9\n" });
    // By a descriptor, relative to a directory.
    let at = "
import os
if os.fork() == 0:
    fd = os.open('by-file', os.O_RDONLY)
    try: os.execve(fd, ['echo', 'ran'], {})
    except PermissionError: os._exit(126)
print(os.waitstatus_to_exitcode(os.wait()[1]))
";
    assert_eq!(world.python(&[], at).out, if code == "126\n" { code } else { "-9\n" });
}

pub(crate) fn denied_name_elsewhere() {
    let world = World::new("[enforcement]\nprofile = \"strict\"\n[deny]\nnames = [\"echo\"]");
    let code = refused(&world);
    assert_eq!(
        world
            .script(&[], "/bin/echo ran; env true; command -p echo fine; $(command -v env) echo ran; echo $?")
            .out,
        format!("fine\n{code}")
    );
    std::fs::create_dir(world.base.join("files/deep")).unwrap();
    world.copy("/bin/echo", "deep/echo");
    assert_eq!(world.script(&[], "deep/echo ran; echo $?").out, code);
    world.copy("/bin/echo", "deep/other");
    assert_eq!(world.script(&[], "deep/other ran").out, "ran\n");
}

pub(crate) fn switching() {
    let world = World::new("[deny]\nnames = [\"by-name\"]");
    world.copy("/bin/echo", "by-name");
    let code = refused(&world);
    let script = "./by-name ran; echo $?";
    for (profile, said) in [("audit", "ran\n0\n"), ("strict", code), ("prompt", "ran\n0\n"), ("strict", code)]
    {
        assert_eq!(world.scope(&["profile", profile]).code, 0);
        assert_eq!(world.scope(&["profile"]).out, format!("{profile}\n"));
        assert_eq!(world.script(&[], script).out, said, "{profile}");
    }
    assert_eq!(world.scope(&["profile", "loud"]).code, 2);
    // A verdict for a running scope. It kills only what the shell starts; the shell ends with the process that started it.
    let script = "while kill -0 $PPID; do sleep 0.05; done";
    let mut sleeper =
        world.scope_command(0, &["run", "--", "sh", "-c", script]).stderr(Stdio::null()).spawn().unwrap();
    let slept = world.event(|event| event["detail"]["arguments"] == json!(["sleep", "0.05"]));
    let id = slept["subject"]["scope"].to_string();
    assert_eq!(world.scope(&["verdict", &id, "kill"]).code, 0);
    world.event(|event| event["verdict"] == "killed");
    let _gone = sleeper.kill();
    sleeper.wait().unwrap();
    assert_eq!(world.scope(&["verdict", "4000", "kill"]).code, 2);
    world.scope(&["clear"]);
}

pub(crate) fn reload() {
    let world = World::new("[enforcement]\nprofile = \"strict\"");
    world.copy("/bin/echo", "by-name");
    let code = refused(&world);
    assert_eq!(world.script(&[], "./by-name ran").out, "ran\n");
    world.settings("[enforcement]\nprofile = \"strict\"\n[deny]\nnames = [\"by-name\"]");
    world.signal("-HUP");
    let mut patience = Patience::new(Duration::from_secs(10));
    while world.status()["denied"] != json!([1, 0, 0]) {
        assert!(!patience.is_spent());
    }
    assert_eq!(world.script(&[], "./by-name ran; echo $?").out, code);
    // Invalid settings change nothing, and are reported.
    world.settings("[deny]\nname = []");
    world.signal("-HUP");
    while world.status()["alarms"] == json!([]) {
        assert!(!patience.is_spent());
    }
    assert_eq!(world.script(&[], "./by-name ran; echo $?").out, code);
}
