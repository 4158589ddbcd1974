// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is in force for a while: `palisade guard try`.
//!
//! Who locks himself out by rules waits a minute. Nothing has to come through for it to end: the daemon ends it, and if
//! the daemon dies, the kernel says yes to everything.

use palisade_guard::watch::policy::Policy;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was in force before.
#[derive(Debug)]
pub(crate) struct Before {
    /// The rules.
    pub(crate) policy: Arc<Policy>,
    /// Whether they were enforced.
    pub(crate) enforcing: bool,
}

/// What is being tried, if anything.
#[derive(Debug, Default)]
pub(crate) struct Trial(Mutex<Option<(Instant, Before)>>);

impl Trial {
    /// Begins. What was in force before the first of several trials is what comes back.
    pub(crate) fn begin(&self, time: Duration, before: Before) {
        let mut trial = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = trial.take().map_or(before, |(_, first)| first);
        *trial = Some((Instant::now() + time, before));
    }

    /// Seconds that are left.
    pub(crate) fn left(&self) -> Option<u64> {
        self.time_left().map(|left| left.as_secs())
    }

    /// How long it goes on, if anything is being tried.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let trial = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trial.as_ref().map(|(until, _)| until.saturating_duration_since(Instant::now()))
    }

    /// What is tried stays; whether anything was.
    pub(crate) fn keep(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// What was before, if something is being tried.
    pub(crate) fn end(&self) -> Option<Before> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(|(_, before)| before)
    }

    /// What was before, if the time is over.
    pub(crate) fn is_over(&self) -> Option<Before> {
        let mut trial = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if trial.as_ref().is_some_and(|(until, _)| *until <= Instant::now()) {
            trial.take().map(|(_, before)| before)
        } else {
            None
        }
    }
}
