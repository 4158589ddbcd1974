// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PID 1 of a sandbox: makes the dear namespaces meanwhile, reaps, and dies with its owner.
//!
//! It shares the launcher's memory, which saves a fork's copy, and listens to nobody inside.
//! Before the command runs it has given up every capability, and the memory can't be read from
//! inside: it isn't dumpable.

use crate::launch::{Failure, Identity, Launch, Namespaces, Step};
use crate::operation::{self, Operation};
use crate::raw::{self, Fd, Result};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::io::Errno;

/// One thing that one process waits for another to have done.
///
/// Zero: not yet. Otherwise the result: a small number plus one, or an errno with the top bit.
#[derive(Debug, Default)]
pub(crate) struct Event(AtomicU32);

const FAILED: u32 = 1 << 31;

impl Event {
    /// Reports a result and wakes who waits for it. Nothing of `self` is touched once it is
    /// visible but by the kernel, which only compares addresses.
    pub(crate) fn report(&self, result: Result<u32>) {
        let word = match result {
            Ok(value) => value + 1,
            Err(errno) => FAILED | errno.raw_os_error().unsigned_abs(),
        };
        self.0.store(word, Ordering::Release);
        raw::futex_wake(&self.0);
    }

    /// Waits. `lost` is asked every 10 ms whether the other side can't report any more.
    pub(crate) fn wait(&self, lost: impl Fn() -> bool) -> Result<u32> {
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & FAILED != 0 {
                let errno = i32::try_from(word & !FAILED).unwrap_or(libc::EIO);
                return Err(Errno::from_raw_os_error(errno));
            }
            if word != 0 {
                return Ok(word - 1);
            }
            if raw::futex_wait(&self.0, 0) == Err(Errno::TIMEDOUT)
                && lost()
                && self.0.load(Ordering::Acquire) == 0
            {
                return Err(Errno::CHILD);
            }
        }
    }
}

/// Where launcher, builder and init meet.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    /// By the launcher: the maps are written.
    pub(crate) maps: Event,
    /// By the launcher: the trees it had to provide are ready.
    pub(crate) trees: Event,
    /// By init: the descriptor of the process file system.
    pub(crate) proc: Event,
    /// By init: its namespaces stand, it is harmless.
    pub(crate) ready: Event,
}

/// What init is given. It may not be touched after [`Meeting::ready`] is reported.
pub(crate) struct Assignment<'a> {
    pub(crate) launch: &'a Launch<'a>,
    pub(crate) meeting: &'a Meeting,
    /// Init's end of the socket pair.
    pub(crate) socket: Fd,
    /// The launcher's process id.
    pub(crate) owner: i32,
    /// A descriptor of the launcher, where init has to wait for it.
    pub(crate) owner_descriptor: Fd,
}

/// The namespaces that init makes while the builder builds. Not that of IPC: message queues are mounted by who is in it.
pub(crate) const BY_INIT: i32 = libc::CLONE_NEWNET | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;

/// Runs init.
///
/// # Safety
/// `argument` points to an [`Assignment`] that lives until `ready` is reported.
pub(crate) unsafe extern "C" fn run(argument: *mut c_void) -> ! {
    // SAFETY: needed because clone passes one pointer. Sound by the caller's promise.
    let assignment = unsafe { &*argument.cast::<Assignment<'_>>() };
    let socket = assignment.socket;
    let prepared = prepare(assignment);
    let failed = prepared.is_err();
    assignment.meeting.ready.report(prepared.map(|()| 0));
    if failed {
        raw::exit(1);
    }
    // Until the owner closes its end, by design or by dying.
    let mut byte = [0u8; 1];
    loop {
        match raw::read(socket, &mut byte) {
            Ok(0) => raw::exit(0),
            Ok(_) => give_socket(socket, byte[0]),
            Err(_interrupted) => {}
        }
    }
}

/// What the owner writes to be given a socket of the network inside.
pub(crate) const SOCKET_V4: u8 = b'4';
/// The same for IPv6.
pub(crate) const SOCKET_V6: u8 = b'6';

/// A socket made here belongs to this network for good, whoever uses it. What can't be made isn't answered by a
/// descriptor.
fn give_socket(owner: Fd, wanted: u8) {
    let family = match wanted {
        SOCKET_V4 => libc::AF_INET,
        SOCKET_V6 => libc::AF_INET6,
        _ => return,
    };
    let given = raw::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK).and_then(|made| {
        let sent = raw::send_descriptor(owner, wanted, made);
        raw::close(made).and(sent)
    });
    if given.is_err() {
        let _owner_has_ended = raw::write(owner, &[0]);
    }
}

fn prepare(assignment: &Assignment<'_>) -> Result<()> {
    let Assignment { launch, meeting, socket, owner_descriptor, .. } = *assignment;
    die_with_parent()?;
    // Not for nothing: once the builder has left the host's tree the kernel wouldn't let it be made any more.
    if launch.operations.iter().any(|operation| matches!(operation, Operation::Proc { .. })) {
        let proc = operation::proc();
        meeting.proc.report(proc.map(i32::unsigned_abs));
        proc?;
    }
    raw::unshare(launch.namespaces.0 & BY_INIT)?;
    if launch.namespaces.has(Namespaces::NETWORK) {
        raw::loopback_up()?;
    }
    if let Some(network) = launch.network {
        network.make()?;
    }
    if !launch.hostname.is_empty() {
        raw::sethostname(launch.hostname)?;
    }
    // Children whose end nobody waits for are reaped by the kernel, without a wake-up here.
    raw::ignore(libc::SIGCHLD)?;
    raw::prctl(libc::PR_SET_NAME, c"palisade-init".as_ptr() as usize, 0)?;
    if let Identity::Mapped { uid, gid, .. } = launch.identity {
        // Its parent's process id tells init nothing: seen from inside it is 0.
        meeting.maps.wait(|| raw::has_ended(owner_descriptor))?;
        raw::clear_groups()?;
        raw::setresgid(gid)?;
        raw::setresuid(uid)?;
        die_with_parent()?;
    }
    raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    raw::drop_capabilities()?;
    // The table was shared with builder and launcher; theirs stays as it is. What is theirs to
    // close must not live on here, least of all their end of the socket pair.
    let socket = socket.unsigned_abs();
    if socket > 0 {
        raw::close_range(0, socket - 1, libc::CLOSE_RANGE_UNSHARE)?;
    }
    raw::close_range(socket + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)
}

/// Asks the kernel for death with the launcher, in case that comes before it is the only one to
/// hold its end of the socket pair. A change of user takes the request back (prctl(2)).
pub(crate) fn die_with_parent() -> Result<()> {
    raw::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL.unsigned_abs() as usize, 0).map(drop)
}

/// In the builder: waits for init to have done something.
pub(crate) fn await_init(event: &Event, init: Fd, step: Step) -> core::result::Result<u32, Failure> {
    event.wait(|| raw::has_ended(init)).map_err(|errno| Failure { step, errno })
}
