// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who reads the kernel's questions: one thread leads, and who has long work to do steps aside first.
//!
//! One reader answers faster than several: it stays awake and its caches warm. But while it hashes a large file, every
//! other open on the host would wait. So it hands the reading over before, and joins those who wait afterwards.
//!
//! To read a question is to have the kernel open its file, and whoever serves that file may not answer. A disk may be slow, and
//! a thread may be stopped by who traces it. Somebody else looks whether questions are left unread ([`Engine::goes_on`](super::engine::Engine::goes_on)) and has another thread lead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many threads there are in all; all but the leader sleep.
pub const THREADS: usize = 4;

/// The threads that answer.
#[derive(Debug)]
pub struct Crew {
    /// Whether a thread leads.
    is_led: Mutex<bool>,
    /// How often the lead has been taken or laid down. It changes while `is_led` is locked, and is read without.
    term: AtomicU64,
    free: Condvar,
    /// When each thread began with the question that it works on, in ms since `began`, plus one; 0 without one.
    busy: [AtomicU64; THREADS],
    began: Instant,
}

/// A time during which one thread leads. A thread that was deposed doesn't know so before it asks whether it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term(u64);

impl Default for Crew {
    fn default() -> Self {
        Self {
            is_led: Mutex::default(),
            term: AtomicU64::new(0),
            free: Condvar::new(),
            busy: [const { AtomicU64::new(0) }; THREADS],
            began: Instant::now(),
        }
    }
}

impl Crew {
    fn locked(&self) -> MutexGuard<'_, bool> {
        self.is_led.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody leads; then this thread does.
    pub fn lead(&self) -> Term {
        let free = self.free.wait_while(self.locked(), |is_led| *is_led);
        let mut is_led = free.unwrap_or_else(PoisonError::into_inner);
        *is_led = true;
        Term(self.term.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets another thread lead, if that time isn't over yet.
    pub fn step_aside(&self, term: Term) {
        let mut is_led = self.locked();
        if self.leads(term) {
            *is_led = false;
            self.term.fetch_add(1, Ordering::Relaxed);
            self.free.notify_one();
        }
    }

    /// Whether it is still that time.
    #[must_use]
    pub fn leads(&self, term: Term) -> bool {
        self.term.load(Ordering::Relaxed) == term.0
    }

    /// The time that lasts, if a thread leads.
    #[must_use]
    pub fn lasting(&self) -> Option<Term> {
        let is_led = self.locked();
        is_led.then(|| Term(self.term.load(Ordering::Relaxed)))
    }

    /// Thread `number` begins with a question.
    pub fn begin(&self, number: usize) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.busy[number].store(now + 1, Ordering::Relaxed);
    }

    /// Thread `number` has answered.
    pub fn end(&self, number: usize) {
        self.busy[number].store(0, Ordering::Relaxed);
    }

    /// For how many ms the thread has been at it that began first, and how many threads are at work.
    #[must_use]
    pub fn longest(&self) -> (u64, usize) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let at_work = self.busy.iter().map(|since| since.load(Ordering::Relaxed)).filter(|since| *since > 0);
        at_work
            .fold((0, 0), |(longest, count), since| (longest.max(now.saturating_sub(since - 1)), count + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn who_steps_aside_is_followed() {
        let crew = Arc::new(Crew::default());
        let term = crew.lead();
        let other = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || {
                let term = crew.lead();
                crew.step_aside(term);
            })
        };
        assert_eq!(crew.lasting(), Some(term));
        crew.begin(0);
        assert_eq!((crew.longest().1, crew.lasting()), (1, Some(term)));
        crew.step_aside(term);
        assert!(other.join().is_ok());
        crew.lead();
        crew.end(0);
        assert_eq!(crew.longest(), (0, 0));
    }

    #[test]
    fn whose_time_is_over_takes_it_from_nobody() {
        let crew = Crew::default();
        let first = crew.lead();
        assert!(crew.leads(first));
        crew.step_aside(first);
        assert!(!crew.leads(first) && crew.lasting().is_none());
        let second = crew.lead();
        crew.step_aside(first);
        assert!(crew.leads(second) && !crew.leads(first));
    }
}
