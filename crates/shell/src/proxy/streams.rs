// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes bytes to the shell and to the terminal. Neither write blocks.

use super::Stream;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The number of bytes of keys that are kept for a shell that doesn't read. After that, no more keys are read.
const MOST: usize = 64 << 10;

/// Writes as much as is possible at once. Returns how much.
fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::write(fd, rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            // The reading side is gone: our next read reports that.
            Err(_) => return bytes.len(),
        }
    }
    done
}

/// The shell's side of the pseudo-terminal.
pub(super) struct Keyboard {
    outer: OwnedFd,
    waiting: Vec<u8>,
}

impl Keyboard {
    pub(super) fn of(outer: OwnedFd) -> Self {
        // If this fails, writes may block.
        let _set = rustix::io::ioctl_fionbio(&outer, true);
        Self { outer, waiting: Vec::with_capacity(4096) }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.outer.as_fd()
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    pub(super) fn flush(&mut self) {
        if !self.waiting.is_empty() {
            let done = write(self.outer.as_fd(), &self.waiting);
            self.waiting.drain(..done);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST
    }
}

/// The terminal.
pub(super) struct Screen<'a> {
    stream: Stream,
    /// The same terminal, opened again in non-blocking mode. Changing the mode of the inherited stream would change it
    /// for every process that shares it.
    own: Option<OwnedFd>,
    waiting: Vec<u8>,
    _life: core::marker::PhantomData<&'a ()>,
}

/// Smaller pieces are collected before they are written.
const SMALL: usize = 1024;

impl Screen<'_> {
    pub(super) fn of(stream: Stream) -> Self {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let own = rustix::fs::open("/proc/self/fd/1", flags, Mode::empty()).ok();
        Self { stream, own, waiting: Vec::with_capacity(64 << 10), _life: core::marker::PhantomData }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.own.as_ref().map_or(self.stream, |own| own.as_fd())
    }

    /// Writes bytes now. If earlier bytes still wait, or if the piece is small, writes them soon.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        if self.waiting.is_empty() && bytes.len() >= SMALL {
            let done = write(self.fd(), bytes);
            self.waiting.extend_from_slice(bytes.get(done..).unwrap_or_default());
        } else {
            self.waiting.extend_from_slice(bytes);
        }
    }

    pub(super) fn flush(&mut self) {
        if !self.waiting.is_empty() {
            let done = write(self.fd(), &self.waiting);
            self.waiting.drain(..done);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes the remaining bytes, and waits up to a second if it must.
    pub(super) fn finish(&mut self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
        for _ in 0..64 {
            self.flush();
            if self.waiting.is_empty() {
                return;
            }
            let fd = self.fd();
            let mut set = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
            if !matches!(poll(&mut set, Some(&patience)), Ok(1..)) {
                return;
            }
        }
    }
}
