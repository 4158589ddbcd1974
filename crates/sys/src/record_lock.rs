// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks on bytes of a file that the kernel takes back when their holder dies (`F_OFD_SETLK` of `fcntl(2)`).
//!
//! A lock belongs to an open file description, not to a process. A lock of the other kind belongs to a process, and
//! each `close` of the file by that process ends it. A process that inherits a descriptor of the description holds
//! the lock, too. The lock ends when the last of these descriptors is closed. The locked bytes need not exist.

use crate::raw;
use rustix::io::{Errno, Result};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Some C libraries that the libc crate describes don't have it.
const F_OFD_GETLK: usize = 36;
const F_OFD_SETLK: usize = 37;

/// Locks the bytes for this description alone, if no other description has a lock on any of them; returns whether it
/// did. The file must be open for writing.
///
/// # Errors
/// As `fcntl(2)`: `EBADF`, `EINVAL` where the file system has no locks, `ENOLCK`.
pub fn take(file: BorrowedFd<'_>, bytes: Range<u64>) -> Result<bool> {
    match call(file, F_OFD_SETLK, &mut request(libc::F_WRLCK, bytes)?) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Gives back what this description holds of the bytes.
///
/// # Errors
/// As `fcntl(2)`.
pub fn give_back(file: BorrowedFd<'_>, bytes: Range<u64>) -> Result<()> {
    call(file, F_OFD_SETLK, &mut request(libc::F_UNLCK, bytes)?)
}

/// Whether another description has a lock on any of the bytes. The file may be open for reading alone.
///
/// # Errors
/// As `fcntl(2)`.
pub fn is_taken(file: BorrowedFd<'_>, bytes: Range<u64>) -> Result<bool> {
    let mut request = request(libc::F_WRLCK, bytes)?;
    call(file, F_OFD_GETLK, &mut request)?;
    Ok(i32::from(request.l_type) != libc::F_UNLCK)
}

fn request(kind: i32, bytes: Range<u64>) -> Result<libc::flock> {
    let number = |value: u64| i64::try_from(value).map_err(|_too_large| Errno::OVERFLOW);
    // SAFETY: needed because its padding differs between C libraries. Sound: zeroes are a valid structure.
    let mut request: libc::flock = unsafe { core::mem::zeroed() };
    request.l_type = i16::try_from(kind).map_err(|_too_large| Errno::INVAL)?;
    request.l_start = number(bytes.start)?;
    request.l_len = number(bytes.end.saturating_sub(bytes.start))?;
    if request.l_len == 0 {
        // To the kernel length 0 would mean everything that follows.
        return Err(Errno::INVAL);
    }
    Ok(request)
}

fn call(file: BorrowedFd<'_>, command: usize, request: &mut libc::flock) -> Result<()> {
    let arguments = [raw::arg(file.as_raw_fd()), command, (&raw mut *request) as usize, 0, 0, 0];
    // SAFETY: needed because rustix locks whole files only. Sound: the structure outlives the call, and on 64-bit
    // machines the C library's is the kernel's.
    unsafe { raw::syscall(libc::SYS_fcntl, arguments) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    fn open(path: &std::path::Path) -> File {
        File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }

    #[test]
    fn a_byte_is_held_until_its_description_is_closed() {
        let path = std::env::temp_dir().join(format!("palisade-record-lock-{}", std::process::id()));
        let (holder, other) = (open(&path), open(&path));
        assert_eq!(take(holder.as_fd(), 10..12), Ok(true));
        assert_eq!(take(holder.as_fd(), 10..12), Ok(true), "again by the same");
        assert_eq!(take(other.as_fd(), 11..12), Ok(false));
        assert_eq!(take(other.as_fd(), 12..13), Ok(true));
        assert_eq!(is_taken(other.as_fd(), 0..10), Ok(false));
        assert_eq!(is_taken(other.as_fd(), 0..11), Ok(true));
        assert_eq!(is_taken(File::open(&path).unwrap().as_fd(), 11..12), Ok(true), "also for readers");
        assert_eq!(is_taken(holder.as_fd(), 10..12), Ok(false), "no other's");
        assert_eq!(give_back(holder.as_fd(), 11..12), Ok(()));
        assert_eq!(take(other.as_fd(), 11..12), Ok(true));
        // Closing another descriptor of the file doesn't end the lock.
        drop(open(&path));
        assert_eq!(is_taken(other.as_fd(), 10..11), Ok(true));
        let copy = holder.try_clone().unwrap();
        drop(holder);
        assert_eq!(is_taken(other.as_fd(), 10..11), Ok(true), "a copy is the same description");
        drop(copy);
        assert_eq!(is_taken(other.as_fd(), 10..11), Ok(false));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn bytes_that_no_file_has_can_be_held_and_none_cannot() {
        let path = std::env::temp_dir().join(format!("palisade-record-lock-far-{}", std::process::id()));
        let (holder, other) = (open(&path), open(&path));
        assert_eq!(take(holder.as_fd(), (1 << 62)..(1 << 62) + 1), Ok(true));
        assert_eq!(take(other.as_fd(), (1 << 62)..(1 << 62) + 1), Ok(false));
        assert_eq!(take(other.as_fd(), 5..5), Err(Errno::INVAL));
        assert_eq!(take(other.as_fd(), u64::MAX - 1..u64::MAX), Err(Errno::OVERFLOW));
        std::fs::remove_file(&path).unwrap();
    }
}
