// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives signals in a form that can be polled.

use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ALL: [i32; 8] = [SIGWINCH, SIGCHLD, SIGCONT, SIGTSTP, SIGTERM, SIGHUP, SIGINT, SIGQUIT];

/// The stream that becomes readable at a signal, and a flag for each signal.
pub(super) struct Signals {
    stream: UnixStream,
    came: [Arc<AtomicBool>; ALL.len()],
}

/// The signals that arrived.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) resized: bool,
    pub(super) child: bool,
    pub(super) continued: bool,
    pub(super) stop: bool,
    pub(super) end: Option<i32>,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let (stream, writer) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let came: [Arc<AtomicBool>; ALL.len()] = core::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
        for (signal, came) in ALL.into_iter().zip(&came) {
            // Set the flag first: the loop that is woken must find it set.
            signal_hook::flag::register(signal, Arc::clone(came))?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        // The child may have ended before the handlers were installed.
        if let Some(came) = came.get(1) {
            came.store(true, Ordering::Relaxed);
        }
        Ok(Self { stream, came })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The signals that arrived since the last call, if there are any.
    pub(super) fn heard(&mut self) -> Option<Heard> {
        if !self.came.iter().any(|came| came.load(Ordering::Relaxed)) {
            return None;
        }
        let mut bytes = [0; 64];
        while matches!(self.stream.read(&mut bytes), Ok(count) if count == bytes.len()) {}
        let mut heard = Heard::default();
        for (signal, came) in ALL.into_iter().zip(&self.came) {
            if !came.swap(false, Ordering::Relaxed) {
                continue;
            }
            match signal {
                SIGWINCH => heard.resized = true,
                SIGCHLD => heard.child = true,
                SIGCONT => heard.continued = true,
                SIGTSTP => heard.stop = true,
                other => heard.end = Some(other),
            }
        }
        Some(heard)
    }
}
