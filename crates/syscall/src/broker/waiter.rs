// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads for calls that may wait for ever, such as opening a FIFO whose other end nobody has.

use crate::broker::Shared;
use palisade_sys::process::{self, Interruptible};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More such calls at once are refused with `EAGAIN`.
const MOST: usize = 256;

/// At least so often it is looked whether callers are still there, and whenever a process ends that
/// one of them belonged to: a caller that was killed must not go on waiting by its deputy, who
/// would be taken for a writer when a reader comes.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The threads that wait.
#[derive(Default)]
pub(crate) struct Waiters {
    /// The calls they wait for.
    waiting: Mutex<Vec<Wait>>,
    looking: AtomicBool,
}

struct Wait {
    call: u64,
    thread: Interruptible,
    process: Arc<OwnedFd>,
}

impl Waiters {
    /// Runs `work` for a call of `process` in a thread of its own, with the walls of a worker. Its wait ends
    /// with `EINTR` when the caller is gone.
    ///
    /// # Errors
    /// `EAGAIN` when there are too many.
    pub(crate) fn start(
        &self,
        shared: Arc<Shared>,
        call: u64,
        process: u32,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), Errno> {
        if self.list().len() >= MOST {
            return Err(Errno::AGAIN);
        }
        let process = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let process = Arc::new(pidfd_open(process, PidfdFlags::empty())?);
        if !self.looking.swap(true, Ordering::Relaxed) {
            let shared = Arc::clone(&shared);
            spawn(move || look(&shared))?;
        }
        spawn(move || {
            // The filter comes from the worker that started this thread.
            if let (Ok(()), Ok(this)) = (shared.own_directory(), process::interruptible()) {
                shared.waiters.list().push(Wait { call, thread: this, process });
                work();
                shared.waiters.list().retain(|wait| wait.thread != this);
            }
        })
    }

    fn list(&self) -> MutexGuard<'_, Vec<Wait>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    match std::thread::Builder::new().stack_size(64 * 1024).spawn(work) {
        Ok(_thread) => Ok(()),
        Err(_limit) => Err(Errno::AGAIN),
    }
}

/// Ends waits whose callers are gone, as long as there is a broker.
fn look(shared: &Shared) {
    loop {
        let processes: Vec<Arc<OwnedFd>> =
            shared.waiters.list().iter().map(|wait| Arc::clone(&wait.process)).collect();
        let mut ends: Vec<PollFd<'_>> =
            processes.iter().map(|process| PollFd::new(&**process, PollFlags::IN)).collect();
        let _ended_or_time_to_look = poll(&mut ends, Some(&LOOK));
        for wait in &*shared.waiters.list() {
            if !shared.listener.is_waiting(wait.call) {
                // It has ended by itself in this moment, or will have at the next look.
                let _gone = wait.thread.interrupt();
            }
        }
    }
}
