// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides on calls that weren't learned for a profile's programs: record them, refuse them, or make them if the user
//! agrees.
//!
//! The filter passes these calls on whatever their arguments, in addition to the calls that the broker answers
//! anyway. A call belongs to the program whose file the thread executes. That file is looked up at each call that
//! isn't merely recorded, because the thread may have executed another program since. Each pair of program and call
//! is reported once, and each refused call once.

use crate::broker::caller::Caller;
use crate::broker::report::{Program, Report};
use crate::broker::running::Running;
use crate::broker::waiter::{Wait, What};
use crate::broker::{Outcome, Shared, Worker, calls};
use crate::group::EXECUTING;
use crate::{Arch, Call, Numbers, Passed, Syscall, group};
use palisade_sys::notify::Notification;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// How many pairs of program and call are remembered. Further ones aren't reported, and the user isn't asked: they
/// are refused.
const MOST: usize = 1 << 16;

/// What happens to calls that weren't learned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// They are made and reported.
    Remember,
    /// They fail with `EPERM` and are reported.
    Refuse,
    /// Their process is ended, which is reported.
    Kill,
    /// The user is asked. After a no, they fail or their process is ended.
    Ask {
        /// A no ends the process.
        kill: bool,
    },
}

/// The calls that weren't learned, and what happens to them.
#[derive(Clone, Debug)]
pub struct Unlearned {
    /// Their numbers.
    pub numbers: Numbers,
    /// What happens to them.
    pub fate: Fate,
    /// Which calls are passed on for other reasons.
    pub passed: Passed,
}

/// A program's file, a call, and a question about it (0: whether it may be made although it wasn't learned). Reported
/// or answered.
type Key = (u64, u64, u32, u32);

/// Decides on calls that weren't learned.
pub(crate) struct Judge {
    unlearned: Unlearned,
    told: Mutex<HashSet<Key>>,
    answers: Mutex<HashMap<Key, bool>>,
    /// The number of the last question. A thread holds the lock while it asks: one question at a time.
    asking: Mutex<u64>,
    /// Present if the filter passes on execs.
    running: Option<Running>,
}

impl Judge {
    pub(crate) fn new(unlearned: Unlearned) -> Self {
        let sees = |name: &&str| {
            let number = name.parse::<Syscall>().ok().and_then(|call| call.number(Arch::NATIVE));
            number.is_none_or(|number| unlearned.numbers.contains(number))
        };
        let running = EXECUTING.iter().all(sees).then(Running::new);
        Self {
            unlearned,
            told: Mutex::default(),
            answers: Mutex::default(),
            asking: Mutex::default(),
            running,
        }
    }

    /// Handles a call.
    pub(super) fn dispatch(&self, worker: &Worker<'_>, call: &Notification) -> Result<Outcome, Errno> {
        let number = u32::try_from(call.number).unwrap_or(u32::MAX);
        if !self.unlearned.numbers.contains(number) {
            return worker.make(call);
        }
        if self.unlearned.fate != Fate::Remember && signals_itself(&Caller::new(worker, call)) {
            return self.proceed(worker, call);
        }
        self.decide(worker, call, self.unlearned.fate, 0)
    }

    /// Whether calls of this number were passed on because they weren't learned.
    pub(super) fn is_asked_of(&self, number: u32) -> bool {
        self.unlearned.numbers.contains(number)
    }

    /// Handles a call by a fate. `question` distinguishes the questions about calls of one number.
    pub(super) fn decide(
        &self,
        worker: &Worker<'_>,
        call: &Notification,
        fate: Fate,
        question: u32,
    ) -> Result<Outcome, Errno> {
        let number = u32::try_from(call.number).unwrap_or(u32::MAX);
        let caller = &Caller::new(worker, call);
        let (asks, kill) = match fate {
            Fate::Remember => {
                self.put_down(worker, caller, number);
                return self.proceed(worker, call);
            }
            Fate::Refuse => (false, false),
            Fate::Kill => (false, true),
            Fate::Ask { kill } => (true, kill),
        };
        let program = caller.executable();
        let key = (program.device, program.inode, number, question);
        match if asks { self.answer(key) } else { Some(false) } {
            Some(true) => self.proceed(worker, call),
            Some(false) => Err(self.refuse(worker, call, program, key, kill)),
            None => {
                let (process, call) = (caller.process()?, *call);
                let shared = Arc::clone(worker.shared);
                let ask = move |_: &Wait| ask(&shared, &call, program, kill, question);
                let wait = ((&call).into(), What::User);
                worker.shared.waiters.start(Arc::clone(worker.shared), wait, process, ask)?;
                Ok(Outcome::Later)
            }
        }
    }

    /// Reports a call if it is this program's first one of its number.
    fn put_down(&self, worker: &Worker<'_>, caller: &Caller<'_>, number: u32) {
        let thread = caller.call.thread;
        let name = calls::name_of(caller.call);
        if EXECUTING.contains(&name) {
            // A thread that can't be looked up any more is gone and executes nothing.
            if let (Some(running), Ok(process)) = (&self.running, caller.process()) {
                running.executes(thread, process);
            }
            // This call is passed on only for this purpose: without it no program can start.
            if group::base().iter().any(|call| call.name() == name) {
                return;
            }
        } else if let Some(running) = &self.running
            && let Some((device, inode)) = running.file_of(thread)
            && self.is_told((device, inode, number, 0))
        {
            return;
        }
        let program = caller.executable();
        if let Some(running) = &self.running
            && !EXECUTING.contains(&name)
        {
            running.remember(thread, &program);
        }
        if self.is_news((program.device, program.inode, number, 0)) {
            worker.shared.reporter.insist(&Report::Called { program, call: number });
        }
    }

    /// Makes a permitted call, as the broker would without syscall modes.
    fn proceed(&self, worker: &Worker<'_>, call: &Notification) -> Result<Outcome, Errno> {
        let seen = Call {
            audit_arch: call.audit_arch,
            number: u32::try_from(call.number).unwrap_or(u32::MAX),
            arguments: call.arguments,
        };
        if self.unlearned.passed.has(&seen, Arch::NATIVE) { worker.make(call) } else { Ok(Outcome::Continue) }
    }

    fn refuse(
        &self,
        worker: &Worker<'_>,
        call: &Notification,
        program: Program,
        key: Key,
        kill: bool,
    ) -> Errno {
        let victim = if kill { victim(worker, call).ok() } else { None };
        if victim.is_some() || self.is_news(key) {
            // Report before the process ends: the launcher stops reading after the last process.
            let killed = victim.is_some();
            let report = Report::Unlearned { thread: call.thread, program, call: key.2, killed };
            worker.shared.reporter.insist(&report);
        }
        if let Some(victim) = victim {
            let _ended_meanwhile = pidfd_send_signal(&victim, Signal::KILL);
        }
        Errno::PERM
    }

    fn is_told(&self, key: Key) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).contains(&key)
    }

    /// Whether this wasn't reported yet. When the memory is full, everything counts as reported.
    fn is_news(&self, key: Key) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MOST && told.insert(key)
    }

    fn answer(&self, key: Key) -> Option<bool> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.get(&key) {
            None if answers.len() >= MOST => Some(false),
            answer => answer.copied(),
        }
    }
}

/// Whether a process signals one of its own threads. That reaches no other process, and its moment depends on timing:
/// Go's runtime interrupts threads that run for long, and the learned run may have had none.
fn signals_itself(caller: &Caller<'_>) -> bool {
    calls::name_of(caller.call) == "tgkill"
        && caller
            .numbers_inside()
            .is_ok_and(|(process, _thread)| i64::from(caller.int(0)) == i64::from(process))
}

/// The process of a call. The call is checked to wait afterwards, so no other process has got the number.
fn victim(worker: &Worker<'_>, call: &Notification) -> Result<OwnedFd, Errno> {
    // The number of a thread would do for a signal, but not for a descriptor of its process.
    let process = Caller::new(worker, call).process()?;
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let descriptor = pidfd_open(process, PidfdFlags::empty())?;
    if worker.shared.listener.is_waiting(call.id) { Ok(descriptor) } else { Err(Errno::SRCH) }
}

/// Lets the launcher ask its user about a call, and answers the call. Runs in a separate thread.
fn ask(shared: &Arc<Shared>, call: &Notification, program: Program, kill: bool, question: u32) {
    let Some(judge) = &shared.judge else { return };
    let worker = Worker::new(shared);
    let key = (program.device, program.inode, u32::try_from(call.number).unwrap_or(u32::MAX), question);
    let allowed = {
        let mut number = judge.asking.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have asked the same question meanwhile.
        match judge.answer(key) {
            Some(answer) => answer,
            None if !shared.listener.is_waiting(call.id) => return,
            None => {
                *number += 1;
                let question = Report::Asked {
                    number: *number,
                    thread: call.thread,
                    program: program.clone(),
                    call: key.2,
                };
                shared.reporter.insist(&question);
                let Some(answer) = shared.reporter.answer(*number) else {
                    // The caller is gone. A late answer isn't taken for the answer to the next question.
                    return;
                };
                if answer.keep {
                    let mut answers = judge.answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.insert(key, answer.allow);
                }
                answer.allow
            }
        }
    };
    let outcome = if allowed {
        judge.proceed(&worker, call)
    } else {
        Err(judge.refuse(&worker, call, program, key, kill))
    };
    worker.conclude(call, outcome);
}
