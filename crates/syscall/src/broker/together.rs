// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A worker and its caller on one processor while a file changes hands.
//!
//! The kernel wakes a caller for taking a file, and the worker when it has it, and not as it does for an answer: their
//! processor being busy with the other, it would put each of them on an idle one, whose waking up takes
//! longer than the whole call.
//!
//! Two workers that answer calls at once keep off each other's processor.

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
    /// Where it runs unless it is kept in one place, if that isn't everywhere.
    range: Cell<Option<CpuSet>>,
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
        Self { everywhere, range: Cell::new(None), kept: Cell::new(None) }
    }
}

impl Spot {
    /// A call of this thread's has come. With `many` callers at once the worker stays where it is for all of them.
    pub(super) fn meet(&self, thread: u32, many: bool) {
        let Some(kept) = self.kept.get() else { return };
        if kept.calls > 0 && (many || kept.thread == thread) {
            self.kept.set(Some(Kept { calls: kept.calls - 1, thread, ..kept }));
        } else {
            self.let_go();
        }
    }

    /// Not on this processor, if there is another.
    pub(super) fn keep_off(&self, processor: Option<usize>) {
        let Some((mut others, processor)) = self.everywhere.zip(processor) else { return };
        others.unset(processor);
        if others.count() > 0 {
            self.range.set(Some(others));
            self.let_go();
        }
    }

    /// Anywhere again.
    pub(super) fn roam(&self) {
        if self.range.take().is_some() {
            self.let_go();
        }
    }

    fn let_go(&self) {
        self.kept.set(None);
        if let Some(range) = self.range.get().or(self.everywhere) {
            // Without it's only slower.
            let _anywhere_it_may = sched_setaffinity(None, &range);
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

/// The processor on which the calling thread runs.
pub(super) fn here() -> usize {
    sched_getcpu()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn processors(set: &CpuSet) -> Vec<usize> {
        (0..1024).filter(|processor| set.is_set(*processor)).collect()
    }

    fn own() -> Vec<usize> {
        processors(&sched_getaffinity(None).unwrap())
    }

    #[test]
    fn a_worker_keeps_off_a_processor_and_comes_back() {
        let before = own();
        let spot = Spot::default();
        spot.keep_off(None);
        assert_eq!(own(), before);
        spot.keep_off(before.first().copied());
        match before.get(1..) {
            // Where there is but one it stays.
            None | Some([]) => assert_eq!(own(), before),
            Some(others) => {
                assert_eq!(own(), others);
                // Let go, it still does.
                spot.kept.set(Some(Kept { processor: others[0], thread: 1, calls: 0 }));
                spot.meet(1, true);
                assert_eq!(own(), others);
                spot.keep_off(before.last().copied());
                assert_eq!(own(), before[..before.len() - 1]);
            }
        }
        spot.roam();
        assert_eq!(own(), before);
    }

    #[test]
    fn a_worker_stays_for_its_caller_and_for_many() {
        let spot = Spot::default();
        let left = || spot.kept.get().map(|kept| (kept.thread, kept.calls));
        spot.kept.set(Some(Kept { processor: here(), thread: 1, calls: 3 }));
        spot.meet(1, false);
        assert_eq!(left(), Some((1, 2)));
        spot.meet(2, true);
        assert_eq!(left(), Some((2, 1)));
        spot.meet(3, false);
        assert_eq!(left(), None);
        spot.kept.set(Some(Kept { processor: here(), thread: 1, calls: 0 }));
        spot.meet(2, true);
        assert_eq!(left(), None);
    }
}
