// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trial: rules that are in force for a limited time (`palisade guard try`).
//!
//! An administrator who is locked out by new rules waits a minute. The end of a trial needs no working command: the daemon
//! ends it, and if the daemon dies, the kernel allows everything.

use palisade_guard::watch::policy::Policy;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was in force before the trial.
#[derive(Debug)]
pub(crate) struct Before {
    /// The rules before the trial.
    pub(crate) policy: Arc<Policy>,
    /// Whether these rules were enforced.
    pub(crate) enforcing: bool,
}

/// What is being tried, if anything.
#[derive(Debug, Default)]
pub(crate) struct Trial(Mutex<Option<(Instant, Before)>>);

impl Trial {
    /// Begins a trial. Of several trials, the end restores what was in force before the first.
    pub(crate) fn begin(&self, time: Duration, before: Before) {
        let mut trial = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = trial.take().map_or(before, |(_, first)| first);
        *trial = Some((Instant::now() + time, before));
    }

    /// The seconds that are left.
    pub(crate) fn left(&self) -> Option<u64> {
        self.time_left().map(|left| left.as_secs())
    }

    /// The time that is left, if anything is being tried.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let trial = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trial.as_ref().map(|(until, _)| until.saturating_duration_since(Instant::now()))
    }

    /// Keeps what is being tried. Returns whether anything was.
    pub(crate) fn keep(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// Ends the trial. Returns what was in force before.
    pub(crate) fn end(&self) -> Option<Before> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(|(_, before)| before)
    }

    /// Ends the trial if its time is over. Returns what was in force before.
    pub(crate) fn is_over(&self) -> Option<Before> {
        let mut trial = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if trial.as_ref().is_some_and(|(until, _)| *until <= Instant::now()) {
            trial.take().map(|(_, before)| before)
        } else {
            None
        }
    }
}
