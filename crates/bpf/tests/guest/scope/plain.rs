// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests each feature that older kernels lack: it is reported, and either scopes do without it or a request for it fails.
//! These kernels don't call the program at the security hook.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;

use super::{Daemon, Waiting, done, inside, outside, prepare, said, scope, served, status};
use crate::archive::DAEMON;
use crate::scenario::{Result, ensure, report};
use palisade_event::Operation;

const WAYS: [&str; 4] =
    ["plain:/work/program", "deep9:/work/program", "orphan:/work/program", "thread:/work/program"];
const RUN: [&str; 4] = ["--", "/init", "act", "ran"];

fn kills() -> Result {
    inside(&["--verdict", "kill"], &WAYS.map(|way| (way, "killed")))?;
    inside(&[], &WAYS.map(|way| (way, "ran")))
}

/// Both the daemon and `palisade scope status` report these words.
fn lacking(words: &str) -> Result {
    let printed = done(&["status"])?;
    ensure(printed.contains(words) && said().contains(words), format!("{printed}\n{}", said()))
}

pub(crate) fn all() {
    if let Err(error) = prepare() {
        println!("cannot prepare: {error}");
        return;
    }
    report("scope-refuse-is-an-error-without-the-hook", without_hook);
    report("scope-strict-kills-without-the-hook", || {
        served("[enforcement]\nprofile = \"strict\"\n[deny]\nfiles = [\"/work/program\"]", &[], || {
            inside(&[], &[("plain:/work/program", "killed"), ("plain:/bin/sh", "ran")])
        })
    });
    report("scope-without-processes-by-number", || {
        // Kernels before 6.10 lack this; on others the option simulates it.
        served("", &["--without", "task-by-number"], || {
            kills()?;
            let waiting = Waiting::start(&[], &WAYS)?;
            let pid = waiting.pid().to_string();
            let number = done(&["mark", "--verdict", "kill", &pid])?;
            ensure(done(&["list"])?.contains(&pid), "it isn't listed")?;
            let dead = scope(&["mark", "4000000"])?;
            ensure(dead.code == Some(2) && dead.err.contains("no process"), format!("{dead:?}"))?;
            waiting.go(&WAYS.map(|way| (way, "killed")))?;
            ensure(!number.trim().is_empty(), "it has no number")?;
            lacking("the kernel finds no process by its number")
        })
    });
    report("scope-without-storage-in-tasks", || {
        served("", &["--without", "task-storage"], || {
            kills()?;
            lacking("the kernel has no task storage")
        })
    });
    report("scope-without-a-buffer-for-events", without_buffer);
    report("scope-without-all-of-them", || {
        served("", &["--without", "task-by-number,task-storage,ring-buffer"], || {
            kills()?;
            // The next daemon reuses it unchanged.
            lacking("the kernel has no ring buffer")
        })
    });
    report("scope-without-types", || {
        mount("tmpfs", "/sys/kernel/btf", "tmpfs", MountFlags::empty(), None)
            .map_err(|error| format!("mount: {error}"))?;
        let result = served("", &[], || nothing_started("types"));
        unmount("/sys/kernel/btf", UnmountFlags::DETACH).map_err(|error| format!("unmount: {error}"))?;
        result
    });
    report("scope-without-a-place-for-pins", || {
        let options = ["--scope-pins", "/work/no-pins"];
        let daemon = Daemon::start("", &options)?;
        let result = kills().and_then(|()| lacking("scopes end with palisaded"));
        let waiting =
            Waiting::start(&[crate::archive::PALISADE, "scope", "run", "--verdict", "kill", "--"], &WAYS)?;
        daemon.end(Signal::KILL)?;
        result?;
        // As the message suggests.
        let _ = fs::remove_dir_all("/work/no-pins");
        crate::lives::eventually(
            "gone",
            || crate::scenario::run("/work/program"),
            &crate::scenario::Outcome::Done,
        )?;
        std::thread::sleep(std::time::Duration::from_millis(500));
        waiting.go(&WAYS.map(|way| (way, "ran")))
    });
    report("scope-in-another-process-namespace", foreign);
    println!("palisaded said:\n{}", said());
}

fn without_hook() -> Result {
    outside(&WAYS)?;
    served("", &[], || {
        let found = status()?;
        let why = found.refuses_not.clone().unwrap_or_default();
        ensure(found.in_force && !found.refuses && why.contains("security"), format!("{found:?}"))?;
        let printed = done(&["status"])?;
        ensure(printed.contains("kills before the first instruction"), printed)?;
        let ended = scope(&[&["run", "--verdict", "refuse"], &RUN[..]].concat())?;
        let refused =
            |ended: &super::Ended| ended.err.contains("can't refuse") && ended.err.contains("hint:");
        ensure(ended.code == Some(125) && refused(&ended), format!("{ended:?}"))?;
        let waiting = Waiting::start(&[], &WAYS)?;
        let pid = waiting.pid().to_string();
        let ended = scope(&["mark", "--verdict", "refuse", &pid])?;
        ensure(ended.code == Some(2) && refused(&ended), format!("{ended:?}"))?;
        let number = done(&["mark", &pid])?;
        let ended = scope(&["verdict", number.trim(), "refuse"])?;
        ensure(ended.code == Some(2) && refused(&ended), format!("{ended:?}"))?;
        waiting.go(&WAYS.map(|way| (way, "ran")))?;
        let best = scope(
            &[
                &["run", "--best-effort", "--verdict", "refuse", "--"],
                &RUN[1..2],
                &["act", "attempts", WAYS[0]],
            ]
            .concat(),
        )?;
        let killed = best.out == format!("{} killed\n", WAYS[0]);
        ensure(
            killed && best.err.contains("are killed before their first instruction"),
            format!("{best:?}"),
        )?;
        kills()
    })
}

fn without_buffer() -> Result {
    served("", &["--without", "ring-buffer"], || {
        kills()?;
        lacking("the kernel has no ring buffer")?;
        let ended = scope(&["profile", "session"])?;
        ensure(ended.code == Some(2) && ended.err.contains("needs a ring buffer"), format!("{ended:?}"))?;
        done(&["profile", "strict"])?;
        let ended = scope(&[&["run", "--calls"], &RUN[..]].concat())?;
        ensure(
            ended.code == Some(42) && ended.err.contains("rare system calls aren't reported"),
            format!("{ended:?}"),
        )?;
        ensure(super::events()?.iter().all(|event| event.operation == Operation::Exit), "something is told")
    })
}

/// No scope is available: an error, unless `--best-effort` is given.
fn nothing_started(words: &str) -> Result {
    let found = status()?;
    let because = found.because.clone().unwrap_or_default();
    ensure(!found.in_force && because.contains(words), format!("{found:?}"))?;
    let ended = scope(&[&["run"], &RUN[..]].concat())?;
    let refused = ended.code == Some(125) && ended.err.contains(words) && ended.err.contains("hint:");
    ensure(refused, format!("{ended:?}"))?;
    let ended = scope(&[&["run", "--best-effort"], &RUN[..]].concat())?;
    ensure(ended.code == Some(42) && ended.err.contains("unmarked"), format!("{ended:?}"))
}

/// A daemon whose process numbers aren't the kernel's.
fn foreign() -> Result {
    // SAFETY: needed because rustix declares the call unsafe on account of shared descriptors. Sound: this flag doesn't
    // touch them.
    let unshare = || Ok(unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWPID) }?);
    let log = fs::File::options().append(true).open(super::LOG).map_err(|error| format!("log: {error}"))?;
    let mut command = Command::new("/init");
    command.args(["act", "child", DAEMON, "--only", "scopes"]).stdin(Stdio::piped()).stderr(log);
    // SAFETY: needed to start it in a namespace of its own. Sound: this call may be made between fork and exec.
    let mut child =
        unsafe { command.pre_exec(unshare) }.spawn().map_err(|error| format!("start: {error}"))?;
    let end = std::time::Instant::now() + crate::daemon::PATIENCE;
    let words = "palisaded doesn't run in the initial PID namespace";
    let socket = palisade_protocol::scope::SOCKET;
    let serves = || said().contains(words) && std::os::unix::net::UnixStream::connect(socket).is_ok();
    while !serves() && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let tried = || -> Result {
        ensure(serves(), format!("it isn't said: {}", said()))?;
        let ended = scope(&[&["run"], &RUN[..]].concat())?;
        ensure(ended.code == Some(125), format!("{ended:?}"))?;
        let ended = scope(&[&["run", "--best-effort"], &RUN[..]].concat())?;
        ensure(ended.code == Some(42) && ended.err.contains("unmarked"), format!("{ended:?}"))
    };
    let result = tried();
    drop(child.stdin.take());
    child.wait().map_err(|error| format!("wait: {error}"))?;
    result
}
