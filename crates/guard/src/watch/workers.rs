// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads that read the kernel's questions: one thread leads, and the others stand ready.
//!
//! One reader answers faster than several: it stays awake and its caches stay warm. If it read a file that takes long,
//! every other open on the host would wait, so such a question is put off to other threads ([`later`](super::later)).
//!
//! Reading a question makes the kernel open its file, and the file's server may not answer. A disk may be slow, and a
//! process that traces the thread may stop it. So another thread checks whether questions are left unread
//! ([`Engine::goes_on`](super::engine::Engine::goes_on)) and makes a different thread lead.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many threads there are in total; all but the leader sleep.
pub const THREADS: usize = 4;

/// The threads that answer.
#[derive(Debug)]
pub struct Workers {
    /// Whether a thread leads.
    is_led: Mutex<bool>,
    /// How often the lead was taken or given up. It changes only while `is_led` is locked, and is read without the
    /// lock.
    term: AtomicU64,
    free: Condvar,
    /// What each thread works on.
    busy: [Busy; THREADS],
    began: Instant,
}

/// The question that a thread works on.
#[derive(Debug, Default)]
struct Busy {
    /// When it started a question, in ms since the workers began, plus one; 0 without a question.
    since: AtomicU64,
    /// The descriptor of the question's file.
    file: AtomicI32,
    /// The thread's id.
    thread: AtomicI32,
}

/// The time during which one thread leads. A thread that lost the lead notices this only when it checks the term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term(u64);

impl Default for Workers {
    fn default() -> Self {
        Self {
            is_led: Mutex::default(),
            term: AtomicU64::new(0),
            free: Condvar::new(),
            busy: core::array::from_fn(|_| Busy::default()),
            began: Instant::now(),
        }
    }
}

impl Workers {
    fn locked(&self) -> MutexGuard<'_, bool> {
        self.is_led.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread leads; then this thread leads.
    pub fn lead(&self) -> Term {
        let free = self.free.wait_while(self.locked(), |is_led| *is_led);
        let mut is_led = free.unwrap_or_else(PoisonError::into_inner);
        *is_led = true;
        Term(self.term.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets another thread lead, if that term isn't over yet.
    pub fn step_aside(&self, term: Term) {
        let mut is_led = self.locked();
        if self.leads(term) {
            *is_led = false;
            self.term.fetch_add(1, Ordering::Relaxed);
            self.free.notify_one();
        }
    }

    /// Whether that term still lasts.
    #[must_use]
    pub fn leads(&self, term: Term) -> bool {
        self.term.load(Ordering::Relaxed) == term.0
    }

    /// The current term, if a thread leads.
    #[must_use]
    pub fn lasting(&self) -> Option<Term> {
        let is_led = self.locked();
        is_led.then(|| Term(self.term.load(Ordering::Relaxed)))
    }

    /// Thread `number`, the calling one, starts the question that came with `file`.
    pub fn begin(&self, number: usize, file: RawFd) {
        let busy = &self.busy[number];
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        busy.file.store(file, Ordering::Relaxed);
        busy.since.store(now + 1, Ordering::Release);
    }

    /// Thread `number` has answered.
    pub fn end(&self, number: usize) {
        self.busy[number].since.store(0, Ordering::Relaxed);
    }

    /// Sets the calling thread as thread `number`.
    pub fn is_here(&self, number: usize) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.busy[number].thread.store(thread, Ordering::Relaxed);
    }

    /// How long in ms the longest current question has taken, and how many threads are at work.
    #[must_use]
    pub fn longest(&self) -> (u64, usize) {
        let at_work = self.at_work();
        at_work.fold((0, 0), |(longest, count), (ms, _)| (longest.max(ms), count + 1))
    }

    /// The threads that have worked on a question for longer than `ms`, and the files of their questions.
    pub fn kept(&self, ms: u64) -> impl Iterator<Item = (i32, RawFd)> {
        let kept = self.at_work().filter(move |(since, _)| *since > ms);
        kept.map(|(_, busy)| (busy.thread.load(Ordering::Relaxed), busy.file.load(Ordering::Relaxed)))
    }

    fn at_work(&self) -> impl Iterator<Item = (u64, &Busy)> {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.busy.iter().filter_map(move |busy| {
            let since = busy.since.load(Ordering::Acquire).checked_sub(1)?;
            Some((now.saturating_sub(since), busy))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn who_steps_aside_is_followed() {
        let workers = Arc::new(Workers::default());
        let term = workers.lead();
        let other = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || {
                let term = workers.lead();
                workers.step_aside(term);
            })
        };
        assert_eq!(workers.lasting(), Some(term));
        workers.is_here(0);
        workers.begin(0, 7);
        assert_eq!((workers.longest().1, workers.lasting()), (1, Some(term)));
        thread::sleep(std::time::Duration::from_millis(2));
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(workers.kept(0).collect::<Vec<_>>(), [(own, 7)]);
        assert_eq!(workers.kept(60_000).count(), 0);
        workers.step_aside(term);
        assert!(other.join().is_ok());
        workers.lead();
        workers.end(0);
        assert_eq!(workers.longest(), (0, 0));
    }

    #[test]
    fn whose_time_is_over_takes_it_from_nobody() {
        let workers = Workers::default();
        let first = workers.lead();
        assert!(workers.leads(first));
        workers.step_aside(first);
        assert!(!workers.leads(first) && workers.lasting().is_none());
        let second = workers.lead();
        workers.step_aside(first);
        assert!(workers.leads(second) && !workers.leads(first));
    }
}
