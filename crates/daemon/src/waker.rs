// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a thread waits that has nothing to do: a self-pipe wakes it, to which signals and other threads write.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One thread waits; every other one, and signals, may wake it.
#[derive(Debug)]
pub(crate) struct Waker {
    write: UnixStream,
    read: UnixStream,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let (write, read) = UnixStream::pair()?;
        write.set_nonblocking(true)?;
        read.set_nonblocking(true)?;
        Ok(Self { write, read })
    }

    /// Wakes the thread that waits, or has its next wait end at once.
    pub(crate) fn wake(&self) {
        // A full socket wakes it already.
        let _woken = rustix::net::send(&self.write, &[0], rustix::net::SendFlags::NOSIGNAL);
    }

    /// Wakes at each signal of this number, after what was registered for it before.
    pub(crate) fn wake_at(&self, signal: i32) -> io::Result<()> {
        signal_hook::low_level::pipe::register(signal, self.write.try_clone()?).map(drop)
    }

    /// Waits until it is woken, or the time is over.
    pub(crate) fn wait(&self, patience: Option<Duration>) {
        let patience = patience.map(|patience| Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        // An interruption is a reason to look, too.
        let _woken = poll(&mut [PollFd::new(&self.read, PollFlags::IN)], patience.as_ref());
        let mut bytes = [0; 256];
        while matches!(rustix::io::read(&self.read, &mut bytes), Ok(1..) | Err(Errno::INTR)) {}
    }
}
