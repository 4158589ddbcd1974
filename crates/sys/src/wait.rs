// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for a child or for a signal, and sends signals.

use crate::raw;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// How a child changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It exited with this code.
    Exited(i32),
    /// It was ended by this signal.
    Killed(i32),
    /// It was stopped by this signal.
    Stopped(i32),
    /// It was continued.
    Continued,
}

impl Change {
    fn from_status(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            Self::Exited(libc::WEXITSTATUS(status))
        } else if libc::WIFSTOPPED(status) {
            Self::Stopped(libc::WSTOPSIG(status))
        } else if libc::WIFCONTINUED(status) {
            Self::Continued
        } else {
            Self::Killed(libc::WTERMSIG(status))
        }
    }
}

fn wait4(pid: i32, options: i32) -> Result<Option<Change>, Errno> {
    let mut status = 0i32;
    // SAFETY: needed because rustix reports less than job control needs. Sound: the kernel writes
    // one int to `status`.
    let returned = unsafe {
        raw::syscall(libc::SYS_wait4, [raw::arg(pid), &raw mut status as usize, raw::arg(options), 0, 0, 0])
    }?;
    Ok((returned != 0).then(|| Change::from_status(status)))
}

/// Waits until `pid` has ended.
///
/// # Errors
/// `ECHILD` if it isn't a child of the caller.
pub fn blocking(pid: i32) -> Result<Change, Errno> {
    loop {
        match wait4(pid, 0) {
            Ok(Some(change)) => return Ok(change),
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Waits until any child has ended; returns its number, too.
///
/// # Errors
/// `ECHILD` if there is none, `EINTR` if a signal came.
pub fn any() -> Result<(i32, Change), Errno> {
    let mut status = 0i32;
    // SAFETY: needed because rustix reports less. Sound: the kernel writes one int to `status`.
    let pid = unsafe { raw::syscall(libc::SYS_wait4, [raw::arg(-1), &raw mut status as usize, 0, 0, 0, 0]) }?;
    Ok((i32::try_from(pid).unwrap_or(0), Change::from_status(status)))
}

/// A child that has changed since the last call, stops included; `None`: no other child has.
///
/// # Errors
/// `ECHILD` if the caller has no child.
pub(crate) fn poll_any() -> Result<Option<(i32, Change)>, Errno> {
    let mut status = 0i32;
    let options = libc::WNOHANG | libc::WUNTRACED;
    // SAFETY: needed because rustix reports less. Sound: the kernel writes one int to `status`.
    let pid = unsafe {
        raw::syscall(libc::SYS_wait4, [raw::arg(-1), &raw mut status as usize, raw::arg(options), 0, 0, 0])
    }?;
    Ok((pid != 0).then(|| (i32::try_from(pid).unwrap_or(0), Change::from_status(status))))
}

/// What happened to `pid` since the last call, stops and continuations included.
///
/// # Errors
/// `ECHILD` if it isn't a child of the caller.
pub fn poll(pid: i32) -> Result<Option<Change>, Errno> {
    wait4(pid, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED)
}

/// A signal taken from the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// It was sent by the kernel (a key on the terminal, a dying child), not by a process.
    pub by_kernel: bool,
    /// This process sent it itself, with kill(2).
    pub by_itself: bool,
}

/// Blocks every signal that can be blocked, and restores the default action of `SIGCHLD`, so that a child's end
/// raises it. Returns the previous mask.
///
/// A launcher that was started with `SIGCHLD` ignored would neither be told of its command's end nor learn how it
/// ended.
///
/// # Errors
/// None the kernel is known to give.
pub fn block_all_signals() -> Result<u64, Errno> {
    raw::restore_default(libc::SIGCHLD)?;
    let all = u64::MAX;
    let mut before = 0u64;
    // SAFETY: needed for a call rustix lacks. Sound: the kernel reads and writes one mask each.
    unsafe {
        raw::syscall(
            libc::SYS_rt_sigprocmask,
            [
                usize::try_from(libc::SIG_SETMASK).unwrap_or(2),
                &raw const all as usize,
                &raw mut before as usize,
                size_of::<u64>(),
                0,
                0,
            ],
        )
    }?;
    Ok(before)
}

/// The mask of blocked signals.
///
/// # Errors
/// None the kernel is known to give.
pub fn signal_mask() -> Result<u64, Errno> {
    let mut mask = 0u64;
    let how = usize::try_from(libc::SIG_BLOCK).unwrap_or(0);
    // SAFETY: needed for a call rustix lacks. Sound: without a set the kernel only writes one mask.
    unsafe {
        raw::syscall(libc::SYS_rt_sigprocmask, [how, 0, &raw mut mask as usize, size_of::<u64>(), 0, 0])
    }?;
    Ok(mask)
}

/// Sets the mask of blocked signals.
///
/// # Errors
/// None the kernel is known to give.
pub fn set_signal_mask(mask: u64) -> Result<(), Errno> {
    raw::set_signal_mask(mask)
}

/// A descriptor that is readable while a blocked signal is pending. [`next_signal_within`] takes the signal.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`.
pub(crate) fn pending_signals() -> Result<OwnedFd, Errno> {
    let all = u64::MAX;
    let flags = raw::arg(libc::SFD_CLOEXEC);
    let arguments = [raw::arg(-1), &raw const all as usize, size_of::<u64>(), flags, 0, 0];
    // SAFETY: needed because rustix has no signalfd(2). Sound: the kernel reads one mask.
    let made = unsafe { raw::syscall(libc::SYS_signalfd4, arguments) }?;
    let made = i32::try_from(made).map_err(|_too_large| Errno::BADF)?;
    // SAFETY: needed to own it. Sound: it was made in this moment.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// Takes the next pending signal, waiting for one.
///
/// # Errors
/// `EINTR` when a stopped process continues: call again.
pub fn next_signal() -> Result<Signal, Errno> {
    take_signal(core::ptr::null())
}

/// As [`next_signal`], for at most `patience`; `EAGAIN` when the time is over.
///
/// # Errors
/// `EAGAIN`; `EINTR` as for [`next_signal`].
pub fn next_signal_within(patience: core::time::Duration) -> Result<Signal, Errno> {
    let patience = libc::timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    take_signal(&raw const patience)
}

/// `patience`: null, or points to a time to wait at most.
fn take_signal(patience: *const libc::timespec) -> Result<Signal, Errno> {
    let all = u64::MAX;
    let mut information = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: needed for a call rustix lacks. Sound: the kernel reads one mask and, unless the pointer is null, the
    // time of a caller in this module, and writes one siginfo_t.
    let number = unsafe {
        raw::syscall(
            libc::SYS_rt_sigtimedwait,
            [
                &raw const all as usize,
                information.as_mut_ptr() as usize,
                patience as usize,
                size_of::<u64>(),
                0,
                0,
            ],
        )
    }?;
    // SAFETY: needed to read it. Sound: all-zero bytes are a valid siginfo_t, and the kernel has
    // filled it in.
    let information = unsafe { information.assume_init() };
    // SAFETY: needed because libc keeps the field in a union. Sound: kill(2) has set it, and all bytes are initialised.
    let by_itself = information.si_code == libc::SI_USER
        && unsafe { information.si_pid() } == std::process::id().cast_signed();
    Ok(Signal { number: i32::try_from(number).unwrap_or(0), by_kernel: information.si_code > 0, by_itself })
}

/// The signal that [`signal_when_readable`] asks for. A process that no longer waits for it ignores it by default.
pub const READABLE: i32 = libc::SIGURG;

/// Has the kernel send [`READABLE`] to this process whenever data arrives at `socket`, so that a caller that waits
/// for signals needs no other wait.
///
/// # Errors
/// None the kernel is known to give for sockets.
pub fn signal_when_readable(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // `fcntl.h`; the libc crate has it for some targets only.
    const F_SETSIG: i32 = 10;
    let set = |command: i32, value: i32| {
        let arguments = [raw::arg(socket.as_raw_fd()), raw::arg(command), raw::arg(value), 0, 0, 0];
        // SAFETY: needed because rustix has no F_SETOWN. Sound: these commands take numbers.
        unsafe { raw::syscall(libc::SYS_fcntl, arguments) }
    };
    set(libc::F_SETOWN, raw::getpid())?;
    set(F_SETSIG, READABLE)?;
    set(libc::F_SETFL, libc::O_ASYNC | libc::O_RDWR | libc::O_NONBLOCK).map(drop)
}

/// Cancels [`signal_when_readable`]: other code reads the socket from now on.
///
/// # Errors
/// None the kernel is known to give for sockets.
pub fn no_signal_when_readable(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(socket, flags)
}

/// Sends `signal` to a process, or to a group if `pid` is negative.
///
/// # Errors
/// `ESRCH` if it is gone, `EPERM` if it isn't the caller's.
pub fn send(pid: i32, signal: i32) -> Result<(), Errno> {
    raw::kill(pid, signal)
}

/// Raises `signal` with its default action in this process: used to end or stop as the command did.
///
/// # Errors
/// None the kernel is known to give.
pub fn raise_default(signal: i32) -> Result<(), Errno> {
    // SIGSTOP has no other action, and the kernel refuses to set one.
    if signal != libc::SIGSTOP {
        raw::restore_default(signal)?;
    }
    raw::kill(raw::getpid(), signal)?;
    let mask = !(1u64 << (signal - 1));
    raw::set_signal_mask(mask)?;
    raw::set_signal_mask(u64::MAX)
}
