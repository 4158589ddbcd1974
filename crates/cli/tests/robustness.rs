// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that launches leave nothing behind: a thousand launches, hundreds of kills at random moments,
//! daemons and signals. Also tests what the caller learns about the end.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod support;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use support::{Place, eventually, everybody, has, job, root};

/// Only one test at a time may count processes.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    set_child_subreaper(Some(getpid())).unwrap();
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// `palisade run` in a session of its own. The session identifies its processes, because init has neither
/// arguments nor an environment.
fn in_session(place: &Place, options: &[&str], command: &[&str]) -> Command {
    let mut setsid = place.command("setsid");
    setsid.arg(place.binary()).arg("run").args(options).arg("--").args(command);
    setsid.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    setsid
}

/// Living processes of a session.
fn of_session(session: u32) -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        // After the name, which may hold anything: state, parent, group, session.
        let Some((_name, rest)) = stat.rsplit_once(") ") else { continue };
        if rest.split(' ').nth(3) == Some(&session.to_string()) {
            found.push(stat);
        }
    }
    found
}

/// Waits for the end of a session whose launcher has been reaped. This program reaps the remaining processes as
/// their subreaper: process 1 of the system may be slow to reap them, and init waits for that.
fn assert_session_ended(session: u32, when: &str) {
    let ended = eventually(|| {
        let left = of_session(session);
        for stat in left.iter().filter(|stat| stat.contains(") Z ")) {
            let pid = stat.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
            let _reaped = waitpid(pid, WaitOptions::NOHANG);
        }
        left.is_empty()
    });
    assert!(ended, "left behind {when}: {:?}", of_session(session));
}

/// Asserts that the host has no mount of the sandbox, and that only plans are kept.
fn assert_no_traces(place: &Place, before: &str) {
    place.assert_all_dead();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(place.home.to_str().unwrap()), "{mounts}");
    for plan in std::fs::read_dir(place.home.join(".cache/palisade/plans")).into_iter().flatten().flatten() {
        assert!(plan.path().extension().is_some_and(|extension| extension == "plan"), "{plan:?}");
    }
    assert_eq!(files(place), before);
    if !place.is_root() {
        let listed = || job::finish(place.command(place.binary()).args(["ps", "-q"])).ok().to_owned();
        assert!(eventually(|| listed().is_empty()), "still listed: {}", listed());
    }
}

/// The ordinary user's files in public places, but for the list of running sandboxes; root has others.
fn files(place: &Place) -> String {
    if place.is_root() {
        return String::new();
    }
    let list = format!("/tmp/palisade-{}", place.uid);
    place.outside(&format!(
        "find /tmp /var/tmp /dev/shm /run -xdev -user {} ! -path {list} ! -path {list}/sandboxes 2>/dev/null | sort",
        place.uid
    ))
}

/// Numbers without a pattern, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Waits without giving up the processor: a sleep would be longer than a launch.
fn spin(duration: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// A launch takes 3 ms: a quarter of them is ended once the command runs, however busy the machine is, and the others at
/// any moment before. Says when.
fn wait(child: &Child, round: usize, dice: &mut Dice) -> String {
    if round.is_multiple_of(4) {
        let runs = || of_session(child.id()).iter().any(|stat| stat.contains("(sleep)"));
        assert!(eventually(runs), "it never runs: {:?}", of_session(child.id()));
        return "it ran".to_owned();
    }
    let duration = Duration::from_micros(dice.below(5_000));
    spin(duration);
    format!("{duration:?}")
}

#[test]
fn a_thousand_launches_leave_nothing() {
    let _alone = alone();
    for place in everybody() {
        let before = files(&place);
        let line = "for i in $(seq 1000); do $P run -- sh -c 'echo x >>count' || exit; done";
        let run =
            job::finish(place.command("setsid").args(["/bin/bash", "-c", line]).env("P", place.binary()));
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        assert_eq!(place.read("work/count").lines().count(), 1_000);
        let plans = std::fs::read_dir(place.home.join(".cache/palisade/plans")).unwrap().count();
        assert_eq!(plans, 1);
        assert_no_traces(&place, &before);
    }
}

#[test]
fn a_killed_launcher_takes_everything_with_it() {
    let _alone = alone();
    for place in everybody() {
        let before = files(&place);
        let script = ["sh", "-c", "sleep 1000 & setsid sleep 1001 & exec sleep 1002"];
        place.run(&[], &["true"]).ok();
        let mut dice = Dice(u64::from(std::process::id()));
        for round in 0..100 {
            let mut child = in_session(&place, &[], &script).spawn().unwrap();
            let wait = wait(&child, round, &mut dice);
            child.kill().unwrap();
            child.wait().unwrap();
            assert_session_ended(child.id(), &format!("after {wait}"));
        }
        assert_no_traces(&place, &before);
    }
}

#[test]
fn a_killed_part_of_a_launch_ends_it() {
    let _alone = alone();
    for place in everybody() {
        let before = files(&place);
        let script = ["sh", "-c", "sleep 1000 & setsid sleep 1001 & exec sleep 1002"];
        place.run(&[], &["true"]).ok();
        let mut dice = Dice(u64::from(std::process::id()));
        let mut killed = 0;
        for round in 0..100 {
            let mut child = in_session(&place, &[], &script).spawn().unwrap();
            let wait = wait(&child, round, &mut dice);
            // One of its children: the builder, init, the broker's stub or the command.
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()))
                .unwrap_or_default();
            let children: Vec<&str> = children.split_whitespace().collect();
            let victim = children.get(usize::try_from(dice.below(4)).unwrap() % children.len().max(1));
            match victim.and_then(|victim| Pid::from_raw(victim.parse().unwrap())) {
                Some(victim) => {
                    killed += 1;
                    let number = victim.as_raw_nonzero().to_string();
                    let name = std::fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
                    // The builder may have done its part, and be dead already. Without the broker's
                    // keeper calls that write names fail, and these make none.
                    let builder = children.first().is_some_and(|first| *first == number)
                        || name.trim() == "palisade-stub";
                    let _gone = kill_process(victim, Signal::KILL);
                    let session = child.id();
                    let runs = || of_session(session).iter().any(|stat| stat.contains("(sleep)"));
                    let mut status = None;
                    let ended = eventually(|| {
                        status = child.try_wait().unwrap();
                        status.is_some() || builder && runs()
                    });
                    assert!(ended, "hangs, killed after {wait}: {:?}", of_session(child.id()));
                    match status {
                        Some(status) => assert!(!status.success(), "{status:?} after {wait}"),
                        None => {
                            child.kill().unwrap();
                            child.wait().unwrap();
                        }
                    }
                }
                None => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                }
            }
            assert_session_ended(child.id(), &format!("after {wait}"));
        }
        assert!(killed >= 25, "only {killed} of 100 were hit");
        assert_no_traces(&place, &before);
    }
}

#[test]
fn background_processes_end_with_the_command() {
    let _alone = alone();
    for place in everybody() {
        let before = files(&place);
        let run = place.sh(
            &[],
            "
sleep 1000 &
setsid sleep 1001 &
(trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; (sleep 1002; echo) & sleep 1003' &)
python3 -c 'import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import time; time.sleep(1004)
    os._exit(0)' 2>/dev/null
exit 3",
        );
        assert_eq!(run.code, 3, "{run:?}");
        assert_no_traces(&place, &before);
    }
}

#[test]
fn everything_ends_with_the_launchers_parent_pipe_or_not() {
    let _alone = alone();
    for place in everybody() {
        // In place there is no init: the command itself is what dies with its launcher.
        let mut child = in_session(&place, &["--namespaces", "none"], &["sleep", "1000"]).spawn().unwrap();
        let runs = eventually(|| of_session(child.id()).iter().any(|stat| stat.contains("(sleep)")));
        assert!(runs, "{:?}", of_session(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_session_ended(child.id(), "in place");
    }
}

/// Starts a line of shell inside that says "ready". Not bash, which ignores SIGQUIT.
fn ready(place: &Place, line: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut palisade = place.palisade(&[], &["sh", "-c", line]);
    // In its own group: if the tests' own group is orphaned, as in a session without a shell,
    // the kernel doesn't stop its processes from the keyboard (credentials(7)).
    std::os::unix::process::CommandExt::process_group(&mut palisade, 0);
    let mut child =
        palisade.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    assert_eq!(first, "ready\n");
    (child, output)
}

const SIGNALS: [(Signal, i32); 7] = [
    (Signal::TERM, 15),
    (Signal::INT, 2),
    (Signal::HUP, 1),
    (Signal::USR1, 10),
    (Signal::USR2, 12),
    (Signal::QUIT, 3),
    (Signal::ALARM, 14),
];

#[test]
fn signals_reach_the_command() {
    for place in everybody() {
        for (signal, number) in SIGNALS {
            let (mut child, _output) = ready(&place, "echo ready; exec sleep 1000");
            kill_process(pid(&child), signal).unwrap();
            assert_eq!(job::code(job::bounded(&mut child)), 128 + number, "{signal:?}");
        }
        for (signal, number) in SIGNALS {
            let line = format!(
                "trap 'echo caught; exit {number}' {number}; echo ready; while :; do sleep 0.02; done"
            );
            let (mut child, mut output) = ready(&place, &line);
            kill_process(pid(&child), signal).unwrap();
            assert_eq!(job::code(job::bounded(&mut child)), number, "{signal:?}");
            let mut rest = String::new();
            output.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "caught\n", "once: {signal:?}");
        }
    }
}

#[test]
fn a_stop_stops_both_and_goes_on() {
    for place in everybody() {
        // The command waits without starting a process: a shell that is stopped in the middle of a vfork sleeps
        // uninterruptibly, so its parent doesn't see it as stopped.
        place.outside(&format!("mkfifo '{}/go'", place.work.display()));
        let (mut child, _output) = ready(&place, "echo ready; read line <go; exit 6");
        let state = |letter: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_name, rest)| rest.starts_with(letter))
        };
        kill_process(pid(&child), Signal::TSTP).unwrap();
        assert!(eventually(|| state("T")), "the launcher stops when its command has");
        kill_process(pid(&child), Signal::CONT).unwrap();
        assert!(eventually(|| !state("T")));
        std::fs::write(place.work.join("go"), "on\n").unwrap();
        assert_eq!(job::code(job::bounded(&mut child)), 6);
    }
}

#[test]
fn the_exit_code_is_the_commands() {
    for place in everybody() {
        let line = "for i in $(seq 0 255); do $P run -- sh -c \"exit $i\"; [ $? = $i ] || echo $i; done
for s in 1 2 3 6 9 11 15 31 34 64; do $P run -- sh -c \"kill -$s \\$\\$\"; [ $? = $((128 + s)) ] || echo signal $s; done";
        let run = job::finish(place.command("/bin/bash").args(["-c", line]).env("P", place.binary()));
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
    }
}

#[test]
fn status_lines_tell_start_and_end() {
    let status = |place: &Place, script: &str| -> Vec<serde_json::Value> {
        let line = format!("$P run --status-fd 3 -- {script} 3>status 2>/dev/null");
        job::finish(place.command("/bin/bash").args(["-c", &line]).env("P", place.binary()));
        let lines = place.read("work/status");
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    };
    for place in everybody() {
        let lines = status(&place, "sh -c 'ls /proc/self/fd; exit 9'");
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!((lines[0]["schema"].as_u64(), lines[0]["event"].as_str()), (Some(1), Some("started")));
        assert!(lines[0]["pid"].as_i64() > Some(1) && lines[0]["init"].as_i64() > Some(1), "{lines:?}");
        assert_eq!((lines[1]["event"].as_str(), lines[1]["code"].as_i64()), (Some("ended"), Some(9)));
        let lines = status(&place, "sh -c 'kill -9 $$'");
        assert_eq!((lines[1]["code"].as_i64(), lines[1]["signal"].as_i64()), (Some(137), Some(9)));
        let lines = status(&place, "no-such-command");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0]["event"].as_str(), lines[0]["code"].as_i64()), (Some("failed"), Some(127)));
    }
}

#[test]
fn timings_are_said_beside_the_commands_output() {
    for place in everybody() {
        for _cold_and_hot in 0..2 {
            let run = place.run(&["--timings"], &["echo", "data"]);
            assert_eq!(run.ok(), "data");
            for part in ["plan", "namespaces", "mounts", "network", "filter", "exec", "in all"] {
                assert!(run.err.contains(&format!("{part} ")), "{run:?}");
            }
        }
        assert_eq!(place.run(&[], &["true"]).err, "");
    }
}

#[test]
fn control_groups_of_killed_launchers_go_with_the_next_launch() {
    let _alone = alone();
    let Some(place) = root() else { return };
    if !has("cgroup-limits") {
        return;
    }
    let groups =
        |pid: u32| place.outside(&format!("find /sys/fs/cgroup -name palisade-{pid} 2>/dev/null; true"));
    let options = ["--limit", "memory=200M", "--limit", "processes=50"];
    let mut child = in_session(&place, &options, &["sleep", "1000"]).spawn().unwrap();
    assert!(eventually(|| of_session(child.id()).iter().any(|stat| stat.contains("(sleep)"))));
    assert_ne!(groups(child.id()), "");
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(job::code(job::bounded(&mut child)), 143);
    assert_eq!(groups(child.id()), "");

    let mut child = in_session(&place, &options, &["sleep", "1000"]).spawn().unwrap();
    assert!(eventually(|| of_session(child.id()).iter().any(|stat| stat.contains("(sleep)"))));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_session_ended(child.id(), "with control groups");
    place.run(&options, &["true"]).ok();
    assert_eq!(groups(child.id()), "");
}
