// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread sleeps by that has nothing to do: it is woken by a signal or by another thread, and by nothing else.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One thread waits; everybody may ring.
#[derive(Debug)]
pub(crate) struct Bell {
    rings: UnixStream,
    heard: UnixStream,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let (rings, heard) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        Ok(Self { rings, heard })
    }

    /// Wakes who waits, or who will wait next.
    pub(crate) fn ring(&self) {
        // A full socket has rung already.
        let _rung = rustix::net::send(&self.rings, &[0], rustix::net::SendFlags::NOSIGNAL);
    }

    /// Rings at each signal of this number, after what was registered before.
    pub(crate) fn ring_at(&self, signal: i32) -> io::Result<()> {
        signal_hook::low_level::pipe::register(signal, self.rings.try_clone()?).map(drop)
    }

    /// Waits until it rings, something else has come, or the time is over. Whether the other has come.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, patience: Option<Duration>) -> bool {
        let patience = patience.map(|patience| Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        let bell = PollFd::from_borrowed_fd(self.heard.as_fd(), PollFlags::IN);
        let both = other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN | PollFlags::PRI));
        let mut waited: Vec<PollFd<'_>> = std::iter::once(bell).chain(both).collect();
        // An interruption, too, is a reason to look.
        let _came = poll(&mut waited, patience.as_ref());
        let [rang, other_came] = [0, 1].map(|at| waited.get(at).is_some_and(|one| !one.revents().is_empty()));
        if rang {
            let mut bytes = [0; 256];
            while matches!(rustix::io::read(&self.heard, &mut bytes), Ok(1..) | Err(Errno::INTR)) {}
        }
        other_came
    }
}
