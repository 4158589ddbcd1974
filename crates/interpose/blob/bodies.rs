// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of bodies: which body serves which pair of call site and call number. It uses no lock, because a handler
//! may interrupt a handler.

use crate::call::{self, number};
use crate::layout::{
    BODIES, BODY, CALLS, COUNT, Counter, FAKE_PID, FAKE_TIME, HASHED, INDEX, LIST, LOG, RECORDS, RESERVED, SLOT,
    SLOTS, SPARE, Slot, TIME, TRAP, TRAPS,
};
use crate::{found, shared, state, supervisor};
use core::sync::atomic::{AtomicU32, Ordering};

unsafe extern "C" {
    fn mask_in_r8();
    fn mask_in_r9();
    fn mask_in_r10();
    fn trace_me();
    fn sigreturn();
    fn forked();
    fn counted();
    fn logged();
    fn answer();
    fn counted_answer();
    fn unmapping();
    fn timed();
    fn fork_begins();
    fn counted_since();
    fn moved_clock();
    fn moved_day();
    fn moved_time();
    fn through();
    fn until_sleep();
    fn until_futex();
    fn until_words();
    fn until_word();
    fn until_message();
}

/// A body's number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body(pub(crate) usize);

impl Body {
    /// Its slot. The thread that made the body has written the slot before other threads can know of it.
    pub(crate) fn slot(self) -> *mut Slot {
        (SLOTS + SLOT * self.0) as *mut Slot
    }

    /// The address where it begins.
    pub(crate) fn address(self) -> u64 {
        (BODIES + BODY * self.0) as u64
    }

    /// The address where it continues with the number in `eax`.
    pub(crate) fn kind(self) -> u64 {
        // SAFETY: needed: the slots are at fixed addresses. Sound: `self.0` is the number of a body that was made, the fields
        // were written before its number was told, and this one never changes.
        unsafe { (*self.slot()).kind }
    }

    /// The address where it makes the call, whatever the arguments are, with the number in `eax` and nothing else
    /// prepared. The call's time isn't known then.
    pub(crate) fn plain(self) -> u64 {
        if is_timed() {
            return self.address() + PLAIN;
        }
        // SAFETY: needed and sound as in `kind`: `plain` never changes either.
        unsafe { (*self.slot()).plain }
    }

    /// The target of a site's jump. If the answer is known, the number needn't be in `eax`.
    pub(crate) fn entry(self) -> u64 {
        let known = [answer, counted_answer].map(|code| code as *const () as u64);
        // SAFETY: needed and sound as in `kind`: `common` never changes either.
        if known.contains(unsafe { &(*self.slot()).common }) { self.kind() } else { self.address() }
    }

    /// Counts one more trap; returns how many there were before.
    pub(crate) fn trapped(self) -> u32 {
        // SAFETY: needed: the slots are at fixed addresses. Sound: the field is aligned, and every access to it is atomic once
        // the body's number is told.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.slot()).traps) }.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes back the count of the last trap, so that the next trap gets the same count: the attempt that this count
    /// triggers didn't happen.
    pub(crate) fn not_tried(self) {
        // SAFETY: needed and sound as in `trapped`: every access to the field is atomic.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.slot()).traps) }.fetch_sub(1, Ordering::Relaxed);
    }

    /// The site and the number.
    pub(crate) fn pair(self) -> (u64, u64) {
        // SAFETY: needed and sound as in `kind`: `back` and `number` never change either.
        unsafe { ((*self.slot()).back - 2, u64::from((*self.slot()).number)) }
    }
}

/// Offsets in a body: it has its slot and continues there; it makes the call and counts it; it makes the call; it
/// makes the call and continues as its slot says (`AFTER`).
const COMMON: u64 = 16;
const PLAIN: u64 = 32;
const PASS: u64 = 96;
/// The offset where it makes a call by `int $0x80`, which changes no register but `rax`.
const LEGACY: u64 = 105;
/// Stands for all call numbers of `int $0x80`.
const LEGACY_CALL: u64 = CALLS as u64 - 1;
const AFTER: u64 = 112;

/// Whether the time of calls is counted.
pub(crate) fn is_timed() -> bool {
    shared().mode.load(Ordering::Relaxed) & TIME != 0
}

/// The counter of a call number.
pub(crate) fn counter(number: u64) -> &'static Counter {
    if shared().mode.load(Ordering::Relaxed) & COUNT == 0 {
        return &state().nobody;
    }
    let place = (number as usize).min(CALLS - 1);
    &shared().counters[state().shard as usize][place]
}

/// Counts and logs a call that was answered in the handler and took this number of ticks.
pub(crate) fn count(number: u64, a: [u64; 6], result: i64, ticks: u64) {
    let counter = counter(number);
    if ticks > 0 {
        counter.ticks.fetch_add(ticks, Ordering::Relaxed);
    }
    counter.calls.fetch_add(1, Ordering::Relaxed);
    if call::is_error(result) {
        counter.errors.fetch_add(1, Ordering::Relaxed);
    }
    if shared().mode.load(Ordering::Relaxed) & LOG == 0 {
        return;
    }
    let waiting = shared().head.load(Ordering::Relaxed).wrapping_sub(shared().tail.load(Ordering::Relaxed));
    if waiting >= (RECORDS - SPARE) as u64 {
        shared().dropped.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let place = shared().head.fetch_add(1, Ordering::Relaxed);
    let record = &shared().ring[place as usize % RECORDS];
    for (to, from) in record.arguments.iter().zip(a) {
        to.store(from, Ordering::Relaxed);
    }
    record.result.store(result as u64, Ordering::Relaxed);
    record.thread.store(call::thread(), Ordering::Relaxed);
    record.number.store(number as u32 + 1, Ordering::Release);
}

/// Places in the first page of the index.
const NEAR_HASHED: usize = 1024;
/// How many of them are looked at.
const NEAR: usize = 16;

/// A place in the index, which has [`HASHED`] places.
fn index(place: usize) -> &'static AtomicU32 {
    // SAFETY: needed: the index is at a fixed address. Sound: it has HASHED aligned words, the process keeps them, and every
    // access is atomic.
    unsafe { AtomicU32::from_ptr((INDEX + 4 * (place % HASHED)) as *mut u32) }
}

/// The body of a site and a number; `None` if there are no more bodies, or the number can have none.
pub(crate) fn of(site: u64, call: u64) -> Option<Body> {
    if call >= LEGACY_CALL {
        return None;
    }
    find(site, call)
}

/// The body of a site with `int $0x80`, whatever call is made there.
pub(crate) fn legacy(site: u64) -> Option<Body> {
    find(site, LEGACY_CALL)
}

fn find(site: u64, call: u64) -> Option<Body> {
    let hash = ((site ^ (call << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    // The first page alone is enough for most programs: each further page costs two page faults.
    let near = (0..NEAR).map(|step| (hash + step) % NEAR_HASHED);
    let mut made = None;
    for number in near.chain((0..HASHED).map(|step| (hash + step) % HASHED)) {
        let place = index(number);
        let mut known = place.load(Ordering::Acquire);
        if known == 0 {
            let new = match made {
                Some(new) => new,
                None => make(site, call)?,
            };
            made = Some(new);
            match place.compare_exchange(0, new.0 as u32 + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(new),
                Err(other) => known = other,
            }
        }
        let body = Body(known as usize - 1);
        if body.pair() == (site, call) {
            // Another thread has made this body first, so the new body is for another site.
            if let Some(spare) = made {
                give_back(spare);
            }
            return Some(body);
        }
    }
    None
}

/// Keeps a slot's number for the next site. No other thread may know of the slot. If there is no place to keep it,
/// the slot is lost.
fn give_back(spare: Body) {
    let keep = |place: &AtomicU32| {
        place.compare_exchange(0, spare.0 as u32 + 1, Ordering::Relaxed, Ordering::Relaxed)
    };
    let _kept = state().spare.iter().any(|place| keep(place).is_ok());
}

/// The number of a free slot whose body exists.
fn take(call: u64) -> Option<Body> {
    let spare = state().spare.iter().filter(|place| place.load(Ordering::Relaxed) != 0);
    let kept = spare.filter_map(|place| place.swap(0, Ordering::Relaxed).checked_sub(1)).next();
    if let Some(kept) = kept {
        return Some(Body(kept as usize));
    }
    let next = |free: &AtomicU32, end: usize| {
        let more = |free| (free < end as u32).then_some(free + 1);
        free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|number| number as usize)
    };
    loop {
        let there = shared().bodies.load(Ordering::Acquire);
        if let Some(number) = next(&state().slots, (there as usize).saturating_sub(RESERVED)) {
            return Some(Body(RESERVED + number));
        }
        if !supervisor::makes_more_bodies(there) {
            break;
        }
    }
    if goes_by_stack(call) { next(&state().reserved, RESERVED).map(Body) } else { None }
}

/// Calls that only a body can make: they return at another place, or with another stack, or without a stack.
fn goes_by_stack(call: u64) -> bool {
    matches!(
        call,
        number::RT_SIGRETURN
            | number::CLONE
            | number::FORK
            | number::VFORK
            | number::CLONE3
            | number::MUNMAP
            | LEGACY_CALL
    )
}

fn make(site: u64, call: u64) -> Option<Body> {
    let body = take(call)?;
    let mode = shared().mode.load(Ordering::Relaxed);
    if mode & LIST != 0 && call != LEGACY_CALL {
        found::note(site);
    }
    let [common, plain, pass, after] = [COMMON, PLAIN, PASS, AFTER].map(|offset| body.address() + offset);
    let address = |code: unsafe extern "C" fn()| code as *const () as u64;
    let (timing, logging) = (mode & TIME != 0, mode & LOG != 0);
    // `simple` is used when the slot is known, `kind` when a jump leads here.
    let (simple, kind) = match mode {
        _ if logging => (after, after),
        _ if timing => (address(timed), common),
        _ if mode & COUNT != 0 => (plain, plain),
        _ => (pass, pass),
    };
    let done = address(if logging { logged } else { counted });
    let trap = (TRAPS + TRAP * body.0) as u64;
    let mut slot = Slot {
        number: call as u32,
        traps: 0,
        kind,
        common: address(timed),
        back: site + 2,
        counter: core::ptr::from_ref(counter(call)) as u64,
        after: address(logged),
        value: 0,
        plain: simple,
    };
    let mut masked = |check: unsafe extern "C" fn()| {
        slot.kind = common;
        slot.common = address(check);
        slot.value = trap;
    };
    let moved: Option<unsafe extern "C" fn()> = match call {
        number::CLOCK_GETTIME => Some(moved_clock),
        number::GETTIMEOFDAY => Some(moved_day),
        number::TIME => Some(moved_time),
        _ => None,
    };
    let until: Option<unsafe extern "C" fn()> = match call {
        number::CLOCK_NANOSLEEP => Some(until_sleep),
        number::FUTEX => Some(until_futex),
        number::FUTEX_WAITV => Some(until_words),
        number::FUTEX_WAIT => Some(until_word),
        number::MQ_TIMEDSEND | number::MQ_TIMEDRECEIVE => Some(until_message),
        _ => None,
    };
    let answered = if mode & (COUNT | LOG) != 0 { done } else { address(through) };
    match call {
        number::GETPID if shared().fakes.which & FAKE_PID != 0 => {
            slot.kind = common;
            slot.common = address(if mode & COUNT != 0 { counted_answer } else { answer });
            slot.value = shared().fakes.pid;
        }
        number::EPOLL_PWAIT | number::EPOLL_PWAIT2 | number::IO_URING_ENTER => masked(mask_in_r8),
        number::PSELECT6 | number::IO_PGETEVENTS => masked(mask_in_r9),
        number::PPOLL => masked(mask_in_r10),
        number::PTRACE => masked(trace_me),
        number::RT_SIGRETURN => {
            slot.kind = common;
            slot.common = address(sigreturn);
        }
        number::CLONE | number::FORK | number::VFORK | number::CLONE3 => {
            slot.kind = if timing { common } else { after };
            slot.common = address(fork_begins);
            slot.after = address(forked);
            slot.value = if timing { address(counted_since) } else { done };
        }
        number::MUNMAP => {
            slot.kind = common;
            slot.common = address(unmapping);
            slot.value = simple;
            slot.plain = if mode & (COUNT | LOG) != 0 { plain } else { pass };
        }
        _ if moved.is_some() && shared().fakes.which & FAKE_TIME != 0 => {
            slot.kind = after;
            slot.after = moved.map_or(0, address);
            slot.value = answered;
        }
        _ if until.is_some() && shared().fakes.which & FAKE_TIME != 0 => {
            slot.kind = common;
            slot.common = until.map_or(0, address);
            slot.value = answered;
        }
        LEGACY_CALL => slot.kind = body.address() + LEGACY,
        // These calls don't return.
        number::EXIT | number::EXIT_GROUP => slot.kind = pass,
        _ => {}
    }
    // SAFETY: needed: the slots are at fixed addresses. Sound: the slot was given to this call alone, and no other
    // thread knows its number until it is in the index.
    unsafe { body.slot().write(slot) };
    Some(body)
}
