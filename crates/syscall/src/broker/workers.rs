// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives calls: one thread does, and a second one helps when calls wait.
//!
//! The kernel wakes every thread that waits for a call (`recv_wait_event` isn't exclusive). With two waiting threads
//! each call would wake one of them in vain, which costs a third of an answer's time. So while calls come, the second
//! thread checks from time to time whether a call waits that the first thread doesn't get to: because a file system
//! is slow, or because several programs call at once. Then the second thread receives calls, too, for as long as that
//! is of use. It avoids the first thread's processor: each thread wakes its callers on its own processor, so
//! otherwise both could stay on one processor while another is idle.

use crate::broker::{Shared, Worker, together};
use palisade_sys::notify::Listener;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// How often the second thread looks. A call waits for it at most this long, plus the time for the work.
const LOOK: Duration = Duration::from_millis(2);
/// After this many looks without calls it sleeps until a call comes.
const QUIET: u32 = 10;
/// After this many calls it is checked whether the second thread's help is of use.
const STINT: u32 = 64;
/// At least this many of them must have come while the first thread was busy.
const USEFUL: u32 = STINT / 4;

/// The state of the two threads.
#[derive(Default)]
pub(crate) struct Workers {
    /// Odd while the first thread answers a call.
    turns: AtomicU64,
    /// The second thread looks for waiting calls.
    watching: AtomicBool,
    /// No process is left that could make a call.
    over: AtomicBool,
    /// The second thread receives calls, too.
    helping: AtomicBool,
    /// One more than the number of the processor on which the first thread answered its last call. 0: none.
    first_at: AtomicUsize,
    second: OnceLock<Thread>,
}

/// Why a wait for a call ended without one.
enum Without {
    /// An unimportant reason.
    Nothing,
    /// No process is left that could make a call.
    Nobody,
}

impl Workers {
    /// The first thread: receives calls until no process is left that could make one.
    pub(super) fn lead(&self, worker: &Worker<'_>) -> Result<(), Errno> {
        loop {
            match receive(worker)? {
                Ok(call) => {
                    self.turns.fetch_add(1, Ordering::SeqCst);
                    // Either the second thread sees this turn, or this thread sees that the second one doesn't look.
                    if !self.watching.load(Ordering::SeqCst) {
                        self.watching.store(true, Ordering::SeqCst);
                        self.wake_second();
                    }
                    worker.answer(&call);
                    self.first_at.store(together::here() + 1, Ordering::Relaxed);
                    self.turns.fetch_add(1, Ordering::SeqCst);
                }
                Err(Without::Nothing) => {}
                Err(Without::Nobody) => {
                    worker.place_rest();
                    self.over.store(true, Ordering::SeqCst);
                    self.wake_second();
                    return Ok(());
                }
            }
        }
    }

    fn wake_second(&self) {
        // If the second thread hasn't started yet, it looks before it sleeps.
        if let Some(second) = self.second.get() {
            second.unpark();
        }
    }

    /// Whether both threads receive calls.
    pub(super) fn is_helped(&self) -> bool {
        self.helping.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// The second thread: looks whether its help is needed, and receives calls while it is.
    pub(super) fn stand_by(&self, worker: &Worker<'_>) -> Result<(), Errno> {
        let _only_one = self.second.set(std::thread::current());
        while !self.is_over() {
            if !self.watching.load(Ordering::SeqCst) {
                // `park` may also return without a reason.
                std::thread::park();
                continue;
            }
            let seen = self.watch(worker)?;
            self.watching.store(false, Ordering::SeqCst);
            if self.turns.load(Ordering::SeqCst) != seen {
                self.watching.store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Looks until no more calls come. Returns the last seen turn of the first thread.
    fn watch(&self, worker: &Worker<'_>) -> Result<u64, Errno> {
        let mut seen = self.turns.load(Ordering::SeqCst);
        let mut quiet = 0;
        while quiet < QUIET && !self.is_over() {
            std::thread::sleep(LOOK);
            let turns = self.turns.load(Ordering::SeqCst);
            if is_busy(turns) && has_one_waiting(&worker.shared.listener) {
                self.helping.store(true, Ordering::Relaxed);
                self.help(worker)?;
                worker.spot.roam();
                self.helping.store(false, Ordering::Relaxed);
            }
            quiet = if turns == seen && !is_busy(turns) { quiet + 1 } else { 0 };
            seen = turns;
        }
        Ok(seen)
    }

    fn help(&self, worker: &Worker<'_>) -> Result<(), Errno> {
        let mut stint = Stint::default();
        loop {
            if stint.begins() {
                worker.spot.keep_off(self.first_at.load(Ordering::Relaxed).checked_sub(1));
            }
            match receive(worker)? {
                Ok(call) => {
                    let is_of_use = stint.is_of_use(is_busy(self.turns.load(Ordering::SeqCst)));
                    worker.answer(&call);
                    if !is_of_use {
                        return Ok(());
                    }
                }
                Err(Without::Nothing) => {}
                Err(Without::Nobody) => return Ok(()),
            }
        }
    }
}

const fn is_busy(turns: u64) -> bool {
    turns % 2 == 1
}

/// What the second thread has seen in its last calls.
#[derive(Default)]
struct Stint {
    calls: u32,
    while_busy: u32,
}

impl Stint {
    const fn begins(&self) -> bool {
        self.calls == 0
    }

    /// Records one more call, and whether it came while the first thread was busy. Returns whether to go on helping.
    fn is_of_use(&mut self, first_was_busy: bool) -> bool {
        self.calls += 1;
        self.while_busy += u32::from(first_was_busy);
        if self.calls < STINT {
            return true;
        }
        let useful = self.while_busy >= USEFUL;
        *self = Self::default();
        useful
    }
}

fn receive(worker: &Worker<'_>) -> Result<Result<palisade_sys::notify::Notification, Without>, Errno> {
    let listener = &worker.shared.listener;
    match listener.receive() {
        Ok(call) => Ok(Ok(call)),
        Err(Errno::INTR) => Ok(Err(Without::Nothing)),
        // Either the caller died before its call was received, or no process is left.
        Err(Errno::NOENT) => {
            let nobody = state_of(listener).contains(PollFlags::HUP);
            Ok(Err(if nobody { Without::Nobody } else { Without::Nothing }))
        }
        Err(errno) => Err(errno),
    }
}

/// Whether a call waits that no thread has received.
fn has_one_waiting(listener: &Listener) -> bool {
    state_of(listener).contains(PollFlags::IN)
}

fn state_of(listener: &Listener) -> PollFlags {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_number) => fds[0].revents(),
        Err(_interrupted) => PollFlags::empty(),
    }
}

/// The work of one of the two threads.
type Work = fn(&Workers, &Worker<'_>) -> Result<(), Errno>;

/// Starts both threads, or only the first one if they would share a working directory and a umask. `prepare` sets up
/// each one. An `Err` ends the broker.
pub(super) fn start(
    shared: &Arc<Shared>,
    prepare: impl Fn(&Shared) -> Result<(), Errno> + Clone + Send + 'static,
) -> Result<Vec<JoinHandle<()>>, Errno> {
    let start = |work: Work| {
        let (shared, prepare) = (Arc::clone(shared), prepare.clone());
        let run = move || {
            prepare(&shared)?;
            work(&shared.workers, &Worker::new(&shared))
        };
        std::thread::Builder::new()
            .stack_size(256 * 1024)
            .spawn(move || {
                // If one thread can't continue, the whole broker ends: otherwise a call could wait for its answer
                // forever.
                if run().is_err() {
                    palisade_sys::process::exit_now(1);
                }
            })
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
    };
    let both: [Work; 2] = [Workers::lead, Workers::stand_by];
    both.into_iter().take(if shared.apart { 2 } else { 1 }).map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_ends_when_it_is_of_no_use() {
        let mut stint = Stint::default();
        for _ in 1..STINT {
            assert!(stint.is_of_use(false));
        }
        assert!(!stint.is_of_use(false));
        for round in 0..10 {
            for call in 0..STINT {
                assert!(stint.is_of_use(call % 4 == 0), "{round} {call}");
            }
        }
    }
}
