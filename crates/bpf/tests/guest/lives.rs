// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests modes, generations, subjects and losses; and the programs' lives: dropped, pinned, opened again, cleared.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use palisade_bpf::{Access, Error, GuardPrograms, Mode, ObjectClass, Pins, SubjectClass, Verdict};

use crate::inside::{CONFINED, SHELL, TRUSTED, classify, load, matrix, mode, set, trust_the_archive, watch};
use crate::scenario::{Outcome, Result, act, copy, ensure, execute, expect, report, run, told};

pub(crate) fn modes(programs: &GuardPrograms) {
    report("permissive-reports-and-allows", || {
        let program = copy("unclassified")?;
        mode(programs, Mode::Permissive)?;
        let events = watch(programs, || expect("it", &run(&program), &Outcome::Done))?;
        mode(programs, Mode::Enforce)?;
        let would = |access| {
            let mine = events.iter().filter(|event| event.path.as_deref() == Some(program.as_bytes()));
            mine.filter(|event| event.verdict == Verdict::WouldBeRefused && event.access == access).count()
        };
        ensure(would(Access::Execute) == 1 && would(Access::Map) >= 1, format!("{events:?}"))
    });
    report("off-judges-nothing", || {
        let program = copy("unclassified")?;
        mode(programs, Mode::Off)?;
        let events = watch(programs, || expect("it", &run(&program), &Outcome::Done));
        mode(programs, Mode::Enforce)?;
        ensure(events?.is_empty(), "something was reported")?;
        expect("enforcing", &run(&program), &Outcome::Refused)?;
        // A change in this mode still removes the class.
        classify(programs, &program, TRUSTED)?;
        expect("classified", &run(&program), &Outcome::Done)?;
        mode(programs, Mode::Off)?;
        let opened = fs::File::options().write(true).open(&program);
        mode(programs, Mode::Enforce)?;
        drop(opened.map_err(|error| format!("open: {error}"))?);
        expect("opened for writing meanwhile", &run(&program), &Outcome::Refused)
    });
    report("new-generation-forgets", || {
        let program = copy("trusted")?;
        classify(programs, &program, TRUSTED)?;
        expect("before", &run(&program), &Outcome::Done)?;
        programs.invalidate().map_err(|error| told("invalidate")(&error))?;
        let after = run(&program);
        trust_the_archive(programs)?;
        expect("after", &after, &Outcome::Refused)?;
        expect("only the archive is trusted again", &run(&program), &Outcome::Refused)?;
        classify(programs, &program, TRUSTED)?;
        expect("classified again", &run(&program), &Outcome::Done)
    });
    report("subject-follows-the-program", || {
        let (shell, program) = (copy("shell")?, copy("trusted")?);
        classify(programs, &shell, SHELL)?;
        classify(programs, &program, TRUSTED)?;
        let mut confining = matrix();
        for access in Access::ALL {
            confining.allow(access, SubjectClass::DEFAULT, SHELL).allow(access, CONFINED, SHELL);
        }
        confining
            .allow(Access::Map, CONFINED, TRUSTED)
            .allow(Access::Map, CONFINED, ObjectClass::ANONYMOUS)
            .becomes(SHELL, CONFINED);
        set(programs, &confining)?;
        let direct = run(&program);
        let by_shell = execute(&shell, &["act", "execute", &program]);
        let shell_by_shell = execute(&shell, &["act", "execute", &shell]);
        let again = execute(&shell, &["act", "execute", &shell, "execute", &program]);
        set(programs, &matrix())?;
        expect("not by the shell", &direct, &Outcome::Done)?;
        expect("by the shell", &by_shell, &Outcome::Refused)?;
        expect("the shell by the shell", &shell_by_shell, &Outcome::Done)?;
        expect("by the shell's shell", &again, &Outcome::Refused)
    });
    report("ten-thousand-refusals-no-loss", || {
        const TIMES: u64 = 10_000;
        let program = copy("unclassified")?;
        let refused = || {
            let counts = programs.counts(Access::Execute, ObjectClass::UNCLASSIFIED);
            counts.map(|counts| counts.1).map_err(|error| told("counts")(&error))
        };
        let (lost, before) = (programs.losses().map_err(|error| told("losses")(&error))?, refused()?);
        let seen = Cell::new(0);
        let events = programs
            .events(|event| {
                seen.set(seen.get() + u64::from(event.path.as_deref() == Some(program.as_bytes())))
            })
            .map_err(|error| told("listen")(&error))?;
        // Events that earlier scenarios left.
        events.drain().map_err(|error| told("drain")(&error))?;
        seen.set(0);
        let outcome = std::thread::scope(|scope| {
            let storm = scope.spawn(|| act(&["storm", &program, &TIMES.to_string()]));
            while !storm.is_finished() {
                events.poll(Duration::from_millis(20)).map_err(|error| told("poll")(&error))?;
            }
            storm.join().map_err(|_| "the storm died".to_owned())
        })?;
        events.drain().map_err(|error| told("drain")(&error))?;
        expect("the storm", &outcome, &Outcome::Done)?;
        let lost = programs.losses().map_err(|error| told("losses")(&error))? - lost;
        let refused = refused()? - before;
        let seen = seen.get();
        ensure(
            lost == 0 && seen == TIMES && refused == TIMES,
            format!("{refused} refused, {seen} seen, {lost} lost"),
        )
    });
}

/// A daemon's life in a child: loads everything, pins it and enforces; then waits to be killed.
pub(crate) fn daemon() -> io::Result<()> {
    let start = || -> Result {
        let mut programs = load()?;
        trust_the_archive(&programs)?;
        classify(&programs, "/work/trusted", TRUSTED)?;
        mode(&programs, Mode::Enforce)?;
        programs.pin(&Pins::default()).map_err(|error| told("pin")(&error))?;
        println!("ready");
        loop {
            std::thread::park();
        }
    };
    start().map_err(io::Error::other)
}

pub(crate) fn all() {
    let pins = Pins::default();
    report("killed-daemon-pins-still-refuse", || {
        let (trusted, unclassified) = (copy("trusted")?, copy("unclassified")?);
        expect("before", &run(&unclassified), &Outcome::Done)?;
        let mut daemon = Command::new("/init")
            .args(["act", "daemon"])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("start: {error}"))?;
        let mut line = String::new();
        if let Some(output) = daemon.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| format!("listen: {error}"))?;
        }
        daemon.kill().map_err(|error| format!("kill: {error}"))?;
        daemon.wait().map_err(|error| format!("wait: {error}"))?;
        ensure(line == "ready\n", format!("the daemon said {line:?}"))?;
        expect("without class", &run(&unclassified), &Outcome::Refused)?;
        expect("with class", &run(&trusted), &Outcome::Done)?;
        // No process labels now, so what was changed stays refused.
        drop(fs::File::options().append(true).open(&trusted).map_err(|error| format!("open: {error}"))?);
        expect("opened for writing", &run(&trusted), &Outcome::Refused)
    });
    report("reopened-after-restart", || {
        // A missing pin is noticed. The link behind it stays in force as long as it is held.
        let link = pins.directory().join("link-palisade_exec");
        let aside = pins.directory().join("aside");
        fs::rename(&link, &aside).map_err(|error| format!("move a pin: {error}"))?;
        let incomplete = GuardPrograms::open(&pins);
        fs::rename(&aside, &link).map_err(|error| format!("move a pin back: {error}"))?;
        ensure(
            matches!(incomplete, Err(Error::Unattached { program: "palisade_exec" })),
            "opened without one of its links",
        )?;
        let programs = GuardPrograms::open(&pins).map_err(|error| told("open")(&error))?;
        let programs = programs.ok_or("nothing is pinned")?;
        let found = programs.mode().map_err(|error| told("mode")(&error))?;
        ensure(found == Mode::Enforce, format!("mode {found:?}"))?;
        let program = copy("unclassified")?;
        let events = watch(&programs, || expect("it", &run(&program), &Outcome::Refused))?;
        ensure(events.len() == 1, format!("{events:?}"))?;
        classify(&programs, &program, TRUSTED)?;
        expect("classified by the new daemon", &run(&program), &Outcome::Done)
    });
    report("clear-removes-all", || {
        let program = copy("unclassified")?;
        expect("before", &run(&program), &Outcome::Refused)?;
        let programs = GuardPrograms::open(&pins).map_err(|error| told("open")(&error))?;
        programs.ok_or("nothing is pinned")?.clear(&pins).map_err(|error| told("clear")(&error))?;
        expect("after", &run(&program), &Outcome::Done)?;
        ensure(!pins.exist() && !fs::exists(pins.directory()).unwrap_or(true), "the pins are still there")?;
        let again = GuardPrograms::open(&pins).map_err(|error| told("open")(&error))?;
        ensure(again.is_none(), "it can still be opened")
    });
}

/// Waits, because the kernel detaches programs some time later.
pub(crate) fn eventually(what: &str, attempt: impl Fn() -> Outcome, expected: &Outcome) -> Result {
    let end = Instant::now() + crate::daemon::PATIENCE;
    while attempt() != *expected && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    expect(what, &attempt(), expected)
}
