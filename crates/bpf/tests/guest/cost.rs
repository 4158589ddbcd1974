// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of the guard with BPF LSM in force, in instructions. This machine counts instructions and derives its
//! clock from them, so the figures are the same however busy the host is. A clock of one instruction per nanosecond says
//! nothing about real time.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use palisade_protocol::guard::{Request, Response};
use rustix::process::Signal;

use crate::daemon::{Daemon, ask, in_force};
use crate::scenario::{Outcome, Result, ensure, execute, expect, report};

/// Before each line of figures.
pub(crate) const MARK: &str = "cost: ";

const PROGRAM: &str = "/program";
const MINE: &str = "/work/mine";
const OWNER: u32 = 1000;
const TIMES: u32 = 60;
/// The beginning and the end of fapolicyd's default rules.
const IMPORTED: &str = "\
deny perm=any pattern=ld_so : all
deny perm=any all : ftype=application/x-bad-elf
allow perm=open all : ftype=application/x-sharedlib trust=1
deny perm=open all : ftype=application/x-sharedlib
allow perm=execute all : trust=1
deny perm=execute all : all
allow perm=open all : all
";
const RULES: &str = "/etc/palisade/guard.d/10-imported.rules";

/// A program that only calls `exit(0)`.
fn program() -> Vec<u8> {
    const CODE: [u8; 9] = [0xb8, 0x3c, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];
    const BASE: u64 = 0x40_0000;
    let start = 64 + 56;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([2_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1_u32.to_le_bytes());
    file.extend([BASE + start, 64, 0].iter().flat_map(|long| long.to_le_bytes()));
    file.extend(0_u32.to_le_bytes());
    file.extend([64_u16, 56, 1, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    file.extend([1_u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    let length = start + CODE.len() as u64;
    file.extend([0, BASE, BASE, length, length, 0x1000].iter().flat_map(|long| long.to_le_bytes()));
    file.extend(CODE);
    file
}

/// The median of the times of several calls.
fn median(mut one: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let mut all = (0..TIMES).map(|_| one()).collect::<Result<Vec<_>>>()?;
    all.sort();
    Ok(all[all.len() / 2])
}

/// The time from before a process is made until its end.
fn exec() -> Result<Duration> {
    let began = Instant::now();
    let ended =
        Command::new(PROGRAM).stdin(Stdio::null()).status().map_err(|error| format!("execute: {error}"))?;
    ensure(ended.success(), format!("{ended}"))?;
    Ok(began.elapsed())
}

/// Opens and closes a user's file.
fn open() -> Result<Duration> {
    let began = Instant::now();
    let file = File::open(MINE).map_err(|error| format!("open: {error}"))?;
    ensure(file.as_raw_fd() >= 0, "no descriptor")?;
    drop(file);
    Ok(began.elapsed())
}

fn questions() -> Result<u64> {
    match ask(&Request::Metrics { reset: false })? {
        Response::Metrics(metrics) => Ok(metrics.questions),
        other => Err(format!("{other:?}")),
    }
}

/// The cost of one call with a guard, as a multiple of the cost `before`, and the number of questions.
fn costs(one: fn() -> Result<Duration>, before: Duration) -> Result<(f64, f64)> {
    // The first calls fill caches.
    for _ in 0..5 {
        one()?;
    }
    let asked = questions()?;
    let with = median(one)?;
    let asked = questions()? - asked;
    Ok((with.as_secs_f64() / before.as_secs_f64(), asked as f64 / f64::from(TIMES)))
}

/// The linker has no label for execution, and fanotify isn't asked.
fn linker_is_only_mapped() -> Result {
    let linker = execute("/lib64/ld-linux-x86-64.so.2", &[PROGRAM]);
    expect("the linker by hand", &linker, &Outcome::Refused)?;
    expect("a program that names it", &crate::scenario::run(crate::daemon::TRUSTED), &Outcome::Done)
}

fn prepare() -> Result {
    let make = || -> std::io::Result<()> {
        fs::write(PROGRAM, program())?;
        fs::set_permissions(PROGRAM, fs::Permissions::from_mode(0o755))?;
        fs::write(MINE, "Dear reader,\n")?;
        std::os::unix::fs::chown(MINE, Some(OWNER), Some(OWNER))?;
        fs::create_dir_all("/etc/palisade/guard.d")
    };
    make().map_err(|error| format!("prepare: {error}"))?;
    crate::daemon::prepare()
}

pub(crate) fn all() {
    let mut alone = [Duration::ZERO; 2];
    report("cost-without-a-guard", || {
        prepare()?;
        alone = [median(exec)?, median(open)?];
        println!("{MARK}alone: exec {} instructions, open {}", alone[0].as_nanos(), alone[1].as_nanos());
        Ok(())
    });
    report("cost-of-imported-rules", || {
        fs::write(RULES, IMPORTED).map_err(|error| format!("write: {error}"))?;
        let daemon = Daemon::start("", in_force)?;
        let (exec, asked) = costs(exec, alone[0])?;
        let (open, opened) = costs(open, alone[1])?;
        println!(
            "{MARK}imported rules: exec {exec:.2}, {asked:.2} questions; a user's file {open:.2}, {opened:.2} questions"
        );
        linker_is_only_mapped()?;
        daemon.end(Signal::TERM)?;
        fs::remove_file(RULES).map_err(|error| format!("remove: {error}"))?;
        ensure(exec <= 1.2, format!("an exec takes {exec:.2} of one without a guard, {asked:.2} questions"))
    });
    report("linker-has-no-label-when-the-guard-dies", || {
        fs::write(RULES, IMPORTED).map_err(|error| format!("write: {error}"))?;
        let daemon = Daemon::start_with(&["--force"], "on-death = \"closed\"", in_force)?;
        linker_is_only_mapped()?;
        daemon.end(Signal::KILL)?;
        let tried = linker_is_only_mapped();
        fs::remove_file(RULES).map_err(|error| format!("remove: {error}"))?;
        // Another guard reuses what is pinned, and removes it.
        Daemon::start("", in_force)?.end(Signal::TERM)?;
        tried
    });
    for (name, settings) in [
        ("cost-of-the-default-policy", ""),
        ("cost-where-execs-alone-are-asked-about", "watch.asked = \"execute\""),
    ] {
        report(name, || {
            let daemon = Daemon::start(settings, in_force)?;
            let (exec, asked) = costs(exec, alone[0])?;
            let (open, opened) = costs(open, alone[1])?;
            println!(
                "{MARK}{name}: exec {exec:.2}, {asked:.2} questions; a user's file {open:.2}, {opened:.2} questions"
            );
            daemon.end(Signal::TERM)?;
            ensure(exec <= 1.2, format!("an exec takes {exec:.2} of one without a guard"))?;
            // If the kernel asks about opens, each open is a question.
            ensure(open <= 1.5 || opened > 0.9, format!("an open takes {open:.2}, {opened:.2} questions"))
        });
    }
}
