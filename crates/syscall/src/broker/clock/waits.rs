// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Holds the calls that wait for a time of day, all in one thread.
//!
//! The thread looks every few milliseconds whether a signal came for which the kernel would have ended the wait.

use super::{Nanoseconds, TellsDay, host};
use crate::broker::Shared;
use crate::broker::signals::{self, Doubts, Restart};
use palisade_sys::notify::{self, Notification, Reply};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time until the first look: most waits for a futex word are short. Each further interval is four times as long,
/// up to [`LOOK`].
const FIRST_LOOK: Duration = Duration::from_micros(100);
const LOOK: Duration = Duration::from_millis(5);
/// After this time a caller that waits for a word is told that it was woken. If it wasn't, it waits again.
const WORD: Duration = Duration::from_millis(10);
/// The same for a caller that waits again, and for waits for a time, which are never short.
const LONG_LOOK: Duration = Duration::from_millis(10);
const LONG_WORD: Duration = Duration::from_millis(50);
/// After this time the thread also looks for signals, which takes ten times as long as a look at a word.
const SIGNALS: Duration = Duration::from_millis(2);

/// What a call waits for. Times are the host's.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// A time on one of the host's clocks.
    Time { clock: TellsDay, time: Nanoseconds },
    /// A change of a word from this value, at most until a time of day.
    Word { address: u64, value: u32, time: Nanoseconds },
}

struct Wait {
    call: u64,
    thread: u32,
    until: Until,
    began: Instant,
    /// The wait is not a short one.
    long: bool,
    look: Duration,
    next: Instant,
    doubts: Doubts,
}

/// All waiting calls.
#[derive(Default)]
pub(super) struct Waits(Arc<State>);

#[derive(Default)]
struct State {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Default)]
struct Waiting {
    all: Vec<Wait>,
    /// A thread serves them already.
    served: bool,
    /// Threads that were told they were woken, with the word that each waited for. If such a thread waits for the
    /// same word again, the word hadn't changed, and the new wait is a long one.
    long: HashMap<u32, (u64, u32)>,
}

/// At most this many threads are remembered.
const MOST_LONG: usize = 4096;

impl State {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waits {
    /// Adds a call that is answered later.
    ///
    /// # Errors
    /// `EAGAIN` if the thread can't be started.
    pub(super) fn add(&self, shared: &Arc<Shared>, call: &Notification, until: Until) -> Result<(), Errno> {
        let now = Instant::now();
        let (call, thread) = (call.id, call.thread);
        let mut waiting = self.0.waiting();
        let again = waiting.long.remove(&thread);
        let long = match until {
            Until::Word { address, value, .. } => again == Some((address, value)),
            Until::Time { .. } => true,
        };
        let look = if long { LONG_LOOK } else { FIRST_LOOK };
        let left = until.left();
        if !waiting.served {
            let (state, shared) = (Arc::clone(&self.0), Arc::clone(shared));
            // The new thread inherits the filter of the worker that starts it.
            std::thread::Builder::new()
                .stack_size(64 * 1024)
                .spawn(move || serve(&state, &shared))
                .map_err(|_limit| Errno::AGAIN)?;
            waiting.served = true;
        }
        let (next, doubts) = (now + look.min(left), Doubts::default());
        waiting.all.push(Wait { call, thread, until, began: now, long, look, next, doubts });
        drop(waiting);
        self.0.news.notify_one();
        Ok(())
    }
}

/// Answers calls when it is time. Runs as long as the broker.
fn serve(state: &State, shared: &Shared) {
    let mut waiting = state.waiting();
    loop {
        let now = Instant::now();
        let Waiting { all, long, .. } = &mut *waiting;
        all.retain_mut(|wait| {
            if wait.next > now {
                return true;
            }
            let Some((answer, why)) = wait.look(shared, now) else { return true };
            if why == Why::Long
                && let Until::Word { address, value, .. } = wait.until
            {
                if long.len() >= MOST_LONG {
                    long.clear();
                }
                long.insert(wait.thread, (address, value));
            }
            // This fails if the caller was killed meanwhile.
            let _nobody_waits = shared.listener.answer(wait.call, answer);
            false
        });
        waiting = match waiting.all.iter().map(|wait| wait.next).min() {
            None => state.news.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            Some(next) => {
                let rest = next.saturating_duration_since(Instant::now());
                state.news.wait_timeout(waiting, rest).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// Why a wait has ended.
#[derive(PartialEq, Eq)]
enum Why {
    /// The wait is over: the time came, the word changed, a signal came, or the caller is gone.
    Over,
    /// Nothing has happened yet, but the wait is long: the caller has to wait again.
    Long,
}

impl Until {
    /// An upper bound for the time that remains; 0 when it is over.
    fn left(&self) -> Duration {
        let left = match *self {
            Self::Time { clock, time } => time - host(clock),
            Self::Word { time, .. } => time - host(TellsDay::Realtime),
        };
        u64::try_from(left.max(0)).map_or(Duration::MAX, Duration::from_nanos)
    }
}

impl Wait {
    /// The answer, if the wait ends now.
    fn look(&mut self, shared: &Shared, now: Instant) -> Option<(Reply, Why)> {
        let over = |answer| Some((answer, Why::Over));
        if !shared.listener.is_waiting(self.call) {
            // The call no longer waits, so this answer reaches no caller.
            return over(Reply::Error(Errno::INTR));
        }
        let mut come = Reply::Value(0);
        if let Until::Word { address, value, .. } = self.until {
            match word(self.thread, address) {
                Ok(found) if found == value => come = Reply::Error(Errno::TIMEDOUT),
                Ok(_changed) => return over(Reply::Value(0)),
                Err(errno) => return over(Reply::Error(errno)),
            }
        }
        let left = self.until.left();
        if left.is_zero() {
            return over(come);
        }
        let since = now.duration_since(self.began);
        if since >= SIGNALS
            && let Some(errno) =
                signals::answer(&shared.proc, self.thread, Restart::WithoutHandler, &mut self.doubts)
        {
            return over(Reply::Error(errno));
        }
        let word = if self.long { LONG_WORD } else { WORD };
        if matches!(self.until, Until::Word { .. }) && since >= word {
            return Some((Reply::Value(0), Why::Long));
        }
        self.look = (self.look * 4).min(if self.long { LONG_LOOK } else { LOOK });
        self.next = now + self.look.min(left);
        None
    }
}

/// Reads a word of a caller's memory.
///
/// # Errors
/// `EFAULT` if the address isn't readable.
pub(super) fn word(thread: u32, address: u64) -> Result<u32, Errno> {
    let mut bytes = [0; 4];
    match notify::read_memory(thread, address, &mut bytes)? {
        4 => Ok(u32::from_ne_bytes(bytes)),
        _ => Err(Errno::FAULT),
    }
}
