// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the recording of calls by program, on kernels other than the host's.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::fs::MetadataExt;
use std::process::{Command, Stdio};

use palisade_bpf::learn::{LearnPrograms, Learned};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::scenario::{Result, copy, ensure, report, told};

/// `getpriority`, `sync`, `execve`.
#[cfg(target_arch = "x86_64")]
const CALLS: [u32; 3] = [140, 162, 59];
#[cfg(not(target_arch = "x86_64"))]
const CALLS: [u32; 3] = [141, 81, 221];

pub(crate) fn all() {
    report("learn-puts-down-what-programs-call", || {
        let programs = load()?;
        session(&programs, 1)?;
        // Calls are recorded only for a session.
        let first = pidfd_open(Pid::INIT, PidfdFlags::empty()).map_err(|errno| errno.to_string())?;
        ensure(end(&programs, first.as_fd(), 1)?.is_empty(), "a session that is over has calls")
    });
    report("learn-tells-a-task-from-the-one-before-it", || {
        let programs = load()?;
        // The kernel reuses stacks at once, and the previous owner of each stack had already made the call.
        for number in 2..8 {
            let before = Command::new("/init").args(["act", "threads", "50"]).status();
            ensure(before.is_ok_and(|status| status.success()), "threads didn't call")?;
            session(&programs, number)?;
        }
        Ok(())
    });
}

fn load() -> Result<LearnPrograms> {
    LearnPrograms::load().map_err(|error| told("load")(&error))
}

fn end(programs: &LearnPrograms, process: BorrowedFd<'_>, session: u32) -> Result<Vec<Learned>> {
    let (learned, lost) = programs.end(process, session).map_err(|error| told("end")(&error))?;
    ensure(lost == 0, format!("{lost} lost"))?;
    Ok(learned)
}

/// A launcher starts a program. One of its threads makes a call, and its child executes another program that makes another
/// call.
fn session(programs: &LearnPrograms, session: u32) -> Result {
    let (first, second) = (copy("first")?, copy("second")?);
    let failed = |error: io::Error| error.to_string();
    let mut launcher = Command::new("/init")
        .args(["act", "launch", &first, "thread-and-child", &second])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let number = Pid::from_raw(launcher.id().cast_signed()).ok_or("no number")?;
    let process = pidfd_open(number, PidfdFlags::empty()).map_err(|errno| errno.to_string())?;
    programs.begin(process.as_fd(), session).map_err(|error| told("begin")(&error))?;
    launcher.stdin.take().ok_or("no input")?.write_all(b"\n").map_err(failed)?;
    let status = launcher.wait().map_err(failed)?;
    let learned = end(programs, process.as_fd(), session)?;
    ensure(status.success(), format!("{status}: {learned:?}"))?;
    let of = |path: &str| learned.iter().find(|one| one.path == path.as_bytes());
    let (Some(one), Some(other)) = (of(&first), of(&second)) else { return Err(format!("{learned:?}")) };
    ensure(learned.len() == 2, format!("the launcher, too: {learned:?}"))?;
    let makes = |one: &Learned| CALLS.map(|call| one.calls.contains(&call));
    ensure(makes(one) == [true, false, true], format!("{one:?}"))?;
    ensure(makes(other) == [false, true, false], format!("{other:?}"))?;
    let metadata = fs::metadata(&first).map_err(failed)?;
    ensure(one.inode == metadata.st_ino(), format!("{one:?}"))
}

/// The acts of the launcher and its programs.
pub(crate) fn launch(program: &str, arguments: &[&str]) -> io::Result<()> {
    io::stdin().read_exact(&mut [0])?;
    ended(Command::new(program).arg("act").args(arguments).stdin(Stdio::null()))
}

pub(crate) fn thread_and_child(program: &str) -> io::Result<()> {
    threads(1)?;
    ended(Command::new(program).args(["act", "sync"]))
}

/// Starts threads one after another, each with its own number.
pub(crate) fn threads(times: usize) -> io::Result<()> {
    for _ in 0..times {
        let asked = std::thread::spawn(|| rustix::process::getpriority_process(None)).join();
        asked.map_err(|_panic| io::Error::other("a thread ended early"))??;
    }
    Ok(())
}

fn ended(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("ended with {status}"))) }
}
