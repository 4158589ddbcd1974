// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting the broker: the process that answers the calls that a command's filter passes on.
//!
//! The builder first makes the broker's *stub*. This process has the command's user, file tree and Landlock domain,
//! but it is outside the command's PID namespace, so no process inside can name it. The stub shares the launcher's
//! memory and sleeps until the filter passes on the first call. Then it forks the broker and waits for its end. The
//! broker has its own copy of the launcher's memory, so it has all data that the launcher had. A command that makes
//! no such call doesn't pay for a broker.
//!
//! When the stub or the broker dies, no process holds the listener, and the kernel answers every such call with an
//! error. So the broker fails closed.

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

/// How many descriptors a broker can have to give to callers.
pub const MOST_GIVEN: usize = 8;

/// The broker of one launch.
#[derive(Debug)]
pub struct Broker(pub(crate) Arc<Setup>);

/// What the stub uses. It is kept until the stub has been reaped.
pub(crate) struct Setup {
    /// The launcher's process id. The stub's parent must have it: a subreaper may adopt orphans, so the parent of an
    /// orphan isn't always process 1.
    owner: i32,
    serve: Box<Serve>,
    proc: OwnedFd,
    reports: OwnedFd,
    extra: Option<OwnedFd>,
    given: Vec<OwnedFd>,
    gateway: Option<OwnedFd>,
    /// `cgroup.procs` of the group that limits the command's memory.
    member: Option<OwnedFd>,
    /// The broker watches programs while they are executed.
    watches: bool,
    /// Reported by the command: the filter's listener, in the descriptor table that builder, stub and launcher share.
    pub(crate) listener: Event,
    /// Reported by the stub: it has its own descriptor table.
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
    /// Makes a broker that runs `serve`. `proc` is the host's `/proc`, a directory. The broker reports to the
    /// launcher through `reports`. `extra` is one more descriptor for `serve`.
    #[must_use]
    pub fn new(serve: Box<Serve>, proc: OwnedFd, reports: OwnedFd, extra: Option<OwnedFd>) -> Self {
        Self::giving(serve, proc, reports, extra, Vec::new())
    }

    /// As [`new`](Self::new), with descriptors that the broker may give to callers: at most [`MOST_GIVEN`]. Further
    /// ones are closed.
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
            gateway: None,
            member,
            watches,
            listener,
            settled,
        }))
    }

    /// The same, for a broker that joins a control group: `member` is its `cgroup.procs`, open for writing. The
    /// command causes the broker's memory use, so it counts for the command's group.
    #[must_use]
    pub fn joining(mut self, member: Option<OwnedFd>) -> Self {
        if let Some(setup) = Arc::get_mut(&mut self.0) {
            setup.member = member;
        }
        self
    }

    /// The same, for a broker that has `gateway` make the command's connections ([`connection`](crate::connection)).
    #[must_use]
    pub fn connecting(mut self, gateway: Option<OwnedFd>) -> Self {
        if let Some(setup) = Arc::get_mut(&mut self.0) {
            setup.gateway = gateway;
        }
        self
    }

    /// The same, for a broker that watches each program when it is executed, the first one included. The broker must
    /// have [seized](crate::tracee::Tracee::seize) the command before the first execution, and no filtered call tells
    /// it of that in time. So the command asks for it by executing the null pointer. The answer is 0, or the error
    /// because of which the broker can't watch.
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

    /// Tells the stub the filter's listener. A negative number: there is no listener.
    pub(crate) fn hand_over(&self, listener: Fd) {
        self.0.listener.report(u32::try_from(listener).map_err(|_none| Errno::BADF));
    }

    /// Names this process, and ends it with its owner.
    pub(crate) fn enter_process(&self, owner: i32) -> raw::Result<()> {
        let _name_is_cosmetic = raw::prctl(libc::PR_SET_NAME, c"palisade-broker".as_ptr() as usize, 0);
        raw::prctl(libc::PR_SET_DUMPABLE, 0, 0)?;
        crate::init::die_with_parent()?;
        if raw::getppid() == owner { Ok(()) } else { Err(Errno::SRCH) }
    }

    /// Gives up every capability but the one to read undumpable processes, if the caller has that one.
    pub(crate) fn keep_capabilities(&self) -> raw::Result<()> {
        raw::keep_capabilities(PTRACE).or_else(|_not_had| raw::keep_capabilities(0))
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

/// What a broker in a process of its own needs, with everything else given up.
pub(crate) struct Stand {
    setup: Arc<Setup>,
    station: Station,
}

impl Stand {
    /// Takes a process's stand: from here on the process has only the broker's descriptors, and `telling`.
    pub(crate) fn take(broker: &Broker, listener: Fd, telling: Fd) -> raw::Result<Self> {
        let setup = &broker.0;
        let mut kept = [-1; KEPT];
        for (place, fd) in kept.iter_mut().zip([listener, telling].into_iter().chain(setup.descriptors())) {
            *place = fd;
        }
        close_all_but(kept)?;
        Ok(Self { setup: Arc::clone(setup), station: setup.station(listener)? })
    }

    /// Where calls arrive.
    pub(crate) fn listener(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.station.listener)
    }

    /// Answers calls until no process is left that could make one.
    pub(crate) fn serve(self) {
        (self.setup.serve)(self.station);
    }
}

impl Setup {
    fn descriptors(&self) -> impl Iterator<Item = Fd> {
        let own = [self.proc.as_raw_fd(), self.reports.as_raw_fd()].into_iter();
        let others = self.extra.iter().chain(&self.member).chain(&self.gateway).chain(&self.given);
        own.chain(others.map(AsRawFd::as_raw_fd))
    }

    /// Joins the command's control group, and gives up the launcher's secrets and streams. To be called once in a copy
    /// of the launcher's memory, in which only the kept descriptors are open.
    fn station(&self, listener: Fd) -> raw::Result<Station> {
        // The kernel checks the rights of the process that opened the file, so this write is permitted. It must
        // happen before memory grows and before there are threads.
        if let Some(member) = &self.member
            && raw::write(member.as_raw_fd(), b"0") != Ok(1)
        {
            return Err(Errno::IO);
        }
        // The launcher's secrets are in this copy of its memory, too.
        // SAFETY: needed to overwrite them. Sound: the fork has memory and one thread of its own, and
        // what is served from here on was prepared without references to the environment.
        unsafe { crate::process::wipe_environment() };
        for stream in 0..3 {
            // The command's tree may have no devices. Then the streams can't be read or written.
            let nothing = raw::open(c"/dev/null", libc::O_RDWR)
                .or_else(|_absent| raw::open(c"/", libc::O_PATH | libc::O_DIRECTORY))?;
            if nothing != stream {
                return Err(Errno::BADF);
            }
        }
        // SAFETY: needed to own what was kept open. Sound: the numbers are open in this process's
        // own table, and this copy of the setup, which owns most of them too, is never dropped.
        let owned = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Station {
            listener: owned(listener).into(),
            proc: owned(self.proc.as_raw_fd()),
            reports: owned(self.reports.as_raw_fd()),
            extra: self.extra.as_ref().map(|extra| owned(extra.as_raw_fd())),
            given: self.given.iter().map(|given| owned(given.as_raw_fd())).collect(),
            gateway: self.gateway.as_ref().map(|gateway| owned(gateway.as_raw_fd())),
        })
    }
}

/// What the broker gets. Its standard streams are `/dev/null`, or give nothing and take nothing.
#[derive(Debug)]
pub struct Station {
    /// The filter's listener.
    pub listener: Listener,
    /// The host's `/proc`.
    pub proc: OwnedFd,
    /// Where to report.
    pub reports: OwnedFd,
    /// One more descriptor. Its meaning is up to the creator of the broker and its `serve` function.
    pub extra: Option<OwnedFd>,
    /// Descriptors that the broker may give to callers.
    pub given: Vec<OwnedFd>,
    /// Makes connections.
    pub gateway: Option<OwnedFd>,
}

/// `CAP_SYS_PTRACE`, over the processes of the sandbox's user namespace. Without it the broker couldn't serve
/// processes that have made themselves undumpable.
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

/// Gives up what the stub doesn't need, and waits for the listener.
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
    for (place, fd) in kept.iter_mut().zip(std::iter::once(listener).chain(setup.descriptors())) {
        *place = fd;
    }
    close_all_but(kept)?;
    Ok(listener)
}

/// How many descriptors the stub keeps open at most.
const KEPT: usize = 7 + MOST_GIVEN;

struct Stub<'s> {
    listener: Fd,
    setup: &'s Setup,
}

impl Stub<'_> {
    /// Waits for the first call, forks the broker and waits for its end.
    fn attend(self) -> ! {
        match raw::poll_in(self.listener) {
            Ok(events) if events & libc::POLLIN != 0 => {}
            // No process is left that could make a call.
            _ => raw::exit(0),
        }
        rest::acquire();
        let stub = raw::getpid();
        // SAFETY: needed for a process with memory of its own in which the C library works. Sound: the launcher
        // rests, so the copied memory is consistent. The launcher is the only other user of the thread-local storage
        // that it shares with the stub.
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

    /// Fails the calls that wait without a broker, as the kernel does when the listener is closed. During the
    /// command's start the launcher has the listener open, too, so the kernel doesn't do it. The launcher waits for
    /// the command then, and the command may be waiting for an answer here.
    fn turn_away(&self) {
        const QUIET: i64 = 100;
        // SAFETY: needed to own what was kept open. Sound: no other code in this process uses its number, which is
        // closed at its end.
        let listener = crate::notify::Listener::from(unsafe { OwnedFd::from_raw_fd(self.listener) });
        while raw::poll_in_within(self.listener, QUIET).is_ok_and(|events| events & libc::POLLIN != 0) {
            if let Ok(call) = listener.receive() {
                let _killed = listener.answer(call.id, crate::notify::Reply::Error(Errno::NOSYS));
            }
        }
    }

    /// The broker's process.
    fn serve(self, stub: i32) -> ! {
        // The lock is held in this copy of memory, and its holder doesn't exist here.
        rest::release();
        let prepared = crate::init::die_with_parent()
            .and_then(|()| leave_terminal())
            .and_then(|()| raw::prctl(libc::PR_SET_NAME, c"palisade-broker".as_ptr() as usize, 0))
            // The copied process may have been dumpable at this moment, see `command::be_watched`.
            .and_then(|_| raw::prctl(libc::PR_SET_DUMPABLE, 0, 0));
        if prepared.is_err() || raw::getppid() != stub {
            raw::exit(1);
        }
        match self.setup.station(self.listener) {
            Ok(station) => (self.setup.serve)(station),
            Err(_errno) => raw::exit(1),
        }
        raw::exit(0)
    }
}

/// Gives up the terminal and leaves the process group. Opening `/dev/tty` in the broker must not mean the user's
/// terminal, and signals to the launcher's group aren't meant for the broker.
///
/// It makes a new session only if there is no other way. The kernel divides processor time among sessions first, and
/// then within each session (`sched_autogroup`). With two sessions every brokered call would wait twice for a
/// processor when processors are busy. That took 2.6 times as long for one thread, and the broker's time wouldn't
/// count as the command's.
fn leave_terminal() -> raw::Result<()> {
    let flags = libc::O_RDONLY | libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let given_up = match raw::open(c"/dev/tty", flags) {
        Ok(terminal) => {
            let given_up = raw::give_up_terminal(terminal);
            let _closed = raw::close(terminal);
            given_up
        }
        // There is no terminal.
        Err(Errno::NXIO) => Ok(()),
        Err(errno) => Err(errno),
    };
    if given_up.is_ok() { raw::setpgid(0, 0) } else { raw::setsid() }
}

/// Gives the process its own descriptor table, with these descriptors only.
fn close_all_but(mut kept: [Fd; KEPT]) -> raw::Result<()> {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept {
        // A negative number is no descriptor.
        let Ok(fd) = u32::try_from(fd) else { continue };
        if fd > first {
            raw::close_range(first, fd - 1, libc::CLOSE_RANGE_UNSHARE)?;
        }
        first = fd + 1;
    }
    raw::close_range(first, u32::MAX, libc::CLOSE_RANGE_UNSHARE)
}
