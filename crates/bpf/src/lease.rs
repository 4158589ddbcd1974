// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A read lease: granted only while no process has the file open for writing. A process that opens it for writing waits
//! until the lease ends.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The libc crate lacks this constant for Linux.
const F_SETSIG: libc::c_int = 10;

/// Ends the lease on drop.
#[derive(Debug)]
pub(crate) struct Lease<'fd> {
    file: BorrowedFd<'fd>,
}

impl<'fd> Lease<'fd> {
    /// Takes the lease; EAGAIN means that a process has the file open for writing.
    ///
    /// The kernel reports a waiting writer by a signal. The default, SIGIO, would end the process, so SIGURG is set
    /// instead, which is ignored by default.
    pub(crate) fn take(file: BorrowedFd<'fd>) -> io::Result<Self> {
        control(file, F_SETSIG, libc::SIGURG)?;
        control(file, libc::F_SETLEASE, libc::F_RDLCK)?;
        Ok(Self { file })
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // Can only fail if there is no lease.
        let _ = control(self.file, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn control(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: needed because rustix has neither command. Sound: both take an integer and touch no memory of ours; the
    // descriptor is open as long as it is borrowed.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
