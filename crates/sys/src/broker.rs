// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who answers the calls that a command's filter passes on.
//!
//! Before the command there is its broker's *stub*: a process with the command's user, file tree
//! and Landlock domain, but outside its PID namespace, so that nothing inside can name it. It
//! shares the launcher's memory and sleeps until the first call is passed on, then forks the
//! broker: a process with memory of its own, which has everything at hand that the launcher had,
//! and whose end its stub sees. A command that never makes such a call never pays for a broker.
//!
//! When either dies the listener has no holder left, and the kernel answers every such call with
//! an error: it fails closed.

use crate::clone::{self, Stack};
use crate::init::Event;
use crate::notify::Listener;
use crate::raw::{self, Fd};
use crate::rest;
use core::ffi::c_void;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// What runs in the broker's process, with signals blocked; the process ends when it returns.
pub type Serve = dyn Fn(Station) + Send + Sync;

/// How many descriptors a broker has to give to callers.
pub const MOST_GIVEN: usize = 8;

/// What a launch needs to have its calls answered. For one launch.
#[derive(Debug)]
pub struct Broker(pub(crate) Arc<Setup>);

/// What the stub uses: kept until it has been reaped.
pub(crate) struct Setup {
    /// The launcher's process id. Whoever it leaves behind may be given to any process, not only to
    /// the system's first.
    owner: i32,
    serve: Box<Serve>,
    proc: OwnedFd,
    reports: OwnedFd,
    extra: Option<OwnedFd>,
    given: Vec<OwnedFd>,
    /// `cgroup.procs` of the group that limits the command's memory.
    member: Option<OwnedFd>,
    /// The broker watches programs begin.
    watches: bool,
    /// By the command: the filter's listener, in the table that builder, stub and launcher share.
    pub(crate) listener: Event,
    /// By the stub: it has a table of its own.
    pub(crate) settled: Event,
}

impl core::fmt::Debug for Setup {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Setup")
            .field("proc", &self.proc)
            .field("reports", &self.reports)
            .finish_non_exhaustive()
    }
}

impl Broker {
    /// A broker that runs `serve`. `proc` is the host's `/proc`, a directory; `reports` is where
    /// the broker reports to the launcher; `extra` is one descriptor more that it has use for.
    #[must_use]
    pub fn new(serve: Box<Serve>, proc: OwnedFd, reports: OwnedFd, extra: Option<OwnedFd>) -> Self {
        Self::giving(serve, proc, reports, extra, Vec::new())
    }

    /// As [`new`](Self::new), with descriptors that callers may be given: at most [`MOST_GIVEN`], further ones are
    /// closed.
    #[must_use]
    pub fn giving(
        serve: Box<Serve>,
        proc: OwnedFd,
        reports: OwnedFd,
        extra: Option<OwnedFd>,
        mut given: Vec<OwnedFd>,
    ) -> Self {
        given.truncate(MOST_GIVEN);
        let (listener, settled) = (Event::default(), Event::default());
        let watches = false;
        let owner = raw::getpid();
        let member = None;
        Self(Arc::new(Setup {
            owner,
            serve,
            proc,
            reports,
            extra,
            given,
            member,
            watches,
            listener,
            settled,
        }))
    }

    /// The same, for a broker that joins a control group: `member` is its `cgroup.procs`, open for writing. What the
    /// broker remembers is the command's doing.
    #[must_use]
    pub fn joining(mut self, member: Option<OwnedFd>) -> Self {
        if let Some(setup) = Arc::get_mut(&mut self.0) {
            setup.member = member;
        }
        self
    }

    /// The same, for a broker that watches programs begin, the first one too. That is no call which it could be told
    /// of in time: it has to have [seized](crate::tracee::Tracee::seize) the command before. So the command asks for
    /// it, by executing the null pointer; the answer is 0, or the error for which nobody watches.
    #[must_use]
    pub fn watching(mut self) -> Self {
        if let Some(setup) = Arc::get_mut(&mut self.0) {
            setup.watches = true;
        }
        self
    }

    pub(crate) fn watches(&self) -> bool {
        self.0.watches
    }

    pub(crate) fn proc(&self) -> Fd {
        self.0.proc.as_raw_fd()
    }

    /// Tells the stub the filter's listener; a negative number: there is none.
    pub(crate) fn hand_over(&self, listener: Fd) {
        self.0.listener.report(u32::try_from(listener).map_err(|_none| Errno::BADF));
    }

    /// Makes the stub, a child of the launcher; `born` gets its pid.
    ///
    /// # Safety
    /// `stack` must stay valid until the stub has been reaped, and so must the setup.
    pub(crate) unsafe fn keep(&self, stack: *mut Stack, born: *mut i32) -> raw::Result<()> {
        let setup: *const Setup = Arc::as_ptr(&self.0);
        // SAFETY: needed to make a process that shares memory. Sound: by the caller's promise, and
        // of the setup both sides only read, but for two events made of atomics. `attend` uses raw
        // calls only, until it forks.
        unsafe {
            clone::sharing_memory_announced(
                libc::CLONE_PARENT | libc::CLONE_FILES,
                stack,
                attend,
                setup.cast_mut().cast(),
                born,
            )
        }
        .map(drop)
    }
}

/// What the broker has to work with. The standard streams are `/dev/null`.
#[derive(Debug)]
pub struct Station {
    /// The filter's listener.
    pub listener: Listener,
    /// The host's `/proc`.
    pub proc: OwnedFd,
    /// Where to report.
    pub reports: OwnedFd,
    /// One descriptor more: what it is for is between who made the broker and what it runs.
    pub extra: Option<OwnedFd>,
    /// Descriptors that callers may be given.
    pub given: Vec<OwnedFd>,
}

/// `CAP_SYS_PTRACE`, over the processes of the sandbox's user namespace: without it those that
/// have made themselves undumpable could make no brokered call.
const PTRACE: u32 = 1 << 19;

/// The stub.
///
/// # Safety
/// `argument` points to a [`Setup`] that outlives the process.
unsafe extern "C" fn attend(argument: *mut c_void) -> ! {
    // SAFETY: needed because clone passes one pointer. Sound by the caller's promise.
    let setup = unsafe { &*argument.cast::<Setup>() };
    let prepared = prepare(setup);
    setup.settled.report(prepared.map(|_listener| 0));
    match prepared {
        Ok(listener) => Stub { listener, setup }.attend(),
        Err(_told) => raw::exit(1),
    }
}

/// Gives up what a stub doesn't need, and waits for the listener.
fn prepare(setup: &Setup) -> raw::Result<Fd> {
    let _name_is_cosmetic = raw::prctl(libc::PR_SET_NAME, c"palisade-stub".as_ptr() as usize, 0);
    crate::init::die_with_parent()?;
    let lost = || raw::getppid() != setup.owner;
    if lost() {
        return Err(Errno::SRCH);
    }
    raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    raw::keep_capabilities(PTRACE)?;
    let listener = setup.listener.wait(lost)?;
    let listener = i32::try_from(listener).unwrap_or(-1);
    let mut kept = [-1; KEPT];
    let own = [listener, setup.proc.as_raw_fd(), setup.reports.as_raw_fd()];
    let others = setup.extra.iter().chain(&setup.member).chain(&setup.given).map(AsRawFd::as_raw_fd);
    for (place, fd) in kept.iter_mut().zip(own.into_iter().chain(others)) {
        *place = fd;
    }
    close_all_but(kept)?;
    Ok(listener)
}

/// What a stub keeps open at most.
const KEPT: usize = 5 + MOST_GIVEN;

struct Stub<'s> {
    listener: Fd,
    setup: &'s Setup,
}

impl Stub<'_> {
    /// Waits for the first call, forks the broker and waits for its end.
    fn attend(self) -> ! {
        match raw::poll_in(self.listener) {
            Ok(events) if events & libc::POLLIN != 0 => {}
            // Nobody is left who could call.
            _ => raw::exit(0),
        }
        rest::acquire();
        let stub = raw::getpid();
        // SAFETY: needed for a process with memory of its own in which the C library works. Sound:
        // the launcher rests, so what is copied is in order, and it is the only other user of the
        // thread-local storage shared with it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            self.serve(stub);
        }
        rest::release();
        // Everything but the listener is closed.
        let number = self.listener.unsigned_abs();
        let _closed = number.checked_sub(1).map(|last| raw::close_range(0, last, 0));
        let _closed = raw::close_range(number + 1, u32::MAX, 0);
        let well = child > 0 && crate::wait::blocking(child) == Ok(crate::wait::Change::Exited(0));
        if !well {
            self.turn_away();
        }
        raw::exit(i32::from(!well))
    }

    /// Fails what nobody answers any more, as the kernel does when the listener is closed: while the command is being
    /// started the launcher has it open, too, and waits for the command, which may be waiting here.
    fn turn_away(&self) {
        const QUIET: i64 = 100;
        // SAFETY: needed to own what was kept open. Sound: nobody else in this process uses its number, which is closed
        // at its end.
        let listener = crate::notify::Listener::from(unsafe { OwnedFd::from_raw_fd(self.listener) });
        while raw::poll_in_within(self.listener, QUIET).is_ok_and(|events| events & libc::POLLIN != 0) {
            if let Ok(call) = listener.receive() {
                let _killed = listener.answer(call.id, crate::notify::Reply::Error(Errno::NOSYS));
            }
        }
    }

    /// The broker's process.
    fn serve(self, stub: i32) -> ! {
        // In this copy of memory the lock is held, by nobody.
        rest::release();
        let prepared = crate::init::die_with_parent()
            .and_then(|()| leave_terminal())
            .and_then(|()| raw::prctl(libc::PR_SET_NAME, c"palisade-broker".as_ptr() as usize, 0))
            // What it was copied from may have been dumpable at this moment, see `command::be_watched`.
            .and_then(|_| raw::prctl(libc::PR_SET_DUMPABLE, 0, 0));
        if prepared.is_err() || raw::getppid() != stub {
            raw::exit(1);
        }
        // By who opened the file it is decided that it may. Before anything grows, and before there are threads.
        if let Some(member) = &self.setup.member
            && raw::write(member.as_raw_fd(), b"0") != Ok(1)
        {
            raw::exit(1);
        }
        // The launcher's secrets are in this copy of its memory, too.
        // SAFETY: needed to overwrite them. Sound: the fork has memory and one thread of its own, and
        // what is served from here on was prepared without references to the environment.
        unsafe { crate::process::wipe_environment() };
        for stream in 0..3 {
            if raw::open(c"/dev/null", libc::O_RDWR) != Ok(stream) {
                raw::exit(1);
            }
        }
        // SAFETY: needed to own what was kept open. Sound: the numbers are open in this process's
        // own table, and this copy of the setup, which owns most of them too, is never dropped.
        let owned = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
        let setup = self.setup;
        let station = Station {
            listener: owned(self.listener).into(),
            proc: owned(setup.proc.as_raw_fd()),
            reports: owned(setup.reports.as_raw_fd()),
            extra: setup.extra.as_ref().map(|extra| owned(extra.as_raw_fd())),
            given: setup.given.iter().map(|given| owned(given.as_raw_fd())).collect(),
        };
        (setup.serve)(station);
        raw::exit(0)
    }
}

/// Gives up the terminal, and leaves the process group: opening `/dev/tty` here must not mean the user's terminal, and what is
/// sent to the launcher's group isn't meant for the broker.
///
/// Not by a session of its own if it can be helped. The kernel shares processors out among sessions, and then within each
/// (`sched_autogroup`): with two of them every brokered call would wait twice for its turn where processors are busy, which took 2.6
/// times as long for one thread, and the broker's time wouldn't count as the command's.
fn leave_terminal() -> raw::Result<()> {
    let flags = libc::O_RDONLY | libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let given_up = match raw::open(c"/dev/tty", flags) {
        Ok(terminal) => {
            let given_up = raw::give_up_terminal(terminal);
            let _closed = raw::close(terminal);
            given_up
        }
        // There is none.
        Err(Errno::NXIO) => Ok(()),
        Err(errno) => Err(errno),
    };
    if given_up.is_ok() { raw::setpgid(0, 0) } else { raw::setsid() }
}

/// Gives the process a table of its own, with these descriptors only.
fn close_all_but(mut kept: [Fd; KEPT]) -> raw::Result<()> {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept {
        // None.
        let Ok(fd) = u32::try_from(fd) else { continue };
        if fd > first {
            raw::close_range(first, fd - 1, libc::CLOSE_RANGE_UNSHARE)?;
        }
        first = fd + 1;
    }
    raw::close_range(first, u32::MAX, libc::CLOSE_RANGE_UNSHARE)
}
