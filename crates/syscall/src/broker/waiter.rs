// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs threads for calls that may wait forever, such as opening a FIFO that no other process has open.

use crate::broker::signals::{self, Doubts, Restart};
use crate::broker::{Call, Shared};
use palisade_sys::notify::Reply;
use palisade_sys::process::{self, Interruptible};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many such calls may wait. More are refused with `EAGAIN`.
const MOST: usize = 256;

/// How often to check whether callers are still there and whether signals have come for them. A check also happens
/// whenever a waiting caller's process ends. Otherwise the deputy of a killed caller would go on waiting, and a later
/// reader of a FIFO would take it for a writer.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The same while a wait is younger than [`SHORT`].
const FIRST_LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const SHORT: Duration = Duration::from_secs(1);

/// What a caller waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A call that signals interrupt.
    Call,
    /// An answer of the user. The caller doesn't know that it waits for one.
    User,
}

/// The threads that wait.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: Mutex<Vec<Arc<Wait>>>,
    news: Condvar,
    looking: AtomicBool,
}

/// A thread (the deputy) that waits in place of a caller.
pub(crate) struct Wait {
    call: Call,
    what: What,
    began: Instant,
    deputy: Interruptible,
    process: OwnedFd,
    /// Why the wait was ended, if it was.
    end: Mutex<(Doubts, Option<Errno>)>,
}

impl Wait {
    /// The answer for the caller. A deputy that was interrupted gets EINTR; the reason for the interruption counts
    /// instead.
    pub(crate) fn answer(&self, answer: Reply) -> Reply {
        let (_doubts, end) = &*self.end();
        match answer {
            Reply::Error(Errno::INTR) => Reply::Error(end.unwrap_or(Errno::INTR)),
            other => other,
        }
    }

    fn end(&self) -> MutexGuard<'_, (Doubts, Option<Errno>)> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caller no longer waits.
    fn is_over(&self, shared: &Shared) -> bool {
        !shared.listener.is_waiting(self.call.id) || {
            let (doubts, end) = &mut *self.end();
            if self.what == What::Call && end.is_none() {
                *end = signals::answer(&shared.proc, self.call.thread, Restart::UnlessHandled, doubts);
            }
            end.is_some()
        }
    }
}

impl Waiters {
    /// Runs `work` for a call of `process` in a separate thread, with the walls of a worker. Its wait ends with
    /// `EINTR` when the caller is gone, or when a signal has come for the caller.
    ///
    /// # Errors
    /// `EAGAIN` if too many calls wait.
    pub(crate) fn start(
        &self,
        shared: Arc<Shared>,
        (call, what): (Call, What),
        process: u32,
        work: impl FnOnce(&Wait) + Send + 'static,
    ) -> Result<(), Errno> {
        if self.list().len() >= MOST {
            return Err(Errno::AGAIN);
        }
        let process = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        if !self.looking.swap(true, Ordering::Relaxed) {
            let shared = Arc::clone(&shared);
            spawn(move || look(&shared))?;
        }
        spawn(move || {
            // The thread inherits the filter of the worker that started it.
            if let (Ok(()), Ok(deputy)) = (shared.own_directory(), process::interruptible()) {
                let (began, end) = (Instant::now(), Mutex::default());
                let wait = Arc::new(Wait { call, what, began, deputy, process, end });
                shared.waiters.list().push(Arc::clone(&wait));
                shared.waiters.news.notify_one();
                work(&wait);
                shared.waiters.list().retain(|other| !Arc::ptr_eq(other, &wait));
            }
        })
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Wait>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a wait. If the thread doesn't wait yet, the next look ends its wait.
    fn interrupt(&self, wait: &Arc<Wait>) {
        // While the wait is in the list, its thread exists, and its number belongs to no other thread.
        let list = self.list();
        if list.iter().any(|other| Arc::ptr_eq(other, wait)) {
            let _gone = wait.deputy.interrupt();
        }
    }

    /// The waits, as soon as there are any.
    fn some(&self) -> Vec<Arc<Wait>> {
        let waiting = self.news.wait_while(self.list(), |waiting| waiting.is_empty());
        waiting.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    match std::thread::Builder::new().stack_size(64 * 1024).spawn(work) {
        Ok(_thread) => Ok(()),
        Err(_limit) => Err(Errno::AGAIN),
    }
}

/// Ends waits that are over. Runs as long as the broker.
fn look(shared: &Shared) {
    loop {
        let waiting = shared.waiters.some();
        let mut ends: Vec<PollFd<'_>> =
            waiting.iter().map(|wait| PollFd::new(&wait.process, PollFlags::IN)).collect();
        let short = waiting.iter().any(|wait| wait.began.elapsed() < SHORT);
        let _ended_or_time_to_look = poll(&mut ends, Some(if short { &FIRST_LOOKS } else { &LOOK }));
        for wait in &waiting {
            if wait.is_over(shared) {
                shared.waiters.interrupt(wait);
            }
        }
    }
}
