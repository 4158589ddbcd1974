// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files by name: what they are, their permissions, and making and removing them.

use super::{Fd, Result, arg, number, syscall};
use core::ffi::CStr;

/// Opens a file for writing. Makes it if there is none, else empties it.
pub(crate) fn create_or_empty(path: &CStr, mode: u32) -> Result<Fd> {
    let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY | libc::O_CLOEXEC;
    call!(libc::SYS_openat, arg(libc::AT_FDCWD), path.as_ptr(), flags, mode).map(number)
}

pub(crate) fn unlink(path: &CStr) -> Result<()> {
    call!(libc::SYS_unlinkat, arg(libc::AT_FDCWD), path.as_ptr(), 0usize).map(drop)
}

pub(crate) fn chmod(path: &CStr, mode: u32) -> Result<()> {
    call!(libc::SYS_fchmodat, arg(libc::AT_FDCWD), path.as_ptr(), mode).map(drop)
}

pub(crate) fn fchmod(fd: Fd, mode: u32) -> Result<()> {
    call!(libc::SYS_fchmod, arg(fd), mode).map(drop)
}

/// Whether the process may write to `path`, by its real ids.
pub(crate) fn may_write(path: &CStr) -> Result<()> {
    call!(libc::SYS_faccessat, arg(libc::AT_FDCWD), path.as_ptr(), libc::W_OK).map(drop)
}

/// Reads where a symbolic link leads, as far as it fits; returns the length.
pub(crate) fn readlink(path: &CStr, buffer: &mut [u8]) -> Result<usize> {
    call!(libc::SYS_readlinkat, arg(libc::AT_FDCWD), path.as_ptr(), buffer.as_mut_ptr(), buffer.len())
}

/// The type of the file that `path` leads to, one of `S_IF*`.
pub(crate) fn kind(path: &CStr) -> Result<u32> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    call!(libc::SYS_newfstatat, arg(libc::AT_FDCWD), path.as_ptr(), stat.as_mut_ptr(), 0usize)?;
    // SAFETY: needed to read what the kernel wrote. Sound: zeroes are a valid structure of integers.
    Ok(unsafe { stat.assume_init() }.st_mode & libc::S_IFMT)
}
