// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process itself: its environment, its inherited descriptors, its waits and its end.

use crate::raw;
use core::ffi::{CStr, c_char};
use std::os::fd::{FromRawFd, OwnedFd};

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The environment at exec, without copies.
///
/// Palisade never changes its own environment, so the strings stay where they are.
pub fn environment() -> impl Iterator<Item = &'static CStr> {
    // SAFETY: needed to read the environment without two allocations a variable. Sound: the array
    // ends in a null pointer, and nothing in this program calls setenv or putenv.
    let mut next = unsafe { environ };
    core::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: as above; `next` points into the array or at its null end.
        let string = unsafe { *next };
        if string.is_null() {
            return None;
        }
        // SAFETY: as above: not at the end, so there is a next element.
        next = unsafe { next.add(1) };
        // SAFETY: as above: each element is a C string that lives as long as the process.
        Some(unsafe { CStr::from_ptr(string) })
    })
}

/// Aborts the process at any panic from here on, after its message: nothing may unwind between a fork and an exec.
/// The profiles `release` and `quick` have `panic = "abort"` and don't need it. The profile `dev` unwinds, because cargo
/// builds tests with unwinding and would build every dependency twice otherwise.
pub fn abort_on_panic() {
    #[cfg(panic = "unwind")]
    {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            std::process::abort();
        }));
    }
}

/// Overwrites the values of the environment in place: for a process that answers hostile callers and needs none of
/// them.
///
/// # Safety
/// No other process may share this process's memory, and no code in it may hold a string of [`environment`], because
/// the strings change.
pub(crate) unsafe fn wipe_environment() {
    // SAFETY: needed to reach the strings. Sound: the array ends in a null pointer, see `environment`.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: as above; `next` points into the array or at its null end.
        let string = unsafe { *next };
        if string.is_null() {
            return;
        }
        // SAFETY: as above: a C string, on the stack that the kernel gave the process, which is writable; by the
        // caller's promise no code reads it meanwhile.
        unsafe { core::ptr::write_bytes(string.cast_mut(), 0, CStr::from_ptr(string).count_bytes()) };
        // SAFETY: as above: not at the end, so there is a next element.
        next = unsafe { next.add(1) };
    }
}

/// Gives the calling thread a working directory, root and file mode creation mask of its own,
/// which other threads share by default.
///
/// # Errors
/// `ENOMEM`.
pub fn own_directory_and_mask() -> Result<(), rustix::io::Errno> {
    crate::raw::unshare(libc::CLONE_FS)
}

/// A copy of a descriptor that the parent left open for this program, by its number.
///
/// Descriptors that this program opens itself are close-on-exec, and are refused.
///
/// # Errors
/// `EBADF` when no descriptor with that number was left open.
pub fn inherited(number: u32) -> Result<OwnedFd, rustix::io::Errno> {
    let number = usize::try_from(number).map_err(|_too_large| rustix::io::Errno::BADF)?;
    let call = |command: i32, argument: usize| {
        let command = usize::try_from(command).unwrap_or(0);
        // SAFETY: needed because rustix takes no bare numbers. Sound: flags are read, and a new descriptor is made;
        // no existing descriptor changes.
        unsafe { raw::syscall(libc::SYS_fcntl, [number, command, argument, 0, 0, 0]) }
    };
    if call(libc::F_GETFD, 0)? & 1 != 0 {
        return Err(rustix::io::Errno::BADF);
    }
    let copy = call(libc::F_DUPFD_CLOEXEC, 3)?;
    let copy = i32::try_from(copy).map_err(|_too_large| rustix::io::Errno::BADF)?;
    // SAFETY: needed to own it. Sound: it was made in this moment.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// This process's group, or 0 where the group is of a PID namespace outside its own.
///
/// `rustix::process::getpgrp` requires a number other than 0, which the kernel doesn't guarantee.
#[must_use]
pub fn group() -> i32 {
    crate::raw::getpgid()
}

/// This process's session, or 0 where the session is of a PID namespace outside its own.
#[must_use]
pub fn session() -> i32 {
    crate::raw::getsid()
}

/// Whether this is the terminal that controls this process.
///
/// `rustix::termios::tcgetsid` requires a session other than 0, which the kernel doesn't guarantee.
#[must_use]
pub fn is_controlled_by(terminal: std::os::fd::BorrowedFd<'_>) -> bool {
    crate::raw::terminals_session(std::os::fd::AsRawFd::as_raw_fd(&terminal)).is_ok()
}

/// A thread whose waits another thread may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interruptible(i32);

/// The signal that ends a wait.
const INTERRUPTION: i32 = libc::SIGUSR1;

extern "C" fn do_nothing(_signal: i32) {}

/// Lets the calling thread's waits be ended by [`Interruptible::interrupt`].
///
/// # Errors
/// None the kernel is known to give.
pub fn interruptible() -> Result<Interruptible, rustix::io::Errno> {
    // SAFETY: needed because rustix has no sigaction. Sound: zeroes are a valid structure (no
    // flags: waits aren't begun again), and the handler touches nothing.
    let installed = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let handler: extern "C" fn(i32) = do_nothing;
        action.sa_sigaction = handler as usize;
        libc::sigaction(INTERRUPTION, &raw const action, core::ptr::null_mut())
    };
    if installed != 0 {
        return Err(rustix::io::Errno::INVAL);
    }
    crate::raw::set_signal_mask(!(1u64 << (INTERRUPTION - 1)))?;
    Ok(Interruptible(crate::raw::gettid()))
}

impl Interruptible {
    /// Ends the thread's present wait with `EINTR`.
    ///
    /// # Errors
    /// `ESRCH` when the thread has ended.
    pub fn interrupt(&self) -> Result<(), rustix::io::Errno> {
        crate::raw::tgkill(crate::raw::getpid(), self.0, INTERRUPTION)
    }
}

/// Nanoseconds since the machine's start, including the time in which it slept. The start times of processes use this
/// clock.
///
/// It makes the system call itself: rustix looks for the vDSO first, which takes as long as a hundred of these calls.
#[must_use]
pub fn since_boot() -> u64 {
    crate::raw::since_boot()
}

/// Ends this process at once: nothing registered for its exit runs.
pub fn exit_now(code: i32) -> ! {
    crate::raw::exit(code)
}
