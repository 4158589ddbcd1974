// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the calls that this kernel records by program with what strace sees. Needs root.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use palisade_bpf::learn::{LearnPrograms, Learned};

/// Whether these tests can run here.
fn root() -> bool {
    // Marks are by process number in the first PID namespace, which has a fixed inode number (`PROC_PID_INIT_INO`).
    let first = std::fs::read_link("/proc/self/ns/pid")
        .is_ok_and(|namespace| namespace.ends_with("pid:[4026531836]"));
    let root = rustix::process::geteuid().is_root();
    if !root || !first {
        eprintln!("not tried: programs are for root, and for the first process namespace");
    }
    root && first
}

fn descriptor(process: u32) -> OwnedFd {
    let process = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
    rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).unwrap()
}

/// The calls of a command in a session of its own: a shell waits until it is marked, and starts the command.
fn learn(programs: &LearnPrograms, session: u32, command: &[&str]) -> Vec<Learned> {
    let mut launcher = Command::new("sh")
        .args(["-c", "read line; \"$@\" >/dev/null </dev/null; exit 0", "sh"])
        .args(command)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let process = descriptor(launcher.id());
    programs.begin(process.as_fd(), session).unwrap();
    writeln!(launcher.stdin.take().unwrap(), "go").unwrap();
    assert!(launcher.wait().unwrap().success());
    let (learned, lost) = programs.end(process.as_fd(), session).unwrap();
    assert_eq!(lost, 0);
    learned
}

fn names(learned: &[Learned]) -> BTreeMap<String, BTreeSet<u32>> {
    learned
        .iter()
        .map(|one| (String::from_utf8(one.path.clone()).unwrap(), one.calls.iter().copied().collect()))
        .collect()
}

/// `getpriority`, `sched_rr_get_interval`, `execve`, `wait4`.
#[cfg(target_arch = "x86_64")]
const CALLS: [u32; 4] = [140, 148, 59, 61];
#[cfg(not(target_arch = "x86_64"))]
const CALLS: [u32; 4] = [141, 127, 221, 260];

const THREADS: &str = "\
import os, threading
def work(): os.getpriority(os.PRIO_PROCESS, 0)
one = threading.Thread(target=work); one.start(); one.join()
if os.fork() == 0:
    os.sched_rr_get_interval(0)
    os.execv('/bin/true', ['true'])
os.wait()";

#[test]
fn calls_are_put_down_by_program_threads_and_children_included() {
    if !root() {
        return;
    }
    let programs = LearnPrograms::load().unwrap();
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let learned = learn(&programs, 1, &["/usr/bin/python3", "-c", THREADS]);
    let by_name = names(&learned);
    let python = python.to_str().unwrap();
    let all: Vec<&str> = by_name.keys().map(String::as_str).collect();
    // The shell isn't in the list, because it wasn't executed after the mark.
    assert_eq!(all, [python, "/usr/bin/true"]);
    for call in CALLS {
        assert!(by_name[python].contains(&call), "{call}: {by_name:?}");
    }
    assert!(!by_name["/usr/bin/true"].contains(&CALLS[0]));
    // The inode number is that of `stat`.
    let file = learned.iter().find(|one| one.path.ends_with(b"true")).unwrap();
    assert_eq!(file.inode, std::fs::metadata("/usr/bin/true").unwrap().ino());
    // A session that is over leaves nothing.
    assert_eq!(programs.end(descriptor(1).as_fd(), 1).unwrap(), (Vec::new(), 0));
}

#[test]
fn what_is_put_down_is_what_strace_sees() {
    if !root() {
        return;
    }
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return;
    }
    let programs = LearnPrograms::load().unwrap();
    let directory = tempfile::tempdir().unwrap();
    for command in [
        &["ls", "-la", "/usr"][..],
        &["/usr/bin/python3", "-c", "import os; os.listdir('/')"],
        &["uname", "-a"],
    ] {
        let file = directory.path().join("strace");
        let mut strace = Command::new("strace");
        // `raw` says which numbers.
        strace.args(["-f", "-n", "-qq", "-o"]).arg(&file).args(command);
        assert!(strace.stdout(Stdio::null()).status().unwrap().success());
        let text = std::fs::read_to_string(&file).unwrap();
        let expected: BTreeSet<u32> = text
            .lines()
            .filter(|line| !line.contains("resumed>"))
            .filter_map(|line| line.split_once('[')?.1.split_once(']')?.0.trim().parse().ok())
            // Leave out execve, which is the shell's call.
            .filter(|call| *call != 59)
            .collect();
        let learned = learn(&programs, 2, command);
        assert_eq!(learned.len(), 1, "{learned:?}");
        let calls: BTreeSet<u32> = learned[0].calls.iter().copied().collect();
        assert_eq!(calls, expected, "{command:?}");
    }
}

#[test]
fn others_are_not_watched() {
    if !root() {
        return;
    }
    let programs = LearnPrograms::load().unwrap();
    let own = descriptor(std::process::id());
    programs.begin(own.as_fd(), 3).unwrap();
    let (_none, lost) = programs.end(own.as_fd(), 3).unwrap();
    assert_eq!(lost, 0);
    // Calls after the end of the session.
    assert!(Command::new("true").status().unwrap().success());
    assert_eq!(programs.end(own.as_fd(), 3).unwrap().0, []);
}

/// A launcher that is gone leaves no mark for the process that gets its number.
#[test]
fn a_number_that_is_used_again_is_not_watched() {
    if !root() {
        return;
    }
    let programs = LearnPrograms::load().unwrap();
    let line = "read line; /bin/true; exit 0";
    let shell = || Command::new("sh").args(["-c", line]).stdin(Stdio::piped()).spawn().unwrap();
    let mut launcher = shell();
    let number = launcher.id();
    let process = descriptor(number);
    programs.begin(process.as_fd(), 4).unwrap();
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    // The next process gets the number, unless another process of this host starts first.
    let mut again = (0..1000).find_map(|_attempt| {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).unwrap();
        let mut child = shell();
        if child.id() == number {
            return Some(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        None
    });
    let again = again.as_mut().expect("its number is never given again");
    writeln!(again.stdin.take().unwrap(), "go").unwrap();
    assert!(again.wait().unwrap().success());
    assert_eq!(programs.end(process.as_fd(), 4).unwrap(), (Vec::new(), 0));
    assert!(programs.begin(process.as_fd(), 5).is_err(), "the process is gone");
}
