// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads for calls that may wait for ever, such as opening a FIFO whose other end nobody has.

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

/// More such calls at once are refused with `EAGAIN`.
const MOST: usize = 256;

/// So often it is looked whether callers are still there and whether signals have come for them; and whenever a process
/// ends that one of them belonged to: a caller that was killed must not go on waiting by its deputy, who would be taken
/// for a writer when a reader comes.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The same while one of them has waited for less than [`SHORT`].
const FIRST_LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const SHORT: Duration = Duration::from_secs(1);

/// What a caller waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A call that signals interrupt.
    Call,
    /// An answer of the user's, of which the caller doesn't know.
    User,
}

/// The threads that wait.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: Mutex<Vec<Arc<Wait>>>,
    news: Condvar,
    looking: AtomicBool,
}

/// A thread that waits in place of a caller.
pub(crate) struct Wait {
    call: Call,
    what: What,
    began: Instant,
    deputy: Interruptible,
    process: OwnedFd,
    /// Why its wait was ended, if it was.
    end: Mutex<(Doubts, Option<Errno>)>,
}

impl Wait {
    /// The caller's answer, where its deputy may have been interrupted.
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

    /// Whether its caller waits no more.
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
    /// Runs `work` for a call of `process` in a thread of its own, with the walls of a worker. Its wait ends
    /// with `EINTR` when the caller is gone, or when a signal has come for it.
    ///
    /// # Errors
    /// `EAGAIN` when there are too many.
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
            // The filter comes from the worker that started this thread.
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

    /// Ends a wait. If it isn't one yet, it will be at the next look.
    fn interrupt(&self, wait: &Arc<Wait>) {
        // While it is there, the thread's number is no other's.
        let list = self.list();
        if list.iter().any(|other| Arc::ptr_eq(other, wait)) {
            let _gone = wait.deputy.interrupt();
        }
    }

    /// Those that wait, as soon as there are any.
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

/// Ends waits that are over, as long as there is a broker.
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
