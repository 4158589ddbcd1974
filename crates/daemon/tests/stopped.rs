// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a guard that is stopped, and the standby that answers for it meanwhile.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::faults::{WAIT, took};
use crate::support::{Bed, Settings, has};
use std::process::{Command, Stdio};
use std::time::Duration;

const RULES: &str = "deny_audit perm=open all : path=BED/secret\nallow perm=any all : all\n";

/// A guard that enforces, with these settings.
fn started(more: &str) -> Option<Bed> {
    if !has("fanotify") {
        return None;
    }
    let mut bed = Bed::new();
    bed.settings(&Settings {
        guard: format!("mode = \"enforce\"\n{more}"),
        trust: "sources = []".into(),
        ..Settings::default()
    });
    bed.rules(RULES);
    for name in ["secret", "plain", "users"] {
        bed.write(bed.at(name), name);
    }
    bed.run("chown 47110 users").ok();
    bed.start();
    bed.run("cat secret").refused();
    bed.run("cat plain users").ok();
    Some(bed)
}

/// The standby's process.
pub(crate) fn standby(bed: &Bed) -> Option<u32> {
    let pid = bed.pid();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let children = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("children")));
    let children: Vec<String> = children.map(Result::unwrap_or_default).collect();
    let mut children = children.iter().flat_map(|line| line.split_whitespace());
    let is_it = |pid: &&str| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "standby\n")
    };
    children.find(is_it).map(|pid| pid.parse().unwrap())
}

pub(crate) fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn nobody_waits_for_a_guard_that_is_stopped() {
    let Some(mut bed) = started("") else { return };
    bed.wait("somebody stands by", |bed| standby(bed).is_some());
    for _ in 0..3 {
        // When the guard stops, it has read some questions but not all.
        let opens = "/usr/bin/python3 -c '\nimport time\nend = time.time() + 6\nlongest = 0\nwhile time.time() < end:\n    \
                     begun = time.time()\n    open(\"users\").close()\n    longest = max(longest, time.time() - begun)\n\
                     print(longest)'";
        let script = format!("cd \"$BED\"; {opens}");
        let words = ["/bin/sh", "-c", &script];
        let all: Vec<_> =
            (0..3).map(|_| bed.command(0, "60", &words).stdout(Stdio::piped()).spawn().unwrap()).collect();
        std::thread::sleep(Duration::from_millis(500));
        bed.signal("-STOP");
        assert!(took(|| drop(bed.run("cat plain").ok())) < WAIT + WAIT / 4);
        bed.wait("it is said", |bed| bed.log().contains("is stopped: everything may be opened and executed"));
        // Nothing is judged, and no process waits.
        assert!(took(|| drop(bed.run("cat secret users; exec /bin/true").ok())) < WAIT);
        bed.signal("-CONT");
        bed.wait("it is judged again", |bed| !bed.run("cat secret").worked());
        for one in all {
            let output = one.wait_with_output().unwrap();
            let longest: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
            let longest =
                Duration::from_secs_f64(longest).div_f64(palisade_acceptance::patience::crowd().max(1.0));
            assert!(longest < WAIT + WAIT / 4, "{longest:?}");
        }
    }
    assert!(bed.log().contains("alarm ended: palisaded is stopped"), "{}", bed.log());
    bed.stop();
}

#[test]
fn a_guard_that_is_stopped_may_refuse_what_isnt_roots() {
    let Some(mut bed) = started("on-stop = \"closed\"") else { return };
    bed.wait("somebody stands by", |bed| standby(bed).is_some());
    bed.run("cp /bin/true own; chown 47110 own; ./own").ok();
    // The standby is told the new answer when the watchdog checks next.
    std::thread::sleep(Duration::from_secs(2));
    bed.signal("-STOP");
    assert!(took(|| drop(bed.run("cat plain").ok())) < WAIT + WAIT / 4);
    bed.run("cat users").refused();
    bed.run("./own").refused();
    bed.run_as_user("cat plain; exec /bin/true").ok();
    bed.signal("-CONT");
    bed.wait("it is judged again", |bed| bed.run("cat users && ./own").worked());
    assert!(bed.log().contains("files that users other than root can change are refused"), "{}", bed.log());
    bed.stop();
}

#[test]
fn each_of_the_two_may_end() {
    let Some(mut bed) = started("") else { return };
    for _ in 0..2 {
        bed.wait("somebody stands by", |bed| standby(bed).is_some());
        let first = standby(&bed).unwrap();
        // A signal that should end palisaded may be sent to the standby as well: it must end after palisaded.
        signal("-TERM", first);
        bed.run("cat plain").ok();
        assert_eq!(standby(&bed), Some(first));
        signal("-KILL", first);
        bed.wait("somebody else stands by", |bed| standby(bed).is_some_and(|other| other != first));
        assert!(took(|| drop(bed.run("cat plain").ok())) < WAIT);
        bed.run("cat secret").refused();
    }
    bed.signal("-STOP");
    assert!(took(|| drop(bed.run("cat plain").ok())) < WAIT + WAIT / 4);
    let (guard, other) = (bed.pid(), standby(&bed).unwrap());
    signal("-KILL", guard);
    assert!(took(|| drop(bed.run("cat secret plain").ok())) < WAIT);
    bed.ended();
    bed.wait("nobody stays", |_| !std::path::Path::new(&format!("/proc/{other}")).exists());
    // Also while it answers.
    let Some(bed) = started("") else { return };
    bed.wait("somebody stands by", |bed| standby(bed).is_some());
    bed.signal("-STOP");
    bed.run("cat plain").ok();
    signal("-KILL", standby(&bed).unwrap());
    bed.signal("-CONT");
    bed.run("cat secret").refused();
}

/// The kernel doesn't end the notification group that reports changes before it has an answer about a file that both groups
/// watch.
#[test]
fn who_waits_for_a_guard_that_is_killed_goes_on() {
    for with_standby in [true, false] {
        let Some(mut bed) = started("") else { return };
        bed.wait("somebody stands by", |bed| standby(bed).is_some());
        // The kernel passes the file by itself, then asks about it again.
        bed.run("cat plain && cat plain").ok();
        bed.reload();
        if !with_standby {
            signal("-STOP", standby(&bed).unwrap());
        }
        bed.signal("-STOP");
        let mut waiting = bed.command(0, "60", &["/bin/cat", bed.at("plain").to_str().unwrap()]);
        let mut waiting = waiting.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(waiting.try_wait().unwrap().is_none(), "it waits");
        let other = standby(&bed).unwrap();
        signal("-KILL", bed.pid());
        if !with_standby {
            signal("-KILL", other);
        }
        assert!(took(|| assert!(waiting.wait().unwrap().success())) < WAIT);
        assert!(took(|| drop(bed.run("cat plain secret").ok())) < WAIT);
        bed.ended();
    }
}
