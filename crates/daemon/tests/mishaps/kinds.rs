// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mishaps that can happen to a guard.

use super::Scene;
use crate::stopped::{signal, standby};
use crate::support::{compile, has};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A mishap. It is over when its function returns.
pub(super) struct Mishap {
    pub(super) name: &'static str,
    pub(super) act: fn(&mut Scene),
    /// Whether everything may be executed meanwhile.
    pub(super) opens: bool,
    /// Whether opens and execs may be refused meanwhile.
    pub(super) refuses: bool,
    /// The expected alarm.
    pub(super) said: Option<&'static str>,
    /// The features that the machine needs.
    pub(super) needs: &'static [&'static str],
}

pub(super) const QUIET: Mishap =
    Mishap { name: "", act: |_| {}, opens: false, refuses: false, said: None, needs: &[] };

/// The mishaps that can happen on this machine.
pub(super) fn all() -> Vec<&'static Mishap> {
    let only = std::env::var("PALISADE_MISHAPS_ONLY").unwrap_or_default();
    let all = ALL.iter().chain(super::surroundings::ALL).filter(|mishap| mishap.name.contains(&only));
    all.filter(|mishap| mishap.needs.iter().all(|feature| has(feature))).collect()
}

const ALL: &[Mishap] = &[
    Mishap {
        name: "the guard is stopped",
        act: |scene| {
            scene.bed.signal("-STOP");
            std::thread::sleep(scene.stopped);
            scene.bed.signal("-CONT");
            let over = "alarm ended: palisaded is stopped";
            scene.bed.wait("the standby sees that it goes on", |_| scene.has_said(over));
        },
        opens: true,
        said: Some("alarm: palisaded (process"),
        ..QUIET
    },
    Mishap {
        name: "a thread that answers is stopped",
        act: |scene| freeze(scene, "answer-"),
        opens: true,
        ..QUIET
    },
    Mishap { name: "another thread is stopped", act: |scene| freeze(scene, ""), ..QUIET },
    Mishap {
        name: "the standby is stopped",
        act: |scene| {
            let pid = standby(&scene.bed).unwrap();
            signal("-STOP", pid);
            std::thread::sleep(scene.stopped);
            signal("-CONT", pid);
        },
        ..QUIET
    },
    Mishap {
        name: "the standby is killed",
        act: |scene| {
            let pid = standby(&scene.bed).unwrap();
            signal("-KILL", pid);
            scene.bed.wait("another one", |bed| standby(bed).is_some_and(|other| other != pid));
        },
        said: Some("the standby process, which answers while palisaded is stopped, has ended"),
        ..QUIET
    },
    Mishap {
        name: "the guard is killed",
        act: |scene| {
            scene.bed.signal("-KILL");
            begin_again(scene);
        },
        opens: true,
        ..QUIET
    },
    Mishap {
        name: "both are killed",
        act: |scene| {
            let pids = [standby(&scene.bed).unwrap(), scene.bed.pid()];
            pids.into_iter().for_each(|pid| signal("-KILL", pid));
            begin_again(scene);
        },
        opens: true,
        ..QUIET
    },
    Mishap {
        name: "the guard is aborted",
        act: |scene| {
            scene.bed.signal("-ABRT");
            begin_again(scene);
        },
        opens: true,
        ..QUIET
    },
    Mishap {
        name: "the guard is stopped, and then killed",
        act: |scene| {
            scene.bed.signal("-STOP");
            std::thread::sleep(Duration::from_millis(700));
            scene.bed.signal("-KILL");
            begin_again(scene);
        },
        opens: true,
        ..QUIET
    },
    Mishap {
        name: "nobody reads the log",
        act: |scene| {
            scene.reads.store(false, Ordering::Relaxed);
            scene
                .bed
                .run("for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do ./untrusted; done; done");
            scene.reads.store(true, Ordering::Relaxed);
        },
        ..QUIET
    },
    Mishap {
        name: "descriptors are used up",
        act: |scene| {
            let pid = scene.bed.pid();
            let before = most_files(pid);
            limit(pid, "--nofile=8:");
            std::thread::sleep(Duration::from_secs(2));
            limit(pid, &format!("--nofile={before}:"));
        },
        refuses: true,
        ..QUIET
    },
    Mishap {
        name: "descriptors are used up while settings are read",
        act: |scene| {
            let pid = scene.bed.pid();
            let before = most_files(pid);
            let used = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
            let used: u32 =
                used.flatten().filter_map(|file| file.file_name().to_str()?.parse().ok()).max().unwrap();
            // With more descriptors it fails at a later point.
            for most in (8..used + 4).step_by(2) {
                limit(pid, &format!("--nofile={most}:"));
                signal("-HUP", pid);
                std::thread::sleep(Duration::from_millis(150));
            }
            limit(pid, &format!("--nofile={before}:"));
        },
        refuses: true,
        said: Some("alarm: palisaded refuses files that it can't open"),
        ..QUIET
    },
    Mishap {
        name: "users hold connections",
        act: |scene| {
            let socket = scene.bed.outside(scene.bed.socket());
            let all = (0..200).map(|_| std::os::unix::net::UnixStream::connect(&socket));
            let _held: Vec<_> = all.collect();
            std::thread::sleep(Duration::from_secs(1));
        },
        ..QUIET
    },
    Mishap {
        name: "settings are broken and repaired",
        act: |scene| {
            let file = scene.bed.outside(scene.bed.config("guard.toml"));
            let before = std::fs::read(&file).unwrap();
            std::fs::write(&file, "nonsense").unwrap();
            scene.bed.signal("-HUP");
            // The guard may be about to read the mounts again, which it does first.
            scene.bed.wait("it is read", |_| scene.has_said("the reloaded settings are not in force"));
            std::fs::write(&file, before).unwrap();
            scene.bed.signal("-HUP");
        },
        said: Some("the reloaded settings are not in force"),
        ..QUIET
    },
    Mishap {
        name: "the trust database is gone",
        act: |scene| {
            let state = scene.bed.state("");
            let moved = state.with_file_name("moved");
            let (state, moved) = (scene.bed.outside(state), scene.bed.outside(moved));
            std::fs::rename(&state, &moved).unwrap();
            scene.bed.signal("-HUP");
            std::thread::sleep(Duration::from_secs(1));
            // The guard may have made it again.
            let _not_there = std::fs::remove_dir_all(&state);
            std::fs::rename(&moved, &state).unwrap();
            scene.bed.signal("-HUP");
        },
        ..QUIET
    },
];

/// Starts the guard again after its end, as systemd does.
pub(super) fn begin_again(scene: &mut Scene) {
    scene.bed.ended();
    scene.start();
}

/// How many descriptors the guard may have.
fn most_files(pid: u32) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    files.split_whitespace().next().unwrap().to_owned()
}

fn limit(pid: u32, limit: &str) {
    assert!(Command::new("prlimit").args(["--pid", &pid.to_string(), limit]).status().unwrap().success());
}

/// Stops the thread that the first argument names, for the number of ms in the second, as a debugger does.
const FREEZER: &str = r#"
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **arguments) {
    int thread = atoi(arguments[1]), status;
    if (ptrace(PTRACE_SEIZE, thread, 0, 0) || ptrace(PTRACE_INTERRUPT, thread, 0, 0))
        return 1;
    if (waitpid(thread, &status, __WALL) != thread)
        return 2;
    usleep(atoi(arguments[2]) * 1000);
    return ptrace(PTRACE_DETACH, thread, 0, 0) ? 3 : 0;
}"#;

/// Stops the threads whose name begins with `name`, one after the other.
fn freeze(scene: &mut Scene, name: &str) {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile(FREEZER, &["-static"]));
    let freezer = scene.bed.base.join("freezer");
    if !freezer.exists() {
        std::fs::write(&freezer, program).unwrap();
        std::fs::set_permissions(&freezer, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let pid = scene.bed.pid();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let comm = std::fs::read_to_string(thread.path().join("comm")).unwrap();
        let answers = comm.starts_with("answer-");
        if comm.starts_with(name) && (answers == (name == "answer-")) {
            let time = if answers { scene.stopped * 3 / 4 } else { scene.stopped / 12 };
            let thread = thread.file_name();
            let status =
                Command::new(&freezer).arg(thread).arg(time.as_millis().to_string()).status().unwrap();
            assert!(status.success(), "{comm}: {status}");
        }
    }
}
