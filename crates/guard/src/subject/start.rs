// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines how a process's program was started, from the opens and execs that the guard saw.
//!
//! For every program that is executed the kernel asks twice: for the exec, and for the open. Then it asks the same two
//! questions for the run-time linker that the program names. Only then the new program runs, and its code causes all
//! further opens. For a script the first two questions are about the script, the next about its interpreter.
//!
//! ```text
//! execute X, open X, execute ld.so, open ld.so, open libc.so.6 …    Normal, from the first open of its own
//! execute X, open X, open what it likes …                           Static, from the beginning
//! execute ld.so, open ld.so, open X …                               LinkerItself, from the beginning
//! open something, of a process that was not seen to execute         Normal: older than the daemon, or forked
//! ```
//!
//! A process can fake this sequence. If an exec of X fails after the first two questions (its arguments can't be read),
//! or another thread executes X, then the linker looks as if X had named it. So the guard also checks at each open
//! whether the process runs the linker (then it is [`Start::LinkerItself`], whatever was seen). The sequence only tells
//! it one step earlier, at the exec.
//!
//! fapolicyd 1.1.7 determines the pattern while it walks the rules. Differences:
//!
//! - There, only a rule with `pattern=` advances some of the states: a static program that no such rule examined before
//!   its second open is *normal* from then on. Here it doesn't depend on the rules.
//! - There, the run-time linker is one path, fixed when fapolicyd was built: Debian's
//!   `/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2` is never recognized where `/lib` is a symbolic link, and a copy of
//!   the linker is *normal*. Here the name inside the linker's file identifies it.
//! - There, any program that is executed while the linker is expected counts as the linker. Here a program that is not
//!   a linker starts a new sequence.
//! - There, the first pattern that is asked for a malformed program with a dynamic section matches, whichever it is,
//!   and the rest of the rule's subject isn't checked. Here such a program's start is unknown; rules refuse it by its
//!   kind.
//! - There, a program without a linker is *normal* from its second open on, here from its first.
//! - Version 1.1.7 refuses rules with `pattern=normal`, although its manual has it; version 2 accepts them.
//! - There, once `pattern=ld_preload` has matched, the process isn't *normal* any more. Here the two are independent,
//!   and a static program has no linker that could preload anything.

use crate::facts::Start;
use crate::kind::elf::ElfFacts;

/// The stage of an exec that a process has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// The guard has seen nothing of this process.
    #[default]
    New,
    /// The process executes a program; the open of the same file is still to come.
    Executed(Waiting),
    /// The process has opened that file; the next event decides.
    Opened(Waiting),
    /// The process executes the run-time linker; its open is still to come.
    LinkerExecuted,
    /// The process has opened the run-time linker; the next open comes from the new program.
    LinkerOpened,
    /// The start is known.
    Known(Start),
}

/// What an executed program needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Its run-time linker.
    Linker,
    /// Nothing: the program runs now. (A position-independent program without an interpreter.)
    Nothing,
    /// A script's interpreter, or something unknown.
    Another,
}

/// The events of one process so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    stage: Stage,
}

impl Progress {
    /// A process without any events so far.
    pub const fn new() -> Self {
        Self { stage: Stage::New }
    }

    /// The process executes a file (`perm=execute`), which may be an ELF file.
    pub fn execute(&mut self, object: Option<&ElfFacts>) {
        if self.stage == Stage::Opened(Waiting::Linker) && object.is_some_and(|elf| elf.linker) {
            self.stage = Stage::LinkerExecuted;
            return;
        }
        self.stage = match object {
            None => Stage::Executed(Waiting::Another),
            Some(elf) if elf.is_static() => Stage::Known(Start::Static),
            Some(elf) if elf.error.is_some() => Stage::Executed(Waiting::Another),
            Some(elf) if elf.linker => Stage::Known(Start::LinkerItself),
            Some(elf) if elf.interpreter => Stage::Executed(Waiting::Linker),
            Some(_) => Stage::Executed(Waiting::Nothing),
        };
    }

    /// The process opens a file (`perm=open`). Also called for the open of a file that it executes.
    pub fn open(&mut self) {
        self.stage = match self.stage {
            Stage::New | Stage::LinkerOpened | Stage::Opened(Waiting::Nothing | Waiting::Linker) => {
                Stage::Known(Start::Normal)
            }
            Stage::Executed(waiting) => Stage::Opened(waiting),
            Stage::LinkerExecuted => Stage::LinkerOpened,
            other @ (Stage::Opened(Waiting::Another) | Stage::Known(_)) => other,
        };
    }

    /// How the program was started, as far as the events tell.
    pub const fn start(&self) -> Start {
        match self.stage {
            Stage::Known(start) => start,
            _ => Start::Unknown,
        }
    }

    /// Does `/proc` still describe the program before? While the kernel asks about a program and its linker, the
    /// process is still the one that executes them.
    pub const fn is_between(&self) -> bool {
        !matches!(self.stage, Stage::New | Stage::Known(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::elf::{ElfError, Object};

    const PROGRAM: ElfFacts = ElfFacts {
        object: Object::Shared,
        wide: true,
        foreign: false,
        dynamic: true,
        interpreter: true,
        debug: true,
        linker: false,
        error: None,
    };
    const LINKER: ElfFacts = ElfFacts { interpreter: false, debug: false, linker: true, ..PROGRAM };
    const STATIC: ElfFacts = ElfFacts { dynamic: false, interpreter: false, ..PROGRAM };
    const STATIC_PIE: ElfFacts = ElfFacts { interpreter: false, ..PROGRAM };
    const BAD: ElfFacts = ElfFacts { error: Some(ElfError::Headers), ..PROGRAM };

    enum Seen<'a> {
        Execute(Option<&'a ElfFacts>),
        Open,
    }
    use Seen::{Execute, Open};

    /// What is known after each event.
    fn starts(events: &[Seen<'_>]) -> Vec<Start> {
        let mut progress = Progress::new();
        let after = events.iter().map(|event| {
            match event {
                Execute(object) => progress.execute(*object),
                Open => progress.open(),
            }
            progress.start()
        });
        after.collect()
    }

    const U: Start = Start::Unknown;
    const N: Start = Start::Normal;
    const S: Start = Start::Static;
    const L: Start = Start::LinkerItself;

    #[test]
    fn a_program_with_its_linker() {
        let events = [Execute(Some(&PROGRAM)), Open, Execute(Some(&LINKER)), Open, Open, Open];
        assert_eq!(starts(&events), [U, U, U, U, N, N]);
    }

    #[test]
    fn a_program_whose_linker_is_not_watched() {
        assert_eq!(starts(&[Execute(Some(&PROGRAM)), Open, Open]), [U, U, N]);
    }

    #[test]
    fn the_linker_itself() {
        let events = [
            Execute(Some(&LINKER)),
            Open,
            Open,
            Execute(Some(&PROGRAM)),
            Open,
            Execute(Some(&LINKER)),
            Open,
            Open,
        ];
        assert_eq!(starts(&events), [L, L, L, U, U, U, U, N]);
    }

    #[test]
    fn static_programs() {
        let events =
            [Execute(Some(&STATIC)), Open, Open, Execute(Some(&STATIC)), Open, Execute(Some(&PROGRAM)), Open];
        assert_eq!(starts(&events), [S, S, S, S, S, U, U]);
        assert_eq!(starts(&[Execute(Some(&STATIC_PIE)), Open, Open]), [U, U, N]);
    }

    #[test]
    fn scripts_are_started_by_their_interpreters() {
        let events = [Execute(None), Open, Execute(Some(&PROGRAM)), Open, Execute(Some(&LINKER)), Open, Open];
        assert_eq!(starts(&events), [U, U, U, U, U, U, N]);
        assert_eq!(starts(&[Execute(None), Open, Execute(Some(&STATIC)), Open]), [U, U, S, S]);
        assert_eq!(starts(&[Execute(None), Open, Execute(Some(&LINKER)), Open]), [U, U, L, L]);
    }

    #[test]
    fn older_than_the_daemon() {
        assert_eq!(starts(&[Open, Open, Execute(Some(&STATIC))]), [N, N, S]);
    }

    #[test]
    fn another_program_instead_of_the_linker() {
        let events = [
            Execute(Some(&PROGRAM)),
            Open,
            Execute(Some(&PROGRAM)),
            Open,
            Execute(Some(&LINKER)),
            Open,
            Open,
        ];
        assert_eq!(starts(&events), [U, U, U, U, U, U, N]);
    }

    #[test]
    fn malformed_programs_stay_unknown() {
        assert_eq!(starts(&[Execute(Some(&BAD)), Open, Open, Open]), [U; 4]);
    }
}
