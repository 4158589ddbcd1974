// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects signals for callers that wait.
//!
//! Once the broker has received a call, only a signal that ends the caller's process interrupts the call. A native
//! call that waits long would also return at any other signal. So the broker checks from time to time whether a
//! signal has come.
//!
//! The kernel handles a restart (`ERESTARTSYS` and similar results) when it delivers a signal to the caller before
//! the caller continues. It does so only if a signal is meant for this thread; otherwise the caller itself would see
//! that number. A signal for the whole process is meant for the first thread that doesn't block it, beginning with
//! the leader (`complete_signal`). If one thread stops, all stop.

use crate::broker::caller::{DecimalBuffer, field};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// How the kernel ends calls that a signal interrupts. This decides whether the call returns or restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Restart {
    /// `ERESTARTSYS`: `EINTR` if there is a handler without `SA_RESTART`.
    UnlessHandled,
    /// `ERESTARTNOHAND`: `EINTR` if there is a handler.
    WithoutHandler,
}

impl Restart {
    pub(crate) fn errno(self) -> Errno {
        Errno::from_raw_os_error(match self {
            Self::UnlessHandled => 512,
            Self::WithoutHandler => 514,
        })
    }
}

/// After this many looks a pending signal counts as this thread's: no other thread has taken it.
const DOUBTS: u32 = 3;
const SIGCHLD: u32 = 17;

/// What earlier looks at a caller showed.
#[derive(Default)]
pub(crate) struct Doubts(u32);

/// What a caller's pending signals mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meant {
    /// No signal for this thread.
    Nothing,
    /// A signal is meant for this thread, or all threads are to stop.
    ForIt,
    /// A signal may be meant for this thread.
    Perhaps,
}

/// The result for a caller, if a signal ends its wait.
pub(crate) fn answer(proc: &OwnedFd, thread: u32, restart: Restart, doubts: &mut Doubts) -> Option<Errno> {
    doubts.answer(look(proc, thread).unwrap_or(Meant::Nothing), restart)
}

impl Doubts {
    fn answer(&mut self, meant: Meant, restart: Restart) -> Option<Errno> {
        match meant {
            Meant::Nothing => {
                self.0 = 0;
                None
            }
            Meant::ForIt => Some(restart.errno()),
            Meant::Perhaps => {
                self.0 += 1;
                // A program with a handler expects EINTR. The kernel's internal restart numbers must not become
                // visible.
                (self.0 >= DOUBTS).then_some(Errno::INTR)
            }
        }
    }
}

/// The signal fields of a `status` file.
struct Status {
    process: u32,
    threads: u32,
    stopped: bool,
    /// The thread's own pending signals, and in `shared` those of its process, without blocked and ignored ones.
    own: u64,
    shared: u64,
    blocked: u64,
}

impl Status {
    fn read(text: &[u8]) -> Option<Self> {
        let set = |name: &[u8]| u64::from_str_radix(field(text, name)?, 16).ok();
        let heard = !(set(b"\nSigBlk:")? | set(b"\nSigIgn:")?);
        Some(Self {
            process: field(text, b"\nTgid:")?.parse().ok()?,
            threads: field(text, b"\nThreads:")?.parse().ok()?,
            stopped: field(text, b"\nState:")?.starts_with('T'),
            own: set(b"\nSigPnd:")? & heard,
            shared: set(b"\nShdPnd:")? & heard,
            blocked: set(b"\nSigBlk:")?,
        })
    }

    fn of(proc: &OwnedFd, thread: u32) -> Option<Self> {
        let mut digits = DecimalBuffer::default();
        let path = [digits.write(thread), b"/status"].concat();
        let file = rustix::fs::openat(proc, &*path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = [0u8; 4096];
        let length = rustix::io::read(&file, &mut text[..]).ok()?;
        Self::read(&text[..length])
    }

    /// Whether a signal is meant for `thread`. `leader` reads the status of its process's first thread.
    fn meant(&self, thread: u32, leader: impl FnOnce() -> Option<Self>) -> Meant {
        if self.own != 0 {
            return Meant::ForIt;
        }
        if thread == self.process || self.threads <= 1 {
            // SIGCHLD is meant for the thread that made the child.
            let only_child = self.threads > 1 && self.shared == 1 << (SIGCHLD - 1);
            return match self.shared {
                0 => Meant::Nothing,
                _ if only_child => Meant::Perhaps,
                _ => Meant::ForIt,
            };
        }
        // The broker can't list a process's threads, but it knows the number of the first one.
        match leader() {
            Some(leader) if leader.stopped => Meant::ForIt,
            Some(leader) if self.shared & !leader.blocked != 0 => Meant::Nothing,
            _ if self.shared != 0 => Meant::Perhaps,
            _ => Meant::Nothing,
        }
    }
}

fn look(proc: &OwnedFd, thread: u32) -> Option<Meant> {
    let status = Status::of(proc, thread)?;
    Some(status.meant(thread, || Status::of(proc, status.process)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(threads: u32, own: u64, shared: u64, blocked: u64, ignored: u64) -> Status {
        let text = format!(
            "Name:\tSigPnd\nState:\tS (sleeping)\nTgid:\t7\nThreads:\t{threads}\nSigQ:\t0/1\nSigPnd:\t{own:016x}\n\
             ShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t0000000000000000\n"
        );
        Status::read(text.as_bytes()).unwrap()
    }

    fn alone(own: u64, shared: u64, blocked: u64, ignored: u64) -> Meant {
        status(1, own, shared, blocked, ignored).meant(7, || None)
    }

    #[test]
    fn signals_that_are_blocked_or_ignored_interrupt_nothing() {
        assert_eq!(alone(0, 0, 0, 0), Meant::Nothing);
        assert_eq!(alone(2, 4, 0, 0), Meant::ForIt);
        assert_eq!(alone(2, 4, 2, 4), Meant::Nothing);
        assert_eq!(alone(0, u64::MAX, 1, 2), Meant::ForIt);
        assert!(Status::read(b"Name:\tx\n").is_none());
    }

    #[test]
    fn one_for_a_process_is_its_leaders_unless_that_blocks_it() {
        let several = |shared| status(2, 0, shared, 0, 0);
        let leader = |blocked| move || Some(status(2, 0, 0, blocked, 0));
        assert_eq!(several(2).meant(7, || None), Meant::ForIt);
        assert_eq!(several(1 << 16).meant(7, || None), Meant::Perhaps);
        assert_eq!(several(2).meant(8, leader(0)), Meant::Nothing);
        assert_eq!(several(2).meant(8, leader(2)), Meant::Perhaps);
        assert_eq!(several(6).meant(8, leader(2)), Meant::Nothing);
        assert_eq!(several(0).meant(8, leader(0)), Meant::Nothing);
        let stopped = Status { stopped: true, ..status(2, 0, 0, 0, 0) };
        assert_eq!(several(0).meant(8, || Some(stopped)), Meant::ForIt);
    }

    #[test]
    fn what_stays_pending_is_nobody_elses() {
        let mut doubts = Doubts::default();
        let mut after = |meant| doubts.answer(meant, Restart::UnlessHandled);
        assert_eq!(
            [Meant::Perhaps, Meant::Nothing, Meant::Perhaps, Meant::Perhaps].map(&mut after),
            [None; 4]
        );
        assert_eq!(after(Meant::Perhaps), Some(Errno::INTR));
        assert_eq!(after(Meant::ForIt), Some(Restart::UnlessHandled.errno()));
    }
}
