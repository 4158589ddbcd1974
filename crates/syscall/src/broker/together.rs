// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A worker and its caller on one processor while a file changes hands.
//!
//! The kernel wakes a caller for taking a file, and the worker when it has it, and not as it does for an answer: their
//! processor being busy with the other, it would put each of them on an idle one, whose waking up takes
//! longer than the whole call.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::cell::Cell;

/// Calls of one caller for which the worker stays where it is: letting go and holding on at each would take longer
/// than all else here, and a caller that has been moved to another processor is followed there after so many.
const STAY: u32 = 16;

/// Where a worker runs.
pub(super) struct Spot {
    /// Where it may run, if it may be kept in one place.
    everywhere: Option<CpuSet>,
    kept: Cell<Option<Kept>>,
}

/// It stays on one processor.
#[derive(Clone, Copy)]
struct Kept {
    processor: usize,
    /// For this caller.
    thread: u32,
    /// For so many calls more.
    calls: u32,
}

/// In the thread that is to be kept.
impl Default for Spot {
    fn default() -> Self {
        let everywhere = sched_getaffinity(None).ok().filter(|processors| processors.count() > 1);
        Self { everywhere, kept: Cell::new(None) }
    }
}

impl Spot {
    /// A call of this thread's has come.
    pub(super) fn meet(&self, thread: u32) {
        let Some(kept) = self.kept.get() else { return };
        if kept.thread == thread && kept.calls > 0 {
            self.kept.set(Some(Kept { calls: kept.calls - 1, ..kept }));
        } else if let Some(everywhere) = &self.everywhere {
            self.kept.set(None);
            let _as_before = sched_setaffinity(None, everywhere);
        }
    }

    /// Keeps both here until what is returned is dropped, and the worker for some calls more. The caller can't notice:
    /// it is in the middle of its call.
    pub(super) fn share_with(&self, thread: u32) -> Option<Here> {
        let here = sched_getcpu();
        let callers = i32::try_from(thread).ok().and_then(Pid::from_raw)?;
        let before = sched_getaffinity(Some(callers)).ok()?;
        if self.everywhere.is_none() || before.count() < 2 || !before.is_set(here) {
            return None;
        }
        let mut only = CpuSet::new();
        only.set(here);
        sched_setaffinity(Some(callers), &only).ok()?;
        if self.kept.get().is_none_or(|kept| kept.processor != here) {
            // Without it's only slower.
            let kept = sched_setaffinity(None, &only).is_ok();
            self.kept.set(kept.then_some(Kept { processor: here, thread, calls: STAY }));
        }
        Some(Here { thread: callers, before })
    }
}

/// A caller that is kept.
pub(super) struct Here {
    thread: Pid,
    before: CpuSet,
}

impl Drop for Here {
    fn drop(&mut self) {
        // Fails when it has been killed.
        let _gone = sched_setaffinity(Some(self.thread), &self.before);
    }
}
