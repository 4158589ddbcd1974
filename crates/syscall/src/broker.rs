// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The broker: answers the calls that write names.
//!
//! A path in a caller's memory can't be judged in place: the caller can change it between the
//! judgement and the call. So the broker copies it once, resolves it as the caller would, up to
//! the directory that holds the name, judges *that directory's real path and the name*, and makes
//! the call itself on the descriptor of that directory, following nothing. What is judged is what
//! happens.
//!
//! It runs as the command's user, in the command's file tree and Landlock domain
//! (`palisade_sys::launch::Broker`): fooled or compromised, it can do nothing to files that the
//! command couldn't do; what it adds is only refusals.
//!
//! In reading order: [`Server`] (what it is given), `workers` (its workers), `calls` (which call goes where),
//! `caller` (what is read of the caller), `resolve` (from a path to a directory and a name),
//! [`name_policy`] (what is refused) with `operation` (what a rule lets be done) and `way` (what lies above a name) and `walls` (what else refuses), `open` with `how` and `literal`, `tree` with `readable`, `links` (where they lead), `attributes`, `sockets` with `bound` and `send` (the calls themselves), `times`, `modes` (which give rights away), `identity` (what tells a file from a later one),
//! `waiter` with `signals` (calls that wait), `config` (files that may change if the change is harmless) with `written` (by who doesn't rename), `repository` (what git takes for one, whatever its name), `observe` (what is noted while a command
//! is being learned), [`unlearned`] (calls that a profile's programs aren't known to make) with `running` (which program that is), `refusals` (calls that the filter refuses), [`answers`] (what a policy makes up), `clock` (its time of day), [`report`] (what the launcher hears).

mod attributes;
mod bound;
mod caller;
mod calls;
mod clock;
mod config;
mod given_names;
mod how;
mod identity;
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

/// What a broker needs to know of its sandbox; everything owned, because it outlives the launch.
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
    /// Tell the launcher what is used, too: the filter is that of [`Rules::learned`](crate::Rules::learned).
    pub learn: bool,
    /// Calls that are passed on because they weren't learned.
    pub unlearned: Option<unlearned::Unlearned>,
    /// What the policy answers itself.
    pub answers: Option<replies::PolicyReplies>,
}

/// What the workers share.
struct Shared {
    listener: Listener,
    workers: workers::Workers,
    proc: OwnedFd,
    callers: Callers,
    name_policy: NamePolicy,
    refusals: refusals::Refusals,
    /// Held shared while a name is judged and the call made; alone by what moves directories or
    /// replaces files by content, so that no path changes its meaning in between.
    order: RwLock<()>,
    reporter: Reporter,
    waiters: waiter::Waiters,
    bound: bound::Bound,
    given_names: given_names::GivenNames,
    baselines: config::Baselines,
    being_written: written::BeingWritten,
    umask: u32,
    session: u32,
    terminal: Option<OwnedFd>,
    observer: Option<observe::Observer>,
    judge: Option<unlearned::Judge>,
    answerer: Option<replies::Replier>,
    /// Where the time is the policy's.
    programs: Option<clock::programs::Programs>,
}

impl Server {
    /// Answers calls until nobody is left to make one. To be run in the broker's process.
    ///
    /// When it can't begin it returns at once: the listener is closed then, and calls fail.
    pub fn serve(&self, station: Station) {
        if self.try_serve(station).is_err() {
            palisade_sys::process::exit_now(1);
        }
    }

    /// Whether the time is the policy's: programs are watched while they begin then.
    fn has_clock(&self) -> bool {
        self.answers.as_ref().is_some_and(|answers| answers.start.is_some())
    }

    /// Nobody watches calls, but the user is asked about some.
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
        let Station { listener, proc, reports, extra: terminal, given } = station;
        // Older kernels have no such flag.
        let _slower_without = listener.wake_synchronously();
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
            given_names: given_names::GivenNames::default(),
            baselines: config::Baselines::default(),
            being_written: written::BeingWritten::default(),
            umask: self.umask,
            session: self.session,
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
            // Panics abort.
            let _ended = worker.join();
        }
        shared.reporter.conclude();
        Ok(())
    }
}

/// One worker: its own working directory (the descriptors of this process, by number) and mask.
struct Worker<'s> {
    shared: &'s Arc<Shared>,
    umask: core::cell::Cell<u32>,
    /// What the present call would do to names, if somebody wants to know.
    operations: core::cell::RefCell<Vec<observe::Done>>,
    /// Directories that are locked for the present call.
    locks: repository::Locks,
    spot: together::Spot,
    judged: walls::Judged,
}

impl Shared {
    /// Makes the calling thread fit for work: its directory, which it shares with nobody, is the
    /// list of this process's descriptors, and its mask is its own.
    fn own_directory(&self) -> Result<(), Errno> {
        palisade_sys::process::own_directory_and_mask()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptors = rustix::fs::openat(&self.proc, "self/fd", flags, Mode::empty())?;
        rustix::process::fchdir(&descriptors)
    }
}

/// The rules for the broker's own calls: what it needs and no more.
///
/// # Errors
/// None for the built-in list.
pub fn own_filter(arch: Arch) -> Result<Filter, crate::Error> {
    filter_of(calls::OWN, arch)
}

/// The same for a broker with a clock of its own.
///
/// # Errors
/// None for the built-in lists.
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
    /// It returns this.
    Value(i64),
    /// The caller gets this file.
    File(Given),
    /// The kernel makes it: it has no pointers.
    Continue,
    /// Somebody else answers, later.
    Later,
}

impl<'s> Worker<'s> {
    /// In a thread that has a directory and a mask of its own.
    fn new(shared: &'s Arc<Shared>) -> Self {
        let _before = rustix::process::umask(Mode::from_raw_mode(shared.umask));
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
        // Before everything else, some of which lets calls go on.
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

    /// A call goes the broker's usual way.
    fn make(&self, call: &palisade_sys::notify::Notification) -> Result<Outcome, Errno> {
        match &self.shared.observer {
            None => calls::dispatch(self, call),
            Some(observer) => observer.dispatch(self, call),
        }
    }

    /// Tells the caller what came of its call.
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
        // Fails when the caller was killed meanwhile.
        let _nobody_waits = listener.answer(call.id, answer);
        self.locks.release();
    }
}

/// Which call, and whose.
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

/// A file for a caller.
struct Given {
    file: OwnedFd,
    close_on_exec: bool,
    emptied: Emptied,
}

/// By what a file is emptied when it has been given, if it is (`O_TRUNC`).
enum Emptied {
    No,
    /// The file that is given.
    Itself,
    /// Another descriptor: the one that is given isn't for writing.
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
            // It is none that has a length, of which opening changes nothing.
            Err(Errno::INVAL) => Ok(()),
            other => other,
        }
    }
}

/// Gives a caller its file, or says why not.
///
/// Not in one call that also answers (`SECCOMP_ADDFD_FLAG_SEND`), though that takes 3 µs less: the caller would
/// go on while the broker still has the file open, and couldn't execute what it has just written, or wouldn't
/// see the end of a FIFO.
///
/// The file is emptied after it has been given: other threads of the caller's may have taken its last number since it
/// was asked for one, and what the caller can't have must stay as it was.
///
/// `spot` is that of the calling worker, if it is one that answers calls all the time.
fn deliver(listener: &Listener, call: Call, given: Given, spot: Option<&together::Spot>) -> Reply {
    let number = {
        let _together = spot.map(|spot| spot.share_with(call.thread));
        listener.give(call.id, given.file.as_fd(), given.close_on_exec)
    };
    // Refused for a file that can only grow, say, the caller is told so; the number stays taken.
    match number.and_then(|number| given.empty().map(|()| number)) {
        Ok(number) => Reply::Value(number.into()),
        Err(errno) => Reply::Error(errno),
    }
}

#[cfg(test)]
#[path = "broker/decoder_tests.rs"]
mod decoder_tests;
