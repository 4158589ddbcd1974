// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out whether any process has a file open for writing (`F_SETLEASE` of `fcntl(2)`).

use crate::raw;
use rustix::io::{Errno, Result};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether no process has the file open for writing at this moment, writable mappings included. The kernel gives a
/// read lease only then. The lease is given back at once. `file` must be open for reading only.
///
/// # Errors
/// `EACCES` without `CAP_LEASE` if another user owns the file; `EINVAL` where the file system has no leases.
pub fn no_writers(file: BorrowedFd<'_>) -> Result<bool> {
    match lease(file, libc::F_RDLCK) {
        Ok(()) => lease(file, libc::F_UNLCK).map(|()| true),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn lease(file: BorrowedFd<'_>, kind: i32) -> Result<()> {
    #[expect(clippy::cast_sign_loss, reason = "a small positive number")]
    let arguments = [raw::arg(file.as_raw_fd()), libc::F_SETLEASE as usize, kind as usize, 0, 0, 0];
    // SAFETY: needed because rustix has no leases. Sound: the call takes numbers.
    unsafe { raw::syscall(libc::SYS_fcntl, arguments) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_writer_is_noticed() -> std::io::Result<()> {
        let path = std::env::temp_dir().join(format!("palisade-lease-{}", std::process::id()));
        let writer = File::create(&path)?;
        let reader = File::open(&path)?;
        assert_eq!(no_writers(reader.as_fd()), Ok(false));
        drop(writer);
        assert_eq!(no_writers(reader.as_fd()), Ok(true));
        std::fs::remove_file(&path)
    }
}
