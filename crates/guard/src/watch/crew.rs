// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who reads the kernel's questions: one thread leads, and who has long work to do steps aside first.
//!
//! One reader answers faster than several: it stays awake and its caches warm. But while it hashes a large file, every
//! other open on the host would wait. So it hands the reading over before, and joins those who wait afterwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// How many threads there are in all; all but the leader sleep.
pub const THREADS: usize = 4;

/// The threads that answer.
#[derive(Debug)]
pub struct Crew {
    /// Is somebody leading, and who may still begin to.
    lead: Mutex<bool>,
    free: Condvar,
    /// When each thread began with the question that it works on, in ms since `began`, plus one; 0 without one.
    busy: [AtomicU64; THREADS],
    began: Instant,
}

impl Default for Crew {
    fn default() -> Self {
        Self {
            lead: Mutex::new(false),
            free: Condvar::new(),
            busy: [const { AtomicU64::new(0) }; THREADS],
            began: Instant::now(),
        }
    }
}

impl Crew {
    /// Waits until nobody leads, and leads.
    pub fn lead(&self) {
        let mut led = self.lead.lock().unwrap_or_else(PoisonError::into_inner);
        while *led {
            led = self.free.wait(led).unwrap_or_else(PoisonError::into_inner);
        }
        *led = true;
    }

    /// Lets another thread lead.
    pub fn step_aside(&self) {
        *self.lead.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.free.notify_one();
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
        crew.lead();
        let other = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || {
                crew.lead();
                crew.step_aside();
            })
        };
        crew.begin(0);
        assert_eq!(crew.longest().1, 1);
        crew.step_aside();
        assert!(other.join().is_ok());
        crew.lead();
        crew.end(0);
        assert_eq!(crew.longest(), (0, 0));
    }
}
