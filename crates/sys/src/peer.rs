// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process at the other end of a unix socket, as a descriptor. A process number could belong to another process
//! by now.

use crate::raw;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `SO_PEERPIDFD` of `asm-generic/socket.h`: since Linux 6.5.
const PEER: i32 = 77;

/// The process that connected, even if another process has its socket by now.
///
/// # Errors
/// `NOPROTOOPT` on older kernels; `SRCH` if the process is gone.
pub fn process(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let descriptor = raw::option(socket.as_raw_fd(), libc::SOL_SOCKET, PEER)?;
    if descriptor < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: needed because the kernel hands over a number. Sound: the kernel has just made it for this process, and
    // no other code knows the number.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn it_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let Ok(process) = process(one.as_fd()) else { return };
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd())).unwrap();
        assert!(text.lines().any(|line| line == format!("Pid:\t{}", std::process::id())), "{text}");
    }
}
