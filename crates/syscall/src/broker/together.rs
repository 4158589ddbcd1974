// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps a worker and its caller on one processor while the caller receives a file.
//!
//! The kernel wakes the caller to take the file and then the worker, but not in the way that it does for an answer.
//! Their processor is busy with the other thread, so the kernel would put each of them on an idle processor. Waking
//! an idle processor takes longer than the whole call.
//!
//! Two workers that answer calls at the same time avoid each other's processor.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::cell::Cell;

/// For this many calls of one caller the worker stays on its processor. Releasing and pinning at each call would take
/// longer than all other work here. After so many calls the worker can follow a caller that was moved to another
/// processor.
const STAY: u32 = 16;

/// Where a worker runs.
pub(super) struct Spot {
    /// The processors on which it may run. `None` if it can't be pinned.
    everywhere: Option<CpuSet>,
    /// The processors on which it runs while it isn't pinned, if these aren't all.
    range: Cell<Option<CpuSet>>,
    kept: Cell<Option<Kept>>,
}

/// The worker is pinned to one processor.
#[derive(Clone, Copy)]
struct Kept {
    processor: usize,
    /// The caller for which it is pinned.
    thread: u32,
    /// For how many more calls.
    calls: u32,
}

/// Call this in the thread that will be pinned.
impl Default for Spot {
    fn default() -> Self {
        let everywhere = sched_getaffinity(None).ok().filter(|processors| processors.count() > 1);
        Self { everywhere, range: Cell::new(None), kept: Cell::new(None) }
    }
}

impl Spot {
    /// Records a call of this thread. With `many` callers at once the worker stays on its processor for all of them.
    pub(super) fn meet(&self, thread: u32, many: bool) {
        let Some(kept) = self.kept.get() else { return };
        if kept.calls > 0 && (many || kept.thread == thread) {
            self.kept.set(Some(Kept { calls: kept.calls - 1, thread, ..kept }));
        } else {
            self.let_go();
        }
    }

    /// Avoid this processor, if there is another.
    pub(super) fn keep_off(&self, processor: Option<usize>) {
        let Some((mut others, processor)) = self.everywhere.zip(processor) else { return };
        others.unset(processor);
        if others.count() > 0 {
            self.range.set(Some(others));
            self.let_go();
        }
    }

    /// Use all processors again.
    pub(super) fn roam(&self) {
        if self.range.take().is_some() {
            self.let_go();
        }
    }

    fn let_go(&self) {
        self.kept.set(None);
        if let Some(range) = self.range.get().or(self.everywhere) {
            // A failure only costs speed.
            let _anywhere_it_may = sched_setaffinity(None, &range);
        }
    }

    /// Pins the caller until the returned value is dropped, and the worker for some more calls. The caller can't
    /// notice: it is in the middle of its call.
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
            // A failure only costs speed.
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

/// A caller that is pinned.
pub(super) struct Here {
    thread: Pid,
    before: CpuSet,
}

impl Drop for Here {
    fn drop(&mut self) {
        // This fails if the caller was killed.
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
            // With only one processor the worker stays.
            None | Some([]) => assert_eq!(own(), before),
            Some(others) => {
                assert_eq!(own(), others);
                // After the release it still avoids that processor.
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
