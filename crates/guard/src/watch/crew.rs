// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who reads the kernel's questions: one thread leads, and who has long work to do steps aside first.
//!
//! One reader answers faster than several: it stays awake and its caches warm. But while it hashes a large file, every
//! other open on the host would wait. So it hands the reading over before, and joins those who wait afterwards.
//!
//! To read a question is to have the kernel open its file, and whoever serves that file may not answer. Somebody else looks
//! whether questions are left unread ([`Engine::goes_on`](super::engine::Engine::goes_on)) and has another thread lead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many threads there are in all; all but the leader sleep.
pub const THREADS: usize = 4;

/// The threads that answer.
#[derive(Debug)]
pub struct Crew {
    /// The thread that leads.
    leader: Mutex<Option<usize>>,
    /// How often the lead has been taken or laid down. It changes while `leader` is locked, and is read without.
    term: AtomicU64,
    free: Condvar,
    /// When each thread began with the question that it works on, in ms since `began`, plus one; 0 without one.
    busy: [AtomicU64; THREADS],
    began: Instant,
}

/// A time during which one thread leads. A thread that was deposed doesn't know so before it asks whether it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term(u64);

/// The thread that leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leader {
    /// All have other work.
    Nobody,
    /// It waits for a question, or for the kernel that opens its file.
    Reads(Term),
    /// It works on one.
    Answers,
}

impl Default for Crew {
    fn default() -> Self {
        Self {
            leader: Mutex::default(),
            term: AtomicU64::new(0),
            free: Condvar::new(),
            busy: [const { AtomicU64::new(0) }; THREADS],
            began: Instant::now(),
        }
    }
}

impl Crew {
    fn locked(&self) -> MutexGuard<'_, Option<usize>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody leads; then thread `number` does.
    pub fn lead(&self, number: usize) -> Term {
        let free = self.free.wait_while(self.locked(), |leader| leader.is_some());
        let mut leader = free.unwrap_or_else(PoisonError::into_inner);
        *leader = Some(number);
        Term(self.term.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets another thread lead, if that time isn't over yet.
    pub fn step_aside(&self, term: Term) {
        let mut leader = self.locked();
        if self.leads(term) {
            *leader = None;
            self.term.fetch_add(1, Ordering::Relaxed);
            self.free.notify_one();
        }
    }

    /// Whether it is still that time.
    #[must_use]
    pub fn leads(&self, term: Term) -> bool {
        self.term.load(Ordering::Relaxed) == term.0
    }

    /// What the thread that leads does.
    #[must_use]
    pub fn leader(&self) -> Leader {
        let leader = self.locked();
        match *leader {
            None => Leader::Nobody,
            Some(number) if self.busy[number].load(Ordering::Relaxed) == 0 => {
                Leader::Reads(Term(self.term.load(Ordering::Relaxed)))
            }
            Some(_) => Leader::Answers,
        }
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
        let term = crew.lead(0);
        let other = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || {
                let term = crew.lead(1);
                crew.step_aside(term);
            })
        };
        assert_eq!(crew.leader(), Leader::Reads(term));
        crew.begin(0);
        assert_eq!((crew.longest().1, crew.leader()), (1, Leader::Answers));
        crew.step_aside(term);
        assert!(other.join().is_ok());
        crew.lead(0);
        crew.end(0);
        assert_eq!(crew.longest(), (0, 0));
    }

    #[test]
    fn whose_time_is_over_takes_it_from_nobody() {
        let crew = Crew::default();
        let first = crew.lead(0);
        assert!(crew.leads(first));
        crew.step_aside(first);
        assert!(!crew.leads(first));
        let second = crew.lead(1);
        crew.step_aside(first);
        assert!(crew.leads(second) && !crew.leads(first));
    }
}
