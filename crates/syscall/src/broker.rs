// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The broker: receives the system calls that the filter passes on, judges each one and makes it.
//!
//! The broker can't judge a path in the caller's memory in place: the caller can change the path between the
//! judgement and the call. So the broker copies the path once. It resolves the copy as the caller would, up to the
//! directory that holds the last name. It judges *that directory's real path and the name*. Then it makes the call
//! itself on the descriptor of that directory and follows no link. So the call affects exactly the file that was
//! judged.
//!
//! The broker runs as the command's user, in the command's file tree and Landlock domain
//! (`palisade_sys::launch::Broker`). Even a deceived or compromised broker can do nothing to files that the command
//! couldn't do. The broker only adds refusals.
//!
//! Modules in reading order:
//! - [`Server`]: the broker's configuration; `workers`: its threads; `calls`: which function handles which call
//! - `caller`: what the broker reads from the caller; `resolve`: from a path to a directory and a name
//! - [`name_policy`]: what is refused, with `operation` (what a rule permits) and `way` (the directories above a
//!   name); `walls`: other refusals
//! - `open` with `how` and `literal`, `tree` with `readable`, `links` (where they lead), `attributes`, `sockets` with
//!   `bound`, `given_names` and `send`, `internet`, `times`: the calls themselves
//! - `modes`: modes that give rights away; `identity`: tells a file from a later one with the same inode number
//! - `waiter` with `signals`: calls that wait
//! - `config`: files that may change if the change is harmless, with `written` (programs that write such a file in
//!   place); `repository`: directories that git treats as a repository, whatever their name
//! - `observe`: what is recorded while a command is being learned; [`unlearned`]: calls that a profile's programs
//!   aren't known to make, with `running` (which program a thread runs)
//! - `refusals`: calls that the filter refuses; [`replies`]: results that a policy states, with `clock` (a time of
//!   day of its own)
//! - [`report`]: messages to the launcher

mod attributes;
mod bound;
mod caller;
mod calls;
mod clock;
mod config;
mod given_names;
mod how;
mod identity;
mod internet;
mod links;
mod literal;
mod modes;
pub mod name_policy;
mod observe;
mod open;
mod operation;
mod readable;
mod refusals;
pub mod replies;
pub mod report;
mod repository;
mod resolve;
mod running;
mod send;
mod signals;
mod sockets;
mod times;
mod together;
mod tree;
pub mod unlearned;
mod waiter;
mod walls;
mod way;
mod workers;
mod written;

use crate::broker::caller::Callers;
use crate::broker::name_policy::{NamePolicy, ProtectedPaths};
use crate::broker::report::Reporter;
use crate::{Arch, Filter};
use palisade_sys::launch::Station;
use palisade_sys::notify::{Listener, Reply};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, RwLock};

/// What a broker needs to know about its sandbox. The struct owns all of it, because the broker outlives the launch.
#[derive(Clone, Debug)]
pub struct Server {
    /// What is protected, and where.
    pub protected_paths: ProtectedPaths,
    /// The command's filter.
    pub command: Filter,
    /// The filter that the broker itself runs under.
    pub filter: Filter,
    /// The command's file mode creation mask.
    pub umask: u32,
    /// The launcher's session: processes in it have the launcher's terminal.
    pub session: u32,
    /// The command is in the host's tree: no mount keeps what Landlock doesn't restrict.
    pub in_place: bool,
    /// Also report to the launcher what the command uses. The filter is then that of
    /// [`Rules::learned`](crate::Rules::learned).
    pub learn: bool,
    /// Calls that are passed on because they weren't learned.
    pub unlearned: Option<unlearned::Unlearned>,
    /// Results that the policy states in place of the kernel's.
    pub answers: Option<replies::PolicyReplies>,
}

/// State that all worker threads share.
struct Shared {
    listener: Listener,
    workers: workers::Workers,
    proc: OwnedFd,
    callers: Callers,
    name_policy: NamePolicy,
    refusals: refusals::Refusals,
    /// Held shared while the broker judges a name and makes the call. Held exclusively by calls that move directories
    /// or replace files by content, so that no path changes its meaning in between.
    order: RwLock<()>,
    reporter: Reporter,
    waiters: waiter::Waiters,
    bound: bound::Bound,
    /// Present if the gateway makes the command's connections.
    connections: Option<internet::Connections>,
    given_names: given_names::GivenNames,
    baselines: config::Baselines,
    being_written: written::BeingWritten,
    umask: u32,
    session: u32,
    in_place: bool,
    /// Each thread can have a working directory and a umask of its own. Not where a container refuses `unshare`: one
    /// thread does all the work then.
    apart: bool,
    terminal: Option<OwnedFd>,
    observer: Option<observe::Observer>,
    judge: Option<unlearned::Judge>,
    answerer: Option<replies::Replier>,
    /// Present if the policy states its own time of day.
    programs: Option<clock::programs::Programs>,
}

impl Server {
    /// Answers calls until no process is left that could make one. Run this in the broker's process.
    ///
    /// If the broker can't start, this function returns at once. The listener is then closed, and calls fail.
    pub fn serve(&self, station: Station) {
        if self.try_serve(station).is_err() {
            palisade_sys::process::exit_now(1);
        }
    }

    /// Whether the policy states its own time of day. The broker then traces programs while they start.
    fn has_clock(&self) -> bool {
        self.answers.as_ref().is_some_and(|answers| answers.start.is_some())
    }

    /// The judge to use when no calls are watched, but the policy asks the user about some.
    fn asked(&self) -> Option<unlearned::Unlearned> {
        let answers = self.answers.as_ref()?;
        let asks = answers.calls.iter().any(|answer| answer.made == replies::Made::Question);
        asks.then(|| unlearned::Unlearned {
            numbers: crate::Numbers::default(),
            fate: unlearned::Fate::Refuse,
            passed: answers.passed,
        })
    }

    fn try_serve(&self, station: Station) -> Result<(), Errno> {
        // The launcher's terminal: what `/dev/tty` means inside.
        let Station { listener, proc, reports, extra: terminal, given, gateway } = station;
        // Older kernels lack this flag. Answers are slower then.
        let _slower_without = listener.wake_synchronously();
        let apart = match palisade_sys::process::own_directory_and_mask() {
            Err(Errno::PERM) => false,
            own => own.map(|()| true)?,
        };
        let shared = Arc::new(Shared {
            listener,
            workers: workers::Workers::default(),
            proc,
            callers: Callers::new(),
            name_policy: NamePolicy::new(self.protected_paths.clone()),
            refusals: refusals::Refusals::new(self.command.clone()),
            order: RwLock::new(()),
            reporter: Reporter::new(reports),
            waiters: waiter::Waiters::default(),
            bound: bound::Bound::default(),
            connections: gateway.map(internet::Connections::new),
            given_names: given_names::GivenNames::default(),
            baselines: config::Baselines::default(),
            being_written: written::BeingWritten::default(),
            umask: self.umask,
            session: self.session,
            in_place: self.in_place,
            apart,
            terminal,
            observer: self.learn.then(observe::Observer::default),
            judge: self.unlearned.clone().or_else(|| self.asked()).map(unlearned::Judge::new),
            programs: self.has_clock().then(clock::programs::Programs::default),
            answerer: self.answers.clone().map(|answers| replies::Replier::new(answers, given)),
        });
        let filter = self.filter.clone();
        let workers = workers::start(&shared, move |shared| {
            shared.own_directory()?;
            palisade_sys::seccomp::install(&filter.program)
        })?;
        palisade_sys::seccomp::install(&self.filter.program)?;
        for worker in workers {
            // `join` can't fail: a panic aborts the process.
            let _ended = worker.join();
        }
        shared.reporter.conclude();
        Ok(())
    }
}

/// One worker thread, with its own working directory (`/proc/self/fd` of the broker) and its own umask.
struct Worker<'s> {
    shared: &'s Arc<Shared>,
    umask: core::cell::Cell<u32>,
    /// What the present call would do to names. Recorded only while a command is being learned.
    operations: core::cell::RefCell<Vec<observe::Done>>,
    /// Directories that are locked for the present call.
    locks: repository::Locks,
    spot: together::Spot,
    judged: walls::Judged,
}

impl Shared {
    /// Prepares the calling thread for work. The thread gets its own working directory (the list of the broker's
    /// descriptors) and its own umask. It shares neither with other threads, if they can be apart.
    fn own_directory(&self) -> Result<(), Errno> {
        if self.apart {
            palisade_sys::process::own_directory_and_mask()?;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptors = rustix::fs::openat(&self.proc, "self/fd", flags, Mode::empty())?;
        rustix::process::fchdir(&descriptors)
    }
}

/// The filter for the broker's own calls: it allows what the broker needs and no more.
///
/// # Errors
/// None: the built-in list is valid.
pub fn own_filter(arch: Arch) -> Result<Filter, crate::Error> {
    filter_of(calls::OWN, arch)
}

/// Like [`own_filter`], for a broker with a clock of its own.
///
/// # Errors
/// None: the built-in lists are valid.
pub fn own_filter_with_clock(arch: Arch) -> Result<Filter, crate::Error> {
    filter_of(&[calls::OWN, calls::WITH_CLOCK].concat(), arch)
}

fn filter_of(calls: &[&str], arch: Arch) -> Result<Filter, crate::Error> {
    let rules = crate::Rules::new(crate::Action::Errno(crate::Errno::EPERM));
    let known: Vec<&str> = calls
        .iter()
        .copied()
        .filter(|name| name.parse::<crate::Syscall>().is_ok_and(|call| call.number(arch).is_some()))
        .collect();
    let mut rules = rules.with(&known, &[])?;
    let tests = crate::Test::new(2, crate::rules::Width::Full, crate::rules::Question::In(vec![0]));
    let asks = crate::Rule {
        action: crate::Action::Allow,
        tests: tests.into_iter().collect(),
        condition: "no new limit".to_owned(),
        reason: "asks for the limits of callers".to_owned(),
    };
    rules.add("prlimit64".parse()?, asks);
    crate::compile(&rules, arch)
}

/// How a call ends.
enum Outcome {
    /// The call returns this value.
    Value(i64),
    /// The caller receives this file.
    File(Given),
    /// The kernel makes the call. Only for calls without pointers in their arguments.
    Continue,
    /// Another thread answers later.
    Later,
}

impl<'s> Worker<'s> {
    /// Call this in a thread that has a working directory and a umask of its own.
    fn new(shared: &'s Arc<Shared>) -> Self {
        if shared.apart {
            let _before = rustix::process::umask(Mode::from_raw_mode(shared.umask));
        }
        Self {
            shared,
            umask: core::cell::Cell::new(shared.umask),
            operations: core::cell::RefCell::default(),
            locks: repository::Locks::default(),
            spot: together::Spot::default(),
            judged: walls::Judged::default(),
        }
    }

    fn answer(&self, call: &palisade_sys::notify::Notification) {
        self.spot.meet(call.thread, self.shared.workers.is_helped());
        self.judged.begin();
        self.place_written();
        // This check comes first: later steps let the kernel make some calls.
        if let Some(errno) = self.shared.refusals.refuse(self, call) {
            return self.conclude(call, Err(errno));
        }
        let outcome = match (&self.shared.answerer, &self.shared.judge) {
            (Some(answerer), _) => answerer.dispatch(self, call),
            (None, Some(judge)) => judge.dispatch(self, call),
            (None, None) => self.make(call),
        };
        if let Err(errno @ (Errno::ROFS | Errno::ACCESS)) = &outcome {
            self.tell_of_kernel(call, *errno);
        }
        self.conclude(call, outcome);
    }

    /// Handles a call the broker's usual way.
    fn make(&self, call: &palisade_sys::notify::Notification) -> Result<Outcome, Errno> {
        match &self.shared.observer {
            None => calls::dispatch(self, call),
            Some(observer) => observer.dispatch(self, call),
        }
    }

    /// Sends the result of the call to the caller.
    fn conclude(&self, call: &palisade_sys::notify::Notification, outcome: Result<Outcome, Errno>) {
        let listener = &self.shared.listener;
        let answer = match outcome {
            Ok(Outcome::Value(value)) => Reply::Value(value),
            Ok(Outcome::Continue) => match &self.shared.programs {
                Some(programs) if crate::group::EXECUTING.contains(&calls::name_of(call)) => {
                    programs.meet(self.shared, call);
                    return self.locks.release();
                }
                _ => Reply::Continue,
            },
            Ok(Outcome::File(given)) => deliver(listener, call.into(), given, Some(&self.spot)),
            Ok(Outcome::Later) => return self.locks.release(),
            Err(errno) => Reply::Error(errno),
        };
        // This fails if the caller was killed meanwhile.
        let _nobody_waits = listener.answer(call.id, answer);
        self.locks.release();
    }
}

/// Identifies a call and the thread that made it.
#[derive(Clone, Copy)]
struct Call {
    id: u64,
    /// The calling thread.
    thread: u32,
}

impl From<&palisade_sys::notify::Notification> for Call {
    fn from(call: &palisade_sys::notify::Notification) -> Self {
        Self { id: call.id, thread: call.thread }
    }
}

/// A file that the broker gives to a caller.
struct Given {
    file: OwnedFd,
    close_on_exec: bool,
    emptied: Emptied,
}

/// Which descriptor empties the file after the caller received it (`O_TRUNC`), if any.
enum Emptied {
    No,
    /// The descriptor that the caller receives.
    Itself,
    /// Another descriptor, because the caller's one isn't open for writing.
    By(OwnedFd),
}

impl Given {
    fn empty(&self) -> Result<(), Errno> {
        let file = match &self.emptied {
            Emptied::No => return Ok(()),
            Emptied::Itself => &self.file,
            Emptied::By(file) => file,
        };
        match rustix::fs::ftruncate(file, 0) {
            // The file has no length (a FIFO, for example). Opening with `O_TRUNC` changes nothing then.
            Err(Errno::INVAL) => Ok(()),
            other => other,
        }
    }
}

/// Gives a file to a caller, or returns the error.
///
/// `SECCOMP_ADDFD_FLAG_SEND` would give the file and answer in one call, 3 µs faster. But the caller would then
/// continue while the broker still has the file open: it couldn't execute a file that it has just written, or
/// wouldn't see the end of a FIFO.
///
/// The file is emptied after the caller received it. Other threads of the caller may have used up the last free
/// descriptor number since the check. If the caller can't receive the file, the file must stay as it was.
///
/// `spot` is the spot of the calling worker, if the calling thread is a worker.
fn deliver(listener: &Listener, call: Call, given: Given, spot: Option<&together::Spot>) -> Reply {
    let number = {
        let _together = spot.map(|spot| spot.share_with(call.thread));
        listener.give(call.id, given.file.as_fd(), given.close_on_exec)
    };
    // Emptying can fail, for example for an append-only file. The caller gets the error; the descriptor number stays
    // in use.
    match number.and_then(|number| given.empty().map(|()| number)) {
        Ok(number) => Reply::Value(number.into()),
        Err(errno) => Reply::Error(errno),
    }
}

#[cfg(test)]
#[path = "broker/decoder_tests.rs"]
mod decoder_tests;
