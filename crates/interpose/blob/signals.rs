// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SIGSYS stays deliverable, or the next trap would end the process: it is taken out of every mask. A handler that
//! the program sets for it is remembered, and called for every SIGSYS that is none of our traps.

use crate::call::{self, number};
use crate::layout::Action;
use crate::readable::{self, EFAULT};
use crate::state;
use crate::trap::Frame;
use core::sync::atomic::Ordering;

/// Bad system call.
pub(crate) const SIGSYS: u64 = 31;
/// Its bit in a mask.
pub(crate) const BIT: u64 = 1 << (SIGSYS - 1);
const EINVAL: i64 = -22;
const SIG_BLOCK: u64 = 0;
const SIG_UNBLOCK: u64 = 1;
const SIG_SETMASK: u64 = 2;
/// Bytes of a mask.
pub(crate) const SIZE: u64 = 8;

/// `rt_sigaction(signal, new, old, size)`.
pub(crate) fn action(a: [u64; 6]) -> i64 {
    let [signal, new, old, size, ..] = a;
    if new == 0 && signal != SIGSYS || size != SIZE {
        // SAFETY: the program's call, as it made it.
        return unsafe { call::raw(number::RT_SIGACTION, a) };
    }
    if new != 0 && !readable::action(new) {
        return EFAULT;
    }
    if signal == SIGSYS {
        let wanted = (&raw const state().wanted).cast_mut();
        // SAFETY: pointers that the program gave the kernel for just this. The record is a few words that two threads
        // could only write at once if the program raced with itself.
        unsafe {
            let before = *wanted;
            if new != 0 {
                *wanted = (new as *const Action).read_unaligned();
            }
            if old != 0 {
                // The kernel writes there first: what is done is done, as natively.
                let written = call::raw(number::RT_SIGACTION, [SIGSYS, 0, old, SIZE, 0, 0]);
                if call::is_error(written) {
                    return written;
                }
                (old as *mut Action).write_unaligned(before);
            }
        }
        return 0;
    }
    // SAFETY: as above.
    let mut given = unsafe { (new as *const Action).read_unaligned() };
    given.mask &= !BIT;
    // SAFETY: a copy of the program's, alive during the call.
    unsafe { call::raw(number::RT_SIGACTION, [signal, &raw const given as u64, old, size, 0, 0]) }
}

/// `rt_sigprocmask(how, set, old, size)`, on the mask that the handler's end puts in force.
pub(crate) fn mask(frame: &mut Frame, a: [u64; 6]) -> i64 {
    let [how, set, old, size, ..] = a;
    if size != SIZE {
        return EINVAL;
    }
    let before = frame.mask();
    let mut after = before;
    if set != 0 {
        if !readable::mask(set) {
            return EFAULT;
        }
        // SAFETY: the pointer that the program gave the kernel for just this.
        let set = unsafe { (set as *const u64).read_unaligned() };
        after = match how {
            SIG_BLOCK => before | set,
            SIG_UNBLOCK => before & !set,
            SIG_SETMASK => set,
            _ => return EINVAL,
        };
    }
    frame.set_mask(after & !BIT);
    if old == 0 {
        return 0;
    }
    // The mask is in force until the handler ends. If it can't be written, the new one is in force all the same.
    // SAFETY: the program's call, without a new mask; it writes where the program said.
    unsafe { call::raw(number::RT_SIGPROCMASK, [SIG_SETMASK, 0, old, SIZE, 0, 0]) }
}

/// A pointer to the same mask without SIGSYS.
fn replaced(mask: u64) -> Option<usize> {
    let without = mask & !BIT;
    // Zero says that a place is free, and a mask that had SIGSYS alone is 0 without: any place is that one's.
    for (number, place) in state().masks.iter().enumerate() {
        match place.compare_exchange(0, without, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(number),
            Err(known) if known == without => return Some(number),
            Err(_) => {}
        }
    }
    None
}

/// What to give instead of a pointer to a mask.
pub(crate) fn pointer(mask: u64) -> u64 {
    if mask == 0 || !readable::mask_of_a_wait(mask) {
        return mask;
    }
    // SAFETY: the pointer that the program gave the kernel for just this.
    let value = unsafe { (mask as *const u64).read_unaligned() };
    if value & BIT == 0 {
        return mask;
    }
    replaced(value).map_or(mask, |number| state().masks[number].as_ptr() as u64)
}

/// What to give instead of a pointer to a pointer to a mask and its size.
pub(crate) fn sized(pair: u64) -> u64 {
    if pair == 0 || !readable::mask_of_a_wait(pair) || !readable::mask_of_a_wait(pair.wrapping_add(8)) {
        return pair;
    }
    // SAFETY: as above.
    let [mask, size] = unsafe { (pair as *const [u64; 2]).read_unaligned() };
    if mask == 0 || size != SIZE || !readable::mask_of_a_wait(mask) {
        return pair;
    }
    // SAFETY: as above.
    let value = unsafe { (mask as *const u64).read_unaligned() };
    match (value & BIT != 0).then(|| replaced(value)).flatten() {
        Some(number) => {
            let place = (&raw const state().sized[number]).cast_mut();
            // SAFETY: whoever writes it writes the same.
            unsafe { place.write([state().masks[number].as_ptr() as u64, SIZE]) };
            place as u64
        }
        None => pair,
    }
}

/// A SIGSYS that is no trap of ours: sent by somebody, or by a filter that the program has installed.
pub(crate) fn foreign(signal: u64, info: u64, frame: u64) {
    let wanted = state().wanted;
    match wanted.handler {
        0 => {
            let default = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
            // SAFETY: what the signal does to a process that has no handler: SIGSYS isn't blocked, so this ends it.
            unsafe {
                call::raw(number::RT_SIGACTION, [SIGSYS, &raw const default as u64, 0, SIZE, 0, 0]);
                let process = call::call(number::GETPID, 0, 0, 0) as u64;
                let thread = call::call(number::GETTID, 0, 0, 0) as u64;
                call::call(number::TGKILL, process, thread, SIGSYS);
            }
        }
        1 => {}
        handler => {
            // SAFETY: the program's handler, with what the kernel would give it.
            let handler: extern "C" fn(u64, u64, u64) = unsafe { core::mem::transmute(handler) };
            handler(signal, info, frame);
        }
    }
}
