// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who asks. How a program was started is told by a sequence of events, so something is remembered of each process; by
//! its descriptor, because numbers are used again.

use super::counts::Counts;
use super::remembered::Remembered;
use crate::facts::{Access, Start};
use crate::kind::elf::ElfFacts;
use crate::kind::{Kind, Recognizer};
use crate::subject::Subject;
use crate::subject::start::Progress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Processes of which something is remembered, at least; each costs a descriptor.
const PROCESSES: usize = 2048;

/// What is remembered of a process.
#[derive(Debug)]
struct Remains {
    descriptor: OwnedFd,
    progress: Mutex<Progress>,
    /// The kind of its program, by the program's device and inode: a program that runs can't be written.
    kind: Mutex<Option<((u64, u64), Kind)>>,
}

impl Remains {
    fn is_alive(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&now)), Ok(0))
    }
}

/// What is remembered of all.
#[derive(Debug)]
pub struct Processes(Mutex<Remembered<u32, Arc<Remains>>>);

impl Default for Processes {
    fn default() -> Self {
        Self(Mutex::new(Remembered::new(PROCESSES)))
    }
}

impl Processes {
    /// The process with this number, which is waiting for an answer and so can't end but by being killed; nothing if it
    /// was.
    pub(super) fn get(&self, pid: u32, counts: &Counts) -> Option<Process> {
        let subject = Subject::read(pid);
        let mut processes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remains) = processes.get(&pid)
            && remains.is_alive()
        {
            counts.subjects_hit.one();
            return Some(Process { subject, remains: Arc::clone(remains) });
        }
        counts.subjects_missed.one();
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let descriptor = pidfd_open(number, PidfdFlags::empty()).ok()?;
        let remains =
            Arc::new(Remains { descriptor, progress: Mutex::new(Progress::new()), kind: Mutex::new(None) });
        processes.insert(pid, Arc::clone(&remains));
        drop(processes);
        // That the descriptor is still of a living process tells that `/proc` was about the same one.
        remains.is_alive().then_some(Process { subject, remains })
    }
}

/// A process that asks.
pub(super) struct Process {
    /// What `/proc` says of it.
    pub(super) subject: Subject,
    remains: Arc<Remains>,
}

impl Process {
    /// It asks for a file: `elf` is what that is, if it is an ELF file.
    pub(super) fn proceed(&self, access: Access, elf: Option<&ElfFacts>) {
        let mut progress = self.remains.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match access {
            Access::Execute => progress.execute(elf),
            Access::Open => progress.open(),
        }
    }

    /// How its program was started, as far as it was seen.
    pub(super) fn start(&self) -> Start {
        self.remains.progress.lock().unwrap_or_else(PoisonError::into_inner).start()
    }

    /// The kind of its program, if it is remembered.
    pub(super) fn remembered_kind(&self) -> Option<Kind> {
        let program = self.program()?;
        let kind = self.remains.kind.lock().unwrap_or_else(PoisonError::into_inner);
        kind.as_ref().filter(|(known, _)| *known == program).map(|(_, kind)| kind.clone())
    }

    /// The kind of its program. Opens it, which is a question: somebody else must answer meanwhile.
    pub(super) fn kind(&self, recognizer: &Recognizer) -> Kind {
        let kind = self.subject.kind(recognizer).clone();
        if let Some(program) = self.program() {
            *self.remains.kind.lock().unwrap_or_else(PoisonError::into_inner) = Some((program, kind.clone()));
        }
        kind
    }

    /// Its program's device and inode.
    #[allow(clippy::unnecessary_cast, reason = "the C libraries disagree about the widths")]
    fn program(&self) -> Option<(u64, u64)> {
        let status = rustix::fs::stat(format!("/proc/{}/exe", self.subject.pid())).ok()?;
        Some((status.st_dev as u64, status.st_ino as u64))
    }
}
