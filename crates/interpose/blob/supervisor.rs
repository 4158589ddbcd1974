// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking the supervisor for something, and waiting until it has done it or is gone.

use crate::call::{self, number};
use crate::layout::SITES;
use crate::{shared, state};
use core::sync::atomic::{AtomicU32, Ordering};

/// For what can't be done without.
pub(crate) const ALWAYS: u32 = u32::MAX;

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

/// What a word is when it is no longer this; none when there is nobody to change it, or it was looked at so often.
pub(crate) fn changed(word: &AtomicU32, now: u32, often: u32) -> Option<u32> {
    for _ in 0..often {
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
            // SAFETY: needed: only the kernel knows which processes exist. Sound: signal 0 is never delivered; the call touches
            // no memory.
            let answer = unsafe { call::call(number::KILL, u64::from(supervisor), 0, 0) };
            const ESRCH: i64 = -3;
            if answer == ESRCH {
                shared().closed.store(1, Ordering::Release);
            }
        }
    }
    None
}

/// Whether there are more bodies than so many, now that they are needed. A program can do without, so it waits for them for
/// a second, and once.
pub(crate) fn makes_more_bodies(than: u32) -> bool {
    const SECOND: u32 = 1000 / PATIENCE as u32;
    let asks_nobody = state().sealed.load(Ordering::Relaxed) | state().unheard.load(Ordering::Relaxed);
    if than >= SITES as u32 || asks_nobody != 0 {
        return false;
    }
    shared().wanted.store(1, Ordering::Release);
    ring();
    let there = changed(&shared().bodies, than, SECOND).is_some();
    if !there {
        state().unheard.store(1, Ordering::Relaxed);
    }
    there
}
