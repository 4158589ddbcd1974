// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Init: process 1 of a sandbox. It makes the expensive namespaces while the builder works, reaps processes, and dies
//! with the launcher.
//!
//! It shares the launcher's memory, which saves a fork's copy. It accepts no request from inside. Before the command
//! runs, init has given up every capability. Its memory can't be read from inside, because it isn't dumpable.

use crate::launch::{Failure, Identity, Launch, Namespaces, Step};
use crate::operation::{self, Operation};
use crate::raw::{self, Fd, Result};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::io::Errno;

/// A step that one process waits for and another process completes.
///
/// Zero: not yet. Otherwise the result: a small number plus one, or an errno with the top bit.
#[derive(Debug, Default)]
pub(crate) struct Event(AtomicU32);

const FAILED: u32 = 1 << 31;

impl Event {
    /// Reports a result and wakes the processes that wait for it. Once the result is visible, only the kernel uses
    /// `self`'s address, and it only compares addresses.
    pub(crate) fn report(&self, result: Result<u32>) {
        let word = match result {
            Ok(value) => value + 1,
            Err(errno) => FAILED | errno.raw_os_error().unsigned_abs(),
        };
        self.0.store(word, Ordering::Release);
        raw::futex_wake(&self.0);
    }

    /// Whether the result is known.
    fn is_reported(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Waits for the result. It calls `lost` every 10 ms, which says whether the other side can't report any more.
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

/// The events by which launcher, builder and init synchronise.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    /// Reported by the launcher: the maps are written.
    pub(crate) maps: Event,
    /// Reported by the launcher: the trees that it had to provide are ready.
    pub(crate) trees: Event,
    /// The number, plus one, of the processor on which the launcher provides the trees. 0: there are none to provide.
    pub(crate) launcher_processor: AtomicU32,
    /// Reported by init: the descriptor of the process file system.
    pub(crate) proc: Event,
    /// Reported by init: its namespaces exist, and it has given up its privileges.
    pub(crate) ready: Event,
}

/// Init's arguments. Init may not touch them after it has reported [`Meeting::ready`].
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

/// The namespaces that init makes while the builder builds. The IPC namespace isn't among them: a mount of message
/// queues shows those of the mounting process, so the builder must be in that namespace.
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
    // At the end, the launcher kills init and ends: freeing the namespaces must not keep the launcher from its processor.
    let _only_slower = raw::let_others_run_first();
    // Waits until the launcher closes its end, deliberately or by dying.
    let mut byte = [0u8; 1];
    loop {
        match raw::read(socket, &mut byte) {
            Ok(0) => raw::exit(0),
            Ok(_) => give_socket(socket, byte[0]),
            Err(_interrupted) => {}
        }
    }
}

/// The byte by which the launcher requests an IPv4 socket of the network inside.
pub(crate) const SOCKET_V4: u8 = b'4';
/// The same for IPv6.
pub(crate) const SOCKET_V6: u8 = b'6';

/// Makes a socket and sends it to `owner`. A socket made here belongs to this network permanently, whichever process
/// uses it. If the socket can't be made, the answer carries no descriptor.
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
    // The builder will wait for the launcher's trees. If init has taken the launcher's processor, the launcher goes first: the
    // namespaces would keep that processor for 0.6 ms.
    let launcher = meeting.launcher_processor.load(Ordering::Relaxed);
    if launcher != 0
        && raw::processor().is_ok_and(|here| here + 1 == launcher)
        && !meeting.trees.is_reported()
    {
        let _only_slower = meeting.trees.wait(|| raw::has_ended(owner_descriptor));
    }
    // Only if a launch needs it. Once the builder has left the host's tree, the kernel would refuse to make it.
    if launch.operations.iter().any(|operation| matches!(operation, Operation::Proc { .. })) {
        let proc = operation::proc();
        meeting.proc.report(proc.map(i32::unsigned_abs));
        proc?;
    }
    raw::unshare(launch.namespaces.0 & BY_INIT)?;
    match launch.network {
        Some(network) => network.make()?,
        None if launch.namespaces.has(Namespaces::NETWORK) => raw::loopback_up()?,
        None => {}
    }
    if !launch.hostname.is_empty() {
        raw::sethostname(launch.hostname)?;
    }
    // The kernel reaps orphaned children, without a wake-up of init.
    raw::ignore(libc::SIGCHLD)?;
    raw::prctl(libc::PR_SET_NAME, c"palisade-init".as_ptr() as usize, 0)?;
    if let Identity::Mapped { uid, gid, .. } = launch.identity {
        // Init can't check its parent's process id: seen from inside it is 0.
        meeting.maps.wait(|| raw::has_ended(owner_descriptor))?;
        raw::clear_groups()?;
        raw::setresgid(gid)?;
        raw::setresuid(uid)?;
        die_with_parent()?;
    }
    raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    raw::drop_capabilities()?;
    // Init shared the descriptor table with builder and launcher. Their table stays as it is. Their descriptors must
    // not stay open in init, above all the launcher's end of the socket pair.
    let socket = socket.unsigned_abs();
    if socket > 0 {
        raw::close_range(0, socket - 1, libc::CLOSE_RANGE_UNSHARE)?;
    }
    raw::close_range(socket + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)
}

/// Asks the kernel to kill this process when the launcher dies. The launcher may die before it is the only process
/// that holds its end of the socket pair. A change of user cancels the request (prctl(2)).
pub(crate) fn die_with_parent() -> Result<()> {
    raw::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL.unsigned_abs() as usize, 0).map(drop)
}

/// In the builder: waits for a step of init.
pub(crate) fn await_init(event: &Event, init: Fd, step: Step) -> core::result::Result<u32, Failure> {
    event.wait(|| raw::has_ended(init)).map_err(|errno| Failure { step, errno })
}
