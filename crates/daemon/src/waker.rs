// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wakes a thread that waits for work: signals and other threads write to its self-pipe.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One thread waits. Every other thread, and signals, may wake it.
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

    /// Wakes the waiting thread, or lets its next wait end at once.
    pub(crate) fn wake(&self) {
        // If the socket is full, the thread is woken already.
        let _woken = rustix::net::send(&self.write, &[0], rustix::net::SendFlags::NOSIGNAL);
    }

    /// Wakes at each signal of this number, after what was registered for that signal before.
    pub(crate) fn wake_at(&self, signal: i32) -> io::Result<()> {
        signal_hook::low_level::pipe::register(signal, self.write.try_clone()?).map(drop)
    }

    /// Waits until the thread is woken, or the time is over.
    pub(crate) fn wait(&self, patience: Option<Duration>) {
        let patience = patience.map(|patience| Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        // After an interruption the caller looks for work, too.
        let _woken = poll(&mut [PollFd::new(&self.read, PollFlags::IN)], patience.as_ref());
        let mut bytes = [0; 256];
        while matches!(rustix::io::read(&self.read, &mut bytes), Ok(1..) | Err(Errno::INTR)) {}
    }
}
