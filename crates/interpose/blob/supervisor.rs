// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends requests to the supervisor, and waits until the supervisor has handled them or is gone.

use crate::call::{self, number};
use crate::layout::SITES;
use crate::{shared, state};
use core::sync::atomic::{AtomicU32, Ordering};

/// Waits without limit, for what the program can't do without.
pub(crate) const ALWAYS: u32 = u32::MAX;

/// How long to wait before checking whether the supervisor still exists, in milliseconds.
const PATIENCE: u64 = 200;

/// Makes the supervisor look at the requests.
pub(crate) fn ring() {
    shared().doorbell.fetch_add(1, Ordering::AcqRel);
    call::wake(&shared().doorbell);
}

/// Whether no supervisor will ever answer.
pub(crate) fn is_gone() -> bool {
    shared().closed.load(Ordering::Acquire) != 0
}

/// The new value of a word, once it isn't `now` any more; `None` when the supervisor, which would change it, is gone,
/// or after `often` looks.
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

/// Whether there are more than this many bodies, now that they are needed. A program can do without them, so it waits
/// for them only once, for a second.
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
