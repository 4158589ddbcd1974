// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processes that ask. A sequence of events shows how a program was started, so something is remembered of each
//! process; it is identified by its descriptor, because process numbers are reused.

use super::counts::Counts;
use super::known::Identity;
use super::place::FileSystems;
use super::remembered::Remembered;
use crate::facts::{Access, Start};
use crate::kind::elf::ElfFacts;
use crate::kind::{Kind, Recognizer, Stat};
use crate::nowait::look_at;
use crate::shortage::{self, noted};
use crate::subject::Subject;
use crate::subject::start::Progress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::cell::OnceCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many processes are remembered, at least; each costs a descriptor.
const PROCESSES: usize = 2048;

/// For how many programs it is remembered whether they are linkers, at least.
const PROGRAMS: usize = 1024;

/// What is remembered of a process.
#[derive(Debug)]
struct Remains {
    descriptor: OwnedFd,
    progress: Mutex<Progress>,
    program: Mutex<Option<Program>>,
}

/// The program that a process runs. A running program can't be written, and a replaced file has another identity.
#[derive(Debug)]
struct Program {
    identity: Identity,
    /// Its path on this host when the process first asked for a file.
    exe: Arc<[u8]>,
    kind: Option<Kind>,
}

impl Remains {
    fn is_alive(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&now)), Ok(0))
    }
}

/// What is remembered of all processes.
#[derive(Debug)]
pub struct Processes {
    all: Mutex<Remembered<u32, Arc<Remains>>>,
    /// Whether programs call themselves run-time linkers, by their identity.
    linkers: Mutex<Remembered<Identity, bool>>,
}

impl Default for Processes {
    fn default() -> Self {
        let (all, linkers) = (Remembered::new(PROCESSES), Remembered::new(PROGRAMS));
        Self { all: Mutex::new(all), linkers: Mutex::new(linkers) }
    }
}

impl Processes {
    /// The process with this number. It waits for an answer, so it can end only by being killed; `None` if it was
    /// killed.
    pub(super) fn get(&self, pid: u32, counts: &Counts) -> Option<Process> {
        let mut processes = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remains) = processes.get(&pid)
            && remains.is_alive()
        {
            counts.subjects_hit.one();
            return Some(Process::new(Subject::when_asked(pid), Arc::clone(remains)));
        }
        counts.subjects_missed.one();
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let descriptor = noted(pidfd_open(number, PidfdFlags::empty())).ok()?;
        let remains = Arc::new(Remains {
            descriptor,
            progress: Mutex::new(Progress::new()),
            program: Mutex::new(None),
        });
        processes.insert(pid, Arc::clone(&remains));
        Some(Process::new(Subject::when_asked(pid), remains))
    }
}

impl Processes {
    /// The program that a process runs, if it calls itself a run-time linker. If the program isn't known yet, it is
    /// opened, if `may` allows: opening it is a question, and the file's server may not answer.
    pub(super) fn linker_of(
        &self,
        pid: u32,
        recognizer: &Recognizer,
        may_open: impl FnOnce() -> bool,
    ) -> Option<Identity> {
        let linkers = || self.linkers.lock().unwrap_or_else(PoisonError::into_inner);
        let program = program(pid)?;
        if let Some(is_linker) = linkers().get(&program).copied() {
            return is_linker.then_some(program);
        }
        if !may_open() {
            return None;
        }
        let file = Subject::when_asked(pid).program().ok()?;
        let status = noted(rustix::fs::fstat(&file)).ok()?;
        // The process may have executed another program by now.
        let (program, stat) = (Identity::of(&status), Stat::of(file.as_fd()).ok()?);
        let is_linker = recognizer.elf_of(file.as_fd(), stat).is_some_and(|elf| elf.linker);
        if !shortage::is_seen() {
            linkers().insert(program, is_linker);
        }
        is_linker.then_some(program)
    }
}

/// A process that asks.
pub(super) struct Process {
    /// What `/proc` says of it.
    pub(super) subject: Subject,
    remains: Arc<Remains>,
    /// What its program is now.
    program: OnceCell<Option<Identity>>,
}

impl Process {
    const fn new(subject: Subject, remains: Arc<Remains>) -> Self {
        Self { subject, remains, program: OnceCell::new() }
    }

    /// Records that the process asks for a file. `elf` has the file's facts if it is an ELF file.
    pub(super) fn proceed(&self, access: Access, elf: Option<&ElfFacts>) {
        let mut progress = self.remains.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match access {
            Access::Execute => progress.execute(elf),
            Access::Open => progress.open(),
        }
    }

    /// How its program was started, as far as the questions show.
    pub(super) fn start(&self) -> Start {
        self.remains.progress.lock().unwrap_or_else(PoisonError::into_inner).start()
    }

    /// The path of its program on this host. It is looked up once for each program that the process runs, like the
    /// kind.
    pub(super) fn exe(&self, filesystems: &FileSystems) -> Arc<[u8]> {
        let look = || filesystems.program_of(self.subject.pid(), self.subject.exe()).into();
        let Some(identity) = self.program() else { return look() };
        if let Some(program) = self.remembered().as_ref().filter(|program| program.identity == identity) {
            return Arc::clone(&program.exe);
        }
        let exe: Arc<[u8]> = look();
        *self.remembered() = Some(Program { identity, exe: Arc::clone(&exe), kind: None });
        exe
    }

    /// The kind of its program, if it is remembered.
    pub(super) fn remembered_kind(&self) -> Option<Kind> {
        let identity = self.program()?;
        let remembered = self.remembered();
        remembered.as_ref().filter(|program| program.identity == identity)?.kind.clone()
    }

    /// The kind of its program. Opens the program, which is a question, so another thread must answer meanwhile.
    pub(super) fn kind(&self, filesystems: &FileSystems, recognizer: &Recognizer) -> Kind {
        let kind = self.subject.kind(recognizer).clone();
        let _remembered = self.exe(filesystems);
        let identity = self.program();
        // An unknown kind isn't remembered.
        if kind != Kind::UNKNOWN
            && let Some(program) =
                self.remembered().as_mut().filter(|program| Some(program.identity) == identity)
        {
            program.kind = Some(kind.clone());
        }
        kind
    }

    fn remembered(&self) -> MutexGuard<'_, Option<Program>> {
        self.remains.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn program(&self) -> Option<Identity> {
        *self.program.get_or_init(|| program(self.subject.pid()))
    }
}

/// The program of a process now.
fn program(pid: u32) -> Option<Identity> {
    look_at(format!("/proc/{pid}/exe")).ok().map(|status| Identity::of_extended(&status))
}
