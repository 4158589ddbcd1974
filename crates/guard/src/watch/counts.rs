// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of what the guard did.

use palisade_protocol::guard::{Metrics, Timing};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One counter.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// Some more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self, reset: bool) -> u64 {
        if reset { self.0.swap(0, Ordering::Relaxed) } else { self.get() }
    }
}

macro_rules! counts {
    ($($name:ident),*) => {
        /// Every counter; [`Metrics`] describes them.
        #[derive(Debug, Default)]
        #[expect(missing_docs, reason = "each is described at the member of the same name of Metrics")]
        pub struct Counts { $(pub $name: Count),* }

        impl Counts {
            /// The values of all counters; with `reset` they start again from zero.
            pub fn metrics(&self, reset: bool) -> Metrics {
                Metrics { $($name: self.$name.take(reset)),* }
            }
        }
    };
}

counts!(
    questions,
    executes,
    allowed,
    denied,
    unknown_subject,
    passed,
    revoked,
    objects_missed,
    objects_hit,
    subjects_missed,
    subjects_hit,
    lost,
    unlogged,
    stalls,
    unanswered
);

/// Powers of two of nanoseconds, up to 18 minutes.
const BUCKETS: usize = 41;

/// How long decisions take, while this is being measured.
#[derive(Debug)]
pub struct Clock {
    began: Mutex<Option<Instant>>,
    running: std::sync::atomic::AtomicBool,
    nanoseconds: Count,
    buckets: [Count; BUCKETS],
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            began: Mutex::new(None),
            running: false.into(),
            nanoseconds: Count::default(),
            buckets: [const { Count(AtomicU64::new(0)) }; BUCKETS],
        }
    }
}

impl Clock {
    /// Starts a measurement.
    pub fn start(&self) {
        self.nanoseconds.take(true);
        for bucket in &self.buckets {
            bucket.take(true);
        }
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.running.store(true, Ordering::Relaxed);
    }

    /// Ends the measurement; `None` if there was none.
    pub fn stop(&self) -> Option<Timing> {
        self.running.store(false, Ordering::Relaxed);
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let histogram: Vec<u64> = self.buckets.iter().map(Count::get).collect();
        Some(Timing {
            seconds: began.elapsed().as_secs(),
            decisions: histogram.iter().sum(),
            nanoseconds: self.nanoseconds.get(),
            histogram,
        })
    }

    /// The time now, if a measurement is running.
    pub fn now(&self) -> Option<Instant> {
        self.running.load(Ordering::Relaxed).then(Instant::now)
    }

    /// Records how long a decision took.
    pub fn took(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.add(nanoseconds);
        let bucket = (u64::BITS - nanoseconds.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_begins_anew() {
        let counts = Counts::default();
        counts.denied.add(3);
        assert_eq!(counts.metrics(true).denied, 3);
        assert_eq!(counts.metrics(false).denied, 0);
    }

    #[test]
    fn times_are_counted_by_powers_of_two() {
        let clock = Clock::default();
        assert!(clock.stop().is_none());
        clock.start();
        for nanoseconds in [0, 1, 1023, 1024, u64::MAX] {
            clock.took(Duration::from_nanos(nanoseconds));
        }
        let timing = clock.stop().unwrap_or_default();
        assert_eq!(timing.decisions, 5);
        assert_eq!(
            (timing.histogram[0], timing.histogram[1], timing.histogram[10], timing.histogram[11]),
            (1, 1, 1, 1)
        );
    }
}
