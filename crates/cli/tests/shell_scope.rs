// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade shell` with a running palisaded: each line is a scope, and a refusal is shown below its line.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::scope::world::World;
use crate::shell::screen::{PALISADE, Screen, Setting, has};
use palisade_acceptance::case::data_directory;
use palisade_acceptance::feature::Features;
use palisade_acceptance::patience::Patience;
use serde_json::Value;
use std::time::Duration;

/// Whether there can be scopes: as the daemon's own tests ask.
fn possible() -> bool {
    let features = Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}"));
    let there = features.has("scopes");
    if !there {
        println!("not tried: no scopes here");
    }
    there
}

const DENIED: &str = "[enforcement]\nprofile = \"strict\"\n[deny]\nnames = [\"by-name\"]";

/// A line of the tests waits for the daemon as long as it takes on a busy machine.
const WAIT: [&str; 2] = ["--scope-wait", "10000"];

fn shell(world: &World, shell: &str, settings: &str) -> Screen {
    shell_that_waits(world, shell, settings, &WAIT)
}

fn shell_that_waits(world: &World, shell: &str, settings: &str, wait: &[&str]) -> Screen {
    let socket = world.socket();
    let program = format!("/usr/bin/{shell}");
    Setting::of(shell, "")
        .command(
            &[&[PALISADE, "shell", "--scope-socket", socket.to_str().unwrap(), "--shell", &program], wait]
                .concat(),
        )
        .file(".config/palisade/shell.toml", &format!("schema = 1\n{settings}"))
        .ready()
}

/// Types a line as people do: what comes at once is a program's, and before the prompt is whole it isn't judged.
fn typed(screen: &mut Screen, line: &str) {
    screen.prompted();
    screen.slowly(line);
    screen.keys("\r");
}

/// Waits until the shell's first words to the daemon were answered: the programs are loaded.
fn loaded(world: &World) {
    until("programs", || world.status()["in_force"] == true);
}

#[track_caller]
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let mut patience = Patience::new(Duration::from_secs(20));
    while !so() {
        assert!(!patience.is_spent(), "no {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn scopes(world: &World) -> Vec<Value> {
    world.json(&["list", "--json"])["scopes"].as_array().unwrap().clone()
}

/// A refused line shows the reason below itself; the same program outside a scope shows none.
fn refused_where_it_happened(name: &str) {
    let world = World::new(DENIED);
    let file = world.copy("/bin/echo", "by-name");
    loaded(&world);
    assert_eq!(world.command(0, &[file.to_str().unwrap(), "ran"]).output().unwrap().stdout, b"ran\n");
    let mut screen = shell(&world, name, "");
    typed(&mut screen, &format!("{} r''an; echo after", file.display()));
    screen.wait_for("after");
    screen.wait_for("by-name (process");
    screen.wait_for("the name is denied");
    screen.wait_for("hint: palisade scope events --scope");
    let text = screen.text();
    assert!(!text.lines().any(|line| line.trim() == "ran"), "{text}");
    // The event names the scope of the line by its command. The shell at its prompt isn't in a scope.
    let event = world.event(|event| event["why"]["text"] == "the name is denied");
    let scope = event["subject"]["scope"].as_u64().unwrap();
    until("end of the scope", || scopes(&world).iter().all(|found| found["scope"].as_u64() != Some(scope)));
    typed(&mut screen, "exit");
    screen.end();
}

#[test]
fn what_is_refused_is_said_where_it_happened() {
    if possible() {
        for shell in ["bash", "zsh", "fish"] {
            if has(shell) {
                refused_where_it_happened(shell);
            }
        }
    }
}

/// In a full-screen program nothing is written over it; it comes when the screen is the normal one again.
#[test]
fn nothing_is_said_in_the_alternate_screen() {
    if !possible() {
        return;
    }
    let world = World::new(DENIED);
    let file = world.copy("/bin/echo", "by-name");
    let go = world.base.join("files/go");
    loaded(&world);
    let mut screen = shell(&world, "bash", "");
    typed(
        &mut screen,
        &format!(
            "printf '\\e[?1049h\\e[H'; {}; echo in''side; until [ -e {} ]; do sleep 0.1; done; printf '\\e[?1049l'",
            file.display(),
            go.display()
        ),
    );
    world.event(|event| event["why"]["text"] == "the name is denied");
    screen.wait_until("program", |screen| screen.alternate_screen() && screen.contents().contains("inside"));
    assert!(!screen.text().contains("palisade:"), "{}", screen.text());
    std::fs::write(&go, "").unwrap();
    screen.wait_until("word about it", |screen| {
        !screen.alternate_screen() && screen.contents().contains("by-name (process")
    });
    screen.wait_for_last("$");
    // What was written while the program had the screen has none of it.
    let raw = String::from_utf8_lossy(screen.raw()).into_owned();
    let inside = raw.split("\u{1b}[?1049h").nth(1).unwrap().split("\u{1b}[?1049l").next().unwrap();
    assert!(!inside.contains("palisade"), "{inside:?}");
}

/// The daemon only watches; what a line's own profile makes of it is this shell's to say.
#[test]
fn settings_say_which_profile_a_line_has() {
    if !possible() {
        return;
    }
    let world = World::new("[enforcement]\nprofile = \"prompt\"\n[deny]\nnames = [\"by-name\"]");
    let file = world.copy("/bin/echo", "by-name");
    loaded(&world);
    let told = |label: &str| world.events_as(0).iter().filter(|event| event["object"] == label).count();
    for (scope, runs, tells) in
        [("off", true, false), ("prompt", true, false), ("audit", true, true), ("strict", false, true)]
    {
        let seen = told("/usr/bin/nproc");
        let mut screen = shell(&world, "bash", &format!("[guard]\nscope = \"{scope}\"\n"));
        typed(&mut screen, "/usr/bin/nproc >/dev/null; echo read''y");
        screen.wait_for("ready");
        typed(&mut screen, &format!("{} r''an; echo ov''er", file.display()));
        screen.wait_for("over");
        let text = screen.text();
        assert_eq!(text.lines().any(|line| line.trim() == "ran"), runs, "{scope}: {text}");
        if !runs {
            screen.wait_for("the name is denied");
        }
        if tells {
            until("event", || told("/usr/bin/nproc") > seen);
        } else {
            // If bash had reported the line, the event of another line would follow.
            assert_eq!(told("/usr/bin/nproc"), seen, "{scope}");
        }
    }
}

/// What a line leaves behind stays in its scope; the next line has its own, and the shell none.
#[test]
fn a_job_keeps_its_scope_and_the_shell_has_none() {
    if !possible() {
        return;
    }
    let world = World::new("[enforcement]\nprofile = \"audit\"");
    loaded(&world);
    let mut screen = shell(&world, "bash", "");
    typed(&mut screen, "sleep 600 & echo job $!");
    screen.wait_until("job", |screen| screen.contents().lines().any(|line| line.starts_with("job ")));
    let job: u64 =
        screen.text().lines().find_map(|line| line.strip_prefix("job ")?.trim().parse().ok()).unwrap();
    until("one process", || {
        let scopes = scopes(&world);
        scopes.len() == 1 && scopes[0]["live"] == 1 && scopes[0]["label"] == "shell: sleep"
    });
    let first = scopes(&world)[0]["scope"].clone();
    // The next line: another scope, by an event of its own.
    typed(&mut screen, "nproc >/dev/null; echo sec''ond");
    screen.wait_for("second");
    let event = world.event(|event| event["detail"]["arguments"] == serde_json::json!(["nproc"]));
    assert_ne!(event["subject"]["scope"], first);
    assert_eq!(scopes(&world).iter().filter(|found| found["scope"] == first).count(), 1);
    // A line about scopes isn't in one: else it could change nothing.
    let socket = world.socket();
    // One that is known late, on a busy machine, is: see below.
    let refusals = |text: &str| text.matches("can't change scopes").count();
    let mut patience = Patience::new(Duration::from_secs(20));
    let mut refused = 0;
    loop {
        typed(&mut screen, &format!("{PALISADE} scope --socket {} clear {first}", socket.display()));
        screen.wait_until("an answer", |screen| {
            screen.contents().contains("1 scope ended") || refusals(&screen.contents()) > refused
        });
        if screen.text().contains("1 scope ended") {
            break;
        }
        refused += 1;
        assert!(!patience.is_spent(), "it is in a scope each time");
    }
    typed(
        &mut screen,
        &format!(
            "kill {job}; palisade scope --help >/dev/null; {PALISADE} scope --socket {} clear",
            socket.display()
        ),
    );
    screen.wait_until("it can't change scopes", |screen| refusals(&screen.contents()) > refused);
    typed(&mut screen, "exit");
    screen.end();
}

/// The one process that a line has left behind, in its scope. A line waits for the daemon, and for what the shell tells of
/// it, no longer than people would: late on a busy machine, it runs without a scope or by no name. That is the error.
fn scope_of(world: &World, screen: &mut Screen, label: &str) -> Result<(), String> {
    let mut patience = Patience::new(Duration::from_secs(20));
    loop {
        let found = scopes(world);
        if found.len() == 1 && found[0]["live"] == 1 && found[0]["label"] == label {
            return Ok(());
        }
        if screen.text().contains("palisaded doesn't answer") {
            return Err(format!("{label}: the daemon's answer came too late"));
        }
        if patience.is_spent() {
            let unnamed = label != "shell: ?" && found.len() == 1 && found[0]["label"] == "shell: ?";
            assert!(unnamed, "no scope of {label}: {found:?}\n{}", screen.text());
            return Err(format!("{label}: the shell told too late"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// In one shell, which ends with it.
fn known_late_or_never(world: &World, name: &str, screen: &mut Screen) -> Result<(), String> {
    let go = screen.path("go");
    // Its first key comes before its prompt: the shell is asked at Enter, and bash draws its prompt anew behind the answer,
    // when the line was given to it long since.
    typed(screen, "echo be''gun; sh -c 'until test -e go; do sleep 0.05; done'");
    screen.wait_for("begun");
    screen.keys("s");
    std::thread::sleep(Duration::from_millis(50));
    std::fs::write(&go, "").unwrap();
    screen.slowly(&format!("leep 600 & echo early: {}", "wide ".repeat(20)));
    screen.keys("\r");
    screen.wait_until("line", |screen| screen.contents().lines().any(|line| line.starts_with("early: ")));
    let early = scope_of(world, screen, "shell: sleep");
    screen.wait_for_last("$");
    typed(screen, "kill %1; echo go''ne");
    screen.wait_for("gone");
    early?;
    if name == "fish" {
        return Ok(());
    }
    // bash doesn't report a line that its search finds and Enter runs. zsh reports it before it draws.
    screen.wait_for_last("$");
    screen.keys("\x12");
    screen.slowly("leep 600 ");
    screen.wait_for(if name == "bash" { "`leep 600 '" } else { "leep 600 _" });
    screen.keys("\r");
    let searched = scope_of(world, screen, if name == "bash" { "shell: ?" } else { "shell: sleep" });
    screen.wait_for_last("$");
    typed(screen, "kill $!; wait");
    searched
}

/// Whatever the proxy knows about a line, the line has its scope until it ends.
#[test]
fn a_line_that_is_known_late_or_never_has_its_scope() {
    if !possible() {
        return;
    }
    let world = World::new("[enforcement]\nprofile = \"audit\"");
    loaded(&world);
    for name in ["bash", "zsh", "fish"].into_iter().filter(|name| has(name)) {
        let mut patience = Patience::new(Duration::from_secs(60));
        loop {
            let mut screen = shell(&world, name, "");
            let came = known_late_or_never(&world, name, &mut screen);
            typed(&mut screen, "exit");
            screen.end();
            until("end of all scopes", || scopes(&world).is_empty());
            let Err(late) = came else { break };
            assert!(!patience.is_spent(), "{name}: {late}");
            eprintln!("{name}, once more: {late}");
        }
    }
}

/// An ordinary user's shell, whose lines are the user's scopes.
#[test]
fn an_ordinary_user_has_it_too() {
    if !possible() || !has("setpriv") {
        return;
    }
    let world = World::new(DENIED);
    let file = world.copy("/bin/echo", "by-name");
    let home = world.base.join("files");
    std::fs::write(home.join(".bashrc"), "PS1='$ '; HISTFILE=\n").unwrap();
    loaded(&world);
    let uid = crate::scope::world::ORDINARY;
    let socket = world.socket();
    let mut screen = Setting::of("bash", "")
        .command(&[
            "setpriv",
            &format!("--reuid={uid}"),
            &format!("--regid={uid}"),
            "--clear-groups",
            "--",
            world.palisade.to_str().unwrap(),
            "shell",
            "--scope-socket",
            socket.to_str().unwrap(),
            WAIT[0],
            WAIT[1],
            "--shell",
            "/bin/bash",
        ])
        .with("HOME", home.to_str().unwrap())
        .ready();
    typed(&mut screen, &format!("cd /; {} r''an; echo after", file.display()));
    screen.wait_for("after");
    screen.wait_for("the name is denied");
    assert!(!screen.text().lines().any(|line| line.trim() == "ran"));
    let event = world.event(|event| event["why"]["text"] == "the name is denied");
    assert_eq!(
        (event["detail"]["owner"].as_u64(), event["subject"]["uid"].as_u64()),
        (Some(uid.into()), Some(uid.into()))
    );
}

/// Types five lines. Each must run, although no daemon answers.
fn all_run(screen: &mut Screen, from: usize) {
    for line in from..from + 5 {
        typed(screen, &format!("echo li''ne {line}"));
        screen.wait_for(&format!("line {line}"));
    }
}

#[test]
fn lines_run_without_a_daemon() {
    let mut world = World::without_daemon("");
    let mut screen = shell(&world, "bash", "");
    all_run(&mut screen, 0);
    assert!(!screen.text().contains("palisade:"), "{}", screen.text());
    if possible() {
        // One that comes later is found.
        world.start(&[]);
        loaded(&world);
        typed(&mut screen, "echo no''w; sleep 600 &");
        screen.wait_for("now");
        until("scope", || scopes(&world).iter().any(|found| found["label"] == "shell: echo"));
        typed(&mut screen, "kill %1");
    }
}

#[test]
fn lines_run_with_a_daemon_that_hangs() {
    if !possible() {
        return;
    }
    let world = World::new("");
    loaded(&world);
    let mut screen = shell_that_waits(&world, "bash", "", &[]);
    all_run(&mut screen, 0);
    world.signal("-STOP");
    all_run(&mut screen, 10);
    screen.wait_for("palisaded doesn't answer");
    all_run(&mut screen, 20);
    world.signal("-CONT");
    // The line that it was asked about long ago isn't marked now; the next one is.
    until("answer", || {
        typed(&mut screen, "sleep 600 &");
        screen.wait_for_last("$");
        scopes(&world).iter().any(|found| found["label"] == "shell: sleep")
    });
    typed(&mut screen, "kill $(jobs -p); exit");
    screen.end();
    until("end of all scopes", || scopes(&world).is_empty());
}

#[test]
fn lines_run_when_the_daemon_dies_midway() {
    if !possible() {
        return;
    }
    let mut world = World::new(DENIED);
    let file = world.copy("/bin/echo", "by-name");
    loaded(&world);
    let mut screen = shell(&world, "bash", "");
    typed(&mut screen, "echo be''gun; cat");
    screen.wait_for("begun");
    until("scope", || scopes(&world).iter().any(|found| found["live"].as_u64() >= Some(2)));
    world.end("-KILL");
    screen.keys("\x04");
    all_run(&mut screen, 0);
    // The next daemon starts, finds the shell marked for a line that has ended, and is told that it has.
    world.start(&[]);
    // If the daemon doesn't answer in time for a line, the line has no mark of its own, and no reason is shown for it.
    let mut number = 0;
    until("reason", || {
        number += 1;
        typed(&mut screen, &format!("{} r''an; echo aft''er {number}", file.display()));
        screen.wait_for(&format!("after {number}"));
        screen.text().contains("the name is denied")
    });
    typed(&mut screen, "exit");
    screen.end();
    until("end of all scopes", || scopes(&world).is_empty());
}
