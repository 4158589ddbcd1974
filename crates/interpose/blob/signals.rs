// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lets our trap handler and the program share SIGSYS. SIGSYS is removed from every signal mask, because the next
//! trap would end the process if it were blocked. A handler that the program sets for SIGSYS is recorded, and called
//! for every SIGSYS that isn't one of our traps. For each thread it is recorded whether it has SIGSYS blocked as the
//! program sees it: the thread reads that in its masks, and a SIGSYS sent to it waits.

use crate::call::{self, number};
use crate::layout::{Action, Holder};
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
pub(crate) fn action(frame: &Frame, a: [u64; 6]) -> i64 {
    let [signal, new, old, size, ..] = a;
    if new == 0 && signal != SIGSYS || size != SIZE {
        // SAFETY: needed: only the kernel sets handlers. Sound: the program asked for this call with these arguments, so it
        // does what it would do without Palisade.
        return unsafe { call::raw(number::RT_SIGACTION, a) };
    }
    // The C library passes an action that is on its stack, which is readable.
    if new != 0 && !frame.is_on_stack(new, size_of::<Action>() as u64) && !readable::action(new) {
        return EFAULT;
    }
    if signal == SIGSYS {
        let wanted = (&raw const state().wanted).cast_mut();
        // SAFETY: needed: the actions are at addresses that the program gave. Sound: `new` was found to be readable, and the
        // kernel writes to `old` first, so that it is writable; both may be unaligned. The record is a few words that two
        // threads could only write at once if the program raced with itself.
        unsafe {
            let before = *wanted;
            if new != 0 {
                *wanted = (new as *const Action).read_unaligned();
            }
            if old != 0 {
                // The kernel changes the action before it writes the old one, so the change stays if the write fails,
                // as without Palisade.
                let written = call::raw(number::RT_SIGACTION, [SIGSYS, 0, old, SIZE, 0, 0]);
                if call::is_error(written) {
                    return written;
                }
                (old as *mut Action).write_unaligned(before);
            }
        }
        return 0;
    }
    // SAFETY: needed: the record is at an address that the program gave. Sound: it is readable, as was found out above, and may
    // be unaligned; the program gave it to be read.
    let mut given = unsafe { (new as *const Action).read_unaligned() };
    given.mask &= !BIT;
    // SAFETY: needed: only the kernel sets handlers. Sound: it reads `given`, which lives until the call returns, and writes
    // where the program said.
    unsafe { call::raw(number::RT_SIGACTION, [signal, &raw const given as u64, old, size, 0, 0]) }
}

/// `rt_sigprocmask(how, set, old, size)`. Returns the answer, and whether the mask is in force already. A mask that
/// unblocks a signal comes into force at the handler's end, because the signal's handler must run on the program's
/// stack.
pub(crate) fn mask(frame: &mut Frame, a: [u64; 6]) -> (i64, bool) {
    let [how, set, old, size, ..] = a;
    if set == 0 || size != SIZE {
        // SAFETY: needed: only the kernel reads and changes a thread's mask. Sound: the program asked for this call with these
        // arguments, so it does what it would do without Palisade.
        let answer = unsafe { call::raw(number::RT_SIGPROCMASK, a) };
        show(answer, old, holder_here());
        return (answer, true);
    }
    if !frame.is_on_stack(set, SIZE) && !readable::mask(set) {
        return (EFAULT, true);
    }
    // SAFETY: needed: the mask is at an address that the program gave. Sound: it is readable, as was found out above, and may
    // be unaligned; the program gave it to be read.
    let set = unsafe { (set as *const u64).read_unaligned() };
    let before = frame.mask();
    let after = match how {
        SIG_BLOCK => before | set,
        SIG_UNBLOCK => before & !set,
        SIG_SETMASK => set,
        _ => return (EINVAL, true),
    } & !BIT;
    let at_once = before & !after == 0;
    // If the handler ends by its jump, the mask in force stays. If it ends by `rt_sigreturn`, this mask comes into
    // force.
    frame.set_mask(after);
    let mut answer = 0;
    if at_once {
        // SAFETY: needed: only the kernel changes a thread's mask. Sound: it reads `after`, which lives until the call returns,
        // and writes eight bytes where the program asked for the old mask.
        answer = unsafe { call::raw(number::RT_SIGPROCMASK, [SIG_SETMASK, &raw const after as u64, old, SIZE, 0, 0]) };
    } else if old != 0 {
        // If the old mask can't be written, the new one is in force all the same.
        // SAFETY: needed: only the kernel knows a thread's mask. Sound: it writes eight bytes where the program asked for the
        // old mask, and changes nothing else.
        answer = unsafe { call::raw(number::RT_SIGPROCMASK, [SIG_SETMASK, 0, old, SIZE, 0, 0]) };
    }
    let wanted = set & BIT != 0;
    let state = state();
    // Under the program's own filter our code makes no call to find out the thread's number.
    if (wanted || state.holds.load(Ordering::Relaxed) != 0) && state.sealed.load(Ordering::Relaxed) == 0 {
        let thread = call::thread();
        let known = holder(thread);
        show(answer, old, known);
        match (how, wanted, known) {
            (SIG_BLOCK | SIG_SETMASK, true, None) => hold(thread),
            (SIG_UNBLOCK, true, Some(known)) | (SIG_SETMASK, false, Some(known)) => release(known, thread),
            _ => {}
        }
    }
    (answer, at_once)
}

/// Adds SIGSYS to a mask that the kernel has written, if the thread has it blocked.
fn show(answer: i64, mask: u64, holder: Option<&Holder>) {
    if mask != 0 && !call::is_error(answer) && holder.is_some() {
        // SAFETY: needed: the mask is at an address that the program gave. Sound: the kernel has just written eight bytes there
        // without an error, for this thread, so they can be read and written; they may be unaligned.
        unsafe { (mask as *mut u64).write_unaligned((mask as *const u64).read_unaligned() | BIT) };
    }
}

/// `rt_sigpending(set, size)`.
pub(crate) fn pending(a: [u64; 6]) -> i64 {
    // SAFETY: needed: only the kernel knows what is pending. Sound: the program asked for this call with these arguments, so it
    // does what it would do without Palisade.
    let answer = unsafe { call::raw(number::RT_SIGPENDING, a) };
    if a[1] == SIZE {
        show(answer, a[0], holder_here().filter(|known| known.pending.load(Ordering::Relaxed) != 0));
    }
    answer
}

fn holder(thread: u32) -> Option<&'static Holder> {
    state().holders.iter().find(|holder| holder.thread.load(Ordering::Relaxed) == thread)
}

fn holder_here() -> Option<&'static Holder> {
    let state = state();
    let none = state.holds.load(Ordering::Relaxed) == 0 || state.sealed.load(Ordering::Relaxed) != 0;
    if none { None } else { holder(call::thread()) }
}

/// Makes a SIGSYS that is sent to this thread wait from now on. If there is no free place, it doesn't wait.
fn hold(thread: u32) {
    let take = |holder: &&Holder| {
        let known = holder.thread.load(Ordering::Relaxed);
        // The C library blocks all signals in a thread that ends.
        let gone = || {
            let (process, known) = (u64::from(call::process()), u64::from(known));
            // SAFETY: needed: only the kernel knows which threads exist. Sound: signal 0 is never delivered, and the call
            // touches no memory.
            call::is_error(unsafe { call::call(number::TGKILL, process, known, 0) })
        };
        (known == 0 || gone())
            && holder.thread.compare_exchange(known, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    if let Some(holder) = state().holders.iter().find(take) {
        holder.pending.store(0, Ordering::Relaxed);
        state().holds.store(1, Ordering::Relaxed);
    }
}

/// Sends the SIGSYS that has waited.
fn release(holder: &'static Holder, thread: u32) {
    let info = holder.info;
    let pends = holder.pending.swap(0, Ordering::Relaxed) != 0;
    holder.thread.store(0, Ordering::Relaxed);
    if pends {
        // SAFETY: needed: only the kernel sends signals. Sound: it reads `info`, a copy of the first signal's
        // siginfo, which lives until the call returns.
        unsafe {
            let process = u64::from(call::process());
            let info = info.as_ptr() as u64;
            call::raw(number::RT_TGSIGQUEUEINFO, [process, u64::from(thread), SIGSYS, info, 0, 0]);
        }
    }
}

/// Keeps a SIGSYS that a process has sent while this thread has it blocked; returns whether it was kept.
fn kept(info: u64) -> bool {
    // SAFETY: needed: the kernel gives handlers only the address. Sound: it is that of a whole siginfo on this thread's stack;
    // `si_code` is its third word, above 0 if the kernel itself sends the signal, which blocking doesn't keep off.
    if unsafe { *(info as *const i32).add(2) } > 0 {
        return false;
    }
    let Some(holder) = holder_here() else { return false };
    // A second SIGSYS is lost while one waits, as in the kernel.
    if holder.pending.load(Ordering::Relaxed) == 0 {
        // SAFETY: needed: the place is in shared state. Sound: `holder_here` gives the place of this thread, which alone writes
        // it; a siginfo is 128 bytes, as long as the place.
        unsafe { (&raw const holder.info).cast_mut().write((info as *const [u64; 16]).read_unaligned()) };
        holder.pending.store(1, Ordering::Relaxed);
    }
    true
}

/// The number of a stored copy of the mask without SIGSYS.
fn replaced(mask: u64) -> usize {
    let without = mask & !BIT;
    let state = state();
    // Zero marks a free place. A mask that had only SIGSYS is 0 without it: any free place serves as its copy.
    for (number, place) in state.masks.iter().enumerate() {
        match place.compare_exchange(0, without, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return number,
            Err(known) if known == without => return number,
            Err(_) => {}
        }
    }
    // The kernel reads a mask immediately. A thread would wait with a wrong mask only if other threads stored this
    // many masks in between.
    let number = state.next_mask.fetch_add(1, Ordering::Relaxed) as usize % state.masks.len();
    state.masks[number].store(without, Ordering::Release);
    number
}

/// What to pass instead of a pointer to a mask.
pub(crate) fn pointer(mask: u64) -> u64 {
    if mask == 0 || !readable::mask_of_a_wait(mask) {
        return mask;
    }
    // SAFETY: needed: the mask is at an address that the program gave. Sound: it is readable, as was found out above, and may
    // be unaligned; the program gave it to be read.
    let value = unsafe { (mask as *const u64).read_unaligned() };
    if value & BIT == 0 {
        return mask;
    }
    state().masks[replaced(value)].as_ptr() as u64
}

/// What to pass instead of a pointer to a mask's pointer and size.
pub(crate) fn sized(pair: u64) -> u64 {
    if pair == 0 || !readable::mask_of_a_wait(pair) || !readable::mask_of_a_wait(pair.wrapping_add(8)) {
        return pair;
    }
    // SAFETY: needed: the pair is at an address that the program gave. Sound: both of its words are readable, as was found out
    // above, and may be unaligned.
    let [mask, size] = unsafe { (pair as *const [u64; 2]).read_unaligned() };
    if mask == 0 || size != SIZE || !readable::mask_of_a_wait(mask) {
        return pair;
    }
    // SAFETY: needed: the mask is at an address that the program gave. Sound: it is readable, as was found out above, and may
    // be unaligned.
    let value = unsafe { (mask as *const u64).read_unaligned() };
    if value & BIT == 0 {
        return pair;
    }
    let number = replaced(value);
    let place = (&raw const state().sized[number]).cast_mut();
    // SAFETY: needed: the place is in shared state. Sound: it is aligned and lives as long as the process; every thread that
    // writes it writes the same two words, the address of this mask and its size.
    unsafe { place.write([state().masks[number].as_ptr() as u64, SIZE]) };
    place as u64
}

/// Handles a SIGSYS that isn't one of our traps: a process has sent it, or a filter that the program has installed
/// has raised it.
pub(crate) fn foreign(signal: u64, info: u64, frame: u64) {
    if kept(info) {
        return;
    }
    let wanted = state().wanted;
    match wanted.handler {
        0 => {
            let default = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
            // SAFETY: needed: only the kernel sets handlers and sends signals. Sound: it reads `default`, which lives until the
            // call returns. The program has no handler, so the signal is to end it; SIGSYS isn't blocked, so it does.
            unsafe {
                call::raw(number::RT_SIGACTION, [SIGSYS, &raw const default as u64, 0, SIZE, 0, 0]);
                let (process, thread) = (u64::from(call::process()), u64::from(call::thread()));
                call::call(number::TGKILL, process, thread, SIGSYS);
            }
        }
        1 => {}
        handler => {
            // SAFETY: needed: the handler is only known by its address. Sound: the program gave the address to `rt_sigaction`
            // as that of a handler with these three arguments, which are what the kernel would give it.
            let handler: extern "C" fn(u64, u64, u64) = unsafe { core::mem::transmute(handler) };
            handler(signal, info, frame);
        }
    }
}
