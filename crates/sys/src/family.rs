// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that are copies of this one: a child in namespaces of its own, and becoming another program.
//!
//! A [`crate::launch`] is faster, because its processes share memory, and it prescribes who is the parent of whom.
//! bubblewrap's callers depend on another order: the command is a child of process 1, which is a child of the caller.

use crate::command::StringArray;
use crate::launch::Namespaces;
use crate::raw;
use crate::seccomp::Instruction;
use core::ffi::CStr;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Which of the two processes this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forked {
    /// The new one.
    Child,
    /// The one that made it, with the number of the new one.
    Parent(i32),
}

/// Copies this process; the copy is in new namespaces. Its end raises `SIGCHLD`.
///
/// # Errors
/// As `clone(2)`; `BUSY` if this process has several threads: the copy would have locks whose holders are missing.
pub fn fork(namespaces: Namespaces) -> Result<Forked, Errno> {
    // The kernel refuses to take a thread out of its group, and for the only one does nothing.
    raw::unshare(libc::CLONE_THREAD).map_err(|_several| Errno::BUSY)?;
    let flags = (namespaces.0 | libc::SIGCHLD).unsigned_abs() as usize;
    // SAFETY: needed because rustix can't fork. Sound: without CLONE_VM the child has memory of its own, and as there
    // is no other thread, no lock in it is held.
    match unsafe { raw::syscall(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]) }? {
        0 => Ok(Forked::Child),
        child => i32::try_from(child).map(Forked::Parent).map_err(|_no_pid| Errno::INVAL),
    }
}

/// Becomes the program `path`; returns why it didn't.
#[must_use]
pub fn execute(path: &CStr, arguments: &StringArray<'_>, environment: &StringArray<'_>) -> Errno {
    // SAFETY: needed to execute. Sound: both arrays end in a null pointer by construction and borrow the strings they
    // point to.
    unsafe { raw::exec(path, arguments.as_ptr(), environment.as_ptr()) }
}

/// Makes new namespaces for this process.
///
/// # Errors
/// As `unshare(2)`.
pub fn unshare(namespaces: Namespaces) -> Result<(), Errno> {
    raw::unshare(namespaces.0)
}

/// Enters a namespace; for a PID namespace, children are in it.
///
/// # Errors
/// As `setns(2)`.
pub fn enter(namespace: impl AsFd, kind: Namespaces) -> Result<(), Errno> {
    raw::setns(namespace.as_fd().as_raw_fd(), kind.0)
}

/// Brings the loopback interface of this process's network namespace up.
///
/// # Errors
/// As `socket(2)` and the `ioctl` `SIOCSIFFLAGS`.
pub fn loopback_up() -> Result<(), Errno> {
    raw::loopback_up()
}

/// A filter from its bytes: eight an instruction, in the machine's byte order. `None`: bytes are left over.
#[must_use]
pub fn filter(bytes: &[u8]) -> Option<Vec<Instruction>> {
    let (instructions, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| {
        let instruction = |&[c0, c1, jt, jf, k0, k1, k2, k3]: &[u8; 8]| Instruction {
            code: u16::from_ne_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_ne_bytes([k0, k1, k2, k3]),
        };
        instructions.iter().map(instruction).collect()
    })
}

/// Closes every descriptor from 3 on but these.
///
/// # Errors
/// As `close_range(2)`.
pub fn close_all_but(kept: &mut [i32]) -> Result<(), Errno> {
    kept.sort_unstable();
    let mut first = 3;
    for number in kept.iter().map(|number| number.unsigned_abs()).filter(|number| *number >= 3) {
        if number > first {
            raw::close_range(first, number - 1, 0)?;
        }
        first = first.max(number + 1);
    }
    raw::close_range(first, u32::MAX, 0)
}

/// Restores the default action of a signal.
///
/// # Errors
/// `INVAL` for a signal that has no other.
pub fn restore_default(signal: i32) -> Result<(), Errno> {
    raw::restore_default(signal)
}

/// Reads from a descriptor of the caller's, by its number.
///
/// # Errors
/// As `read(2)`.
pub fn read(number: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    raw::read(number, buffer)
}

/// Writes to a descriptor of the caller's, by its number.
///
/// # Errors
/// As `write(2)`.
pub fn write(number: i32, bytes: &[u8]) -> Result<usize, Errno> {
    raw::write(number, bytes)
}

/// Closes a descriptor of the caller's, by its number. None that Rust code owns may be named.
pub fn close(number: i32) {
    let _wasnt_open = raw::close(number);
}

/// Makes a descriptor that the caller has passed this process's own, by its number, which is closed.
///
/// # Errors
/// `EBADF` if none with that number was left open for this program.
pub fn take(number: i32) -> std::io::Result<OwnedFd> {
    let unsigned = u32::try_from(number).map_err(|_negative| Errno::BADF)?;
    let copy = crate::process::inherited(unsigned)?;
    close(number);
    Ok(copy)
}
