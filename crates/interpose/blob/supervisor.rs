// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking the supervisor for something, and waiting until it has done it or is gone.

use crate::call::{self, number};
use crate::layout::SITES;
use crate::{shared, state};
use core::sync::atomic::{AtomicU32, Ordering};

/// How long to wait before looking whether there still is a supervisor, in milliseconds.
const PATIENCE: u64 = 200;

/// Has it look what is asked of it.
pub(crate) fn ring() {
    shared().doorbell.fetch_add(1, Ordering::AcqRel);
    call::wake(&shared().doorbell);
}

/// Whether nobody will ever answer.
pub(crate) fn is_gone() -> bool {
    shared().closed.load(Ordering::Acquire) != 0
}

/// What a word is when it is no longer this; none when there is nobody to change it.
pub(crate) fn changed(word: &AtomicU32, now: u32) -> Option<u32> {
    loop {
        let found = word.load(Ordering::Acquire);
        if found != now {
            return Some(found);
        }
        if is_gone() {
            return None;
        }
        let supervisor = shared().supervisor.load(Ordering::Relaxed);
        call::wait(word, now, PATIENCE);
        if word.load(Ordering::Acquire) == now {
            // SAFETY: signal 0 asks whether the process is there.
            let answer = unsafe { call::call(number::KILL, u64::from(supervisor), 0, 0) };
            const ESRCH: i64 = -3;
            if answer == ESRCH {
                shared().closed.store(1, Ordering::Release);
            }
        }
    }
}

/// Whether there are more bodies than so many, now that they are needed.
pub(crate) fn makes_more_bodies(than: u32) -> bool {
    if than >= SITES as u32 || state().sealed.load(Ordering::Relaxed) != 0 {
        return false;
    }
    shared().wanted.store(1, Ordering::Release);
    ring();
    changed(&shared().bodies, than).is_some()
}
