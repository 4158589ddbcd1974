// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PID 1 of a sandbox: makes the network namespace, reaps, and dies with its owner.
//!
//! It listens to nobody inside. Before the command runs it has given up every capability and its
//! memory can't be read: not dumpable, arguments and environment wiped.

use crate::launch::{Failure, Namespaces, Step};
use crate::operation;
use crate::raw::{self, Fd};
use rustix::io::Errno;

/// What init tells the builder, twice: an errno or 0, and the descriptor it has opened.
///
/// The first is the process file system, the second the network namespace.
type Report = [i32; 2];

/// Runs init on its end of the socket pair.
pub(crate) fn run(namespaces: Namespaces, socket: Fd) -> ! {
    report(socket, operation::proc());
    let network = if namespaces.has(Namespaces::NETWORK) { network() } else { Ok(-1) };
    report(socket, network);
    if retire(socket).is_err() {
        raw::exit(1);
    }
    // Until the owner closes its end, by design or by dying.
    let mut byte = [0u8; 1];
    while !matches!(raw::read(socket, &mut byte), Ok(0)) {}
    raw::exit(0)
}

fn report(socket: Fd, made: Result<Fd, Errno>) {
    let report: Report = match made {
        Ok(fd) => [0, fd],
        Err(errno) => [errno.raw_os_error(), -1],
    };
    let written = raw::write(socket, report.map(i32::to_ne_bytes).as_flattened());
    if made.is_err() || written.is_err() {
        raw::exit(1);
    }
}

/// In the builder: what init reports next.
pub(crate) fn await_report(socket: Fd, step: Step) -> Result<Fd, Failure> {
    let mut bytes = [[0u8; 4]; 2];
    // The length of a report: a message is read whole or, when init has died, not at all.
    let received = raw::read(socket, bytes.as_flattened_mut());
    let [errno, fd]: Report = bytes.map(i32::from_ne_bytes);
    match received {
        Ok(8) if errno == 0 => Ok(fd),
        Ok(8) => Err(Failure { step, errno: Errno::from_raw_os_error(errno) }),
        Ok(_ended) => Err(Failure { step: Step::Init, errno: Errno::CHILD }),
        Err(errno) => Err(Failure { step: Step::Init, errno }),
    }
}

/// Makes the network namespace and hands out a descriptor of it.
fn network() -> Result<Fd, Errno> {
    raw::unshare(libc::CLONE_NEWNET)?;
    raw::loopback_up()?;
    raw::open(c"/proc/self/ns/net", libc::O_RDONLY)
}

/// Gives up everything that init doesn't need for waiting.
fn retire(socket: Fd) -> Result<(), Errno> {
    // Children whose end nobody waits for are reaped by the kernel, without a wake-up here.
    raw::ignore(libc::SIGCHLD)?;
    raw::prctl(libc::PR_SET_NAME, c"palisade-init".as_ptr() as usize, 0)?;
    raw::prctl(libc::PR_SET_DUMPABLE, 0, 0)?;
    crate::process::wipe_arguments_and_environment();
    // The table was shared with builder and launcher; theirs stays as it is.
    let socket = socket.unsigned_abs();
    if socket > 0 {
        raw::close_range(0, socket - 1, libc::CLOSE_RANGE_UNSHARE)?;
    }
    raw::close_range(socket + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    raw::drop_capabilities()
}
