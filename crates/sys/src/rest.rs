// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lock that says whether the launcher is at rest, so that its memory can be copied in a consistent state.
//!
//! The broker starts as a fork of memory that the launcher shares (`broker`). A fork in the middle of an allocation,
//! or while a lock is held, would copy an operation that no thread of the child completes. So the launcher holds this
//! lock while it works. It releases the lock while it waits for signals, because its memory doesn't change then. In a
//! program with other threads that is not enough: they would have to rest, too.

use crate::raw;
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;

static LOCK: AtomicU32 = AtomicU32::new(FREE);

/// The launcher is active while this value lives, except in [`while_resting`](Self::while_resting).
#[derive(Debug)]
pub(crate) struct Active(());

impl Active {
    /// Waits until no process copies the memory.
    pub(crate) fn begin() -> Self {
        acquire();
        Self(())
    }

    /// Runs `wait`, which may only wait. The memory may be copied meanwhile, so `wait` must not allocate or lock.
    pub(crate) fn while_resting<T>(&self, wait: impl FnOnce() -> T) -> T {
        release();
        let result = wait();
        acquire();
        result
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        release();
    }
}

/// Takes the lock; sleeps while another process has it.
pub(crate) fn acquire() {
    while LOCK.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
        // The lock was released, its value changed, or the time is over: check again.
        let _look_again = raw::futex_wait(&LOCK, HELD);
    }
}

/// Gives the lock back and wakes the threads that sleep for it.
pub(crate) fn release() {
    LOCK.store(FREE, Ordering::Release);
    raw::futex_wake(&LOCK);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn nothing_is_copied_while_the_launcher_is_active() {
        let active = Active::begin();
        let copier = std::thread::spawn(|| {
            acquire();
            let now = Instant::now();
            release();
            now
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!copier.is_finished());
        let rested = Instant::now();
        active.while_resting(|| std::thread::sleep(Duration::from_millis(50)));
        drop(active);
        assert!(copier.join().unwrap() >= rested);
    }
}
