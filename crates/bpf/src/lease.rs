// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A read lease: had only while nobody has the file open for writing, and whoever wants to waits for its end.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Not in the libc crate's Linux constants.
const F_SETSIG: libc::c_int = 10;

/// Given back on drop.
#[derive(Debug)]
pub(crate) struct Lease<'fd> {
    file: BorrowedFd<'fd>,
}

impl<'fd> Lease<'fd> {
    /// Takes it; EAGAIN says that somebody writes.
    ///
    /// The kernel announces a waiting writer by a signal, SIGIO by default, which would end the process: SIGURG is
    /// set in its place, which nothing happens of.
    pub(crate) fn take(file: BorrowedFd<'fd>) -> io::Result<Self> {
        control(file, F_SETSIG, libc::SIGURG)?;
        control(file, libc::F_SETLEASE, libc::F_RDLCK)?;
        Ok(Self { file })
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // It can only fail where there is none.
        let _ = control(self.file, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn control(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: needed because rustix has neither command. Both take an integer and touch no memory of ours; the
    // descriptor is open as long as it is borrowed.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
