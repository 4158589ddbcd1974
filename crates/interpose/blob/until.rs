// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits until a time of day, while the program's time of day is changed: the kernel gets its own time instead of the
//! program's. Bodies (`until.S`) handle calls whose arguments name their clock. The handler handles calls that set
//! timers, because it has to ask the kernel for the timer's clock, and calls without a body.

use crate::call::{self, number};
use crate::layout::FAKE_TIME;
use crate::{maps, readable, shared, state};
use core::sync::atomic::Ordering;

/// `CLOCK_REALTIME`, `CLOCK_REALTIME_ALARM`, `CLOCK_TAI`: the changed clocks by which a program can wait.
const fn is_moved(clock: u32) -> bool {
    matches!(clock, 0 | 8 | 11)
}

/// The kernel's time for one of the program's. Invalid times are left to the kernel to refuse.
fn kernels(seconds: i64) -> i64 {
    if seconds < 0 { seconds } else { seconds.saturating_sub(shared().fakes.ahead).max(0) }
}

/// The index of the argument that points to the time of day until which a call waits, if the call waits for one.
fn waits(call: u64, a: [u64; 6]) -> Option<usize> {
    let operation = a[1] as u32 & 0x7f;
    let (which, waits) = match call {
        // TIMER_ABSTIME
        number::CLOCK_NANOSLEEP => (2, a[1] & 1 != 0 && is_moved(a[0] as u32)),
        // FUTEX_LOCK_PI; FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2 with FUTEX_CLOCK_REALTIME
        number::FUTEX => (3, operation == 6 || a[1] & 0x100 != 0 && matches!(operation, 9 | 11 | 13)),
        number::FUTEX_WAITV => (3, a[4] as u32 == 0),
        number::FUTEX_WAIT => (4, a[5] as u32 == 0),
        number::MQ_TIMEDSEND | number::MQ_TIMEDRECEIVE => (4, true),
        _ => return None,
    };
    (waits && readable::time(a[which])).then_some(which)
}

/// Makes a call as `call::raw`, but with the kernel's time as the end of its wait.
///
/// # Safety
///
/// What the call itself requires.
pub(crate) unsafe fn raw(call: u64, mut a: [u64; 6]) -> i64 {
    let mut time = [0_i64; 2];
    if shared().fakes.which & FAKE_TIME != 0
        && let Some(which) = waits(call, a)
    {
        // SAFETY: needed: the time is at an address that the program gave. Sound: `waits` has found out that it is readable; it
        // may be unaligned.
        time = unsafe { (a[which] as *const [i64; 2]).read_unaligned() };
        time[0] = kernels(time[0]);
        a[which] = time.as_ptr() as u64;
    }
    // SAFETY: needed: `call::raw` is unsafe. Sound: the caller promises that the call is; the copy of the time that may stand
    // in for the program's lives until the call returns.
    unsafe { call::raw(call, a) }
}

/// `timerfd_settime(file, flags, new, old)`, `timer_settime(timer, flags, new, old)`.
pub(crate) fn set(call: u64, mut a: [u64; 6]) -> i64 {
    let number = a[0] as u32;
    let clock = match call {
        _ if a[1] & 1 == 0 || !readable::action(a[2]) => None,
        // Under the program's own filter our code makes no calls of its own, so it can't read `/proc`.
        _ if state().sealed.load(Ordering::Relaxed) != 0 => None,
        number::TIMERFD_SETTIME => clock_of_file(number),
        _ => clock_of_timer(number),
    };
    // Interval, and time; each seconds and nanoseconds.
    let mut times = [0_i64; 4];
    if clock.is_some_and(is_moved) {
        // SAFETY: needed: the time is at an address that the program gave. Sound: it was found to be readable; it may be
        // unaligned.
        times = unsafe { (a[2] as *const [i64; 4]).read_unaligned() };
        // A time of zero disarms the timer.
        if times[2] != 0 || times[3] != 0 {
            times[2] = kernels(times[2]);
            // Zero would disarm the timer here, too, but a time in the past is meant.
            if times[2] == 0 && times[3] == 0 {
                times[3] = 1;
            }
            a[2] = times.as_ptr() as u64;
        }
    }
    // SAFETY: needed: only the kernel makes calls. Sound: the program asked for this call; the copy that stands in for its time
    // lives until the call returns.
    unsafe { call::raw(call, a) }
}

/// `clockid: 0`, in the kernel's information about a descriptor.
fn clock_of_file(file: u32) -> Option<u32> {
    const DIRECTORY: &[u8] = b"/proc/self/fdinfo/";
    let mut path = [0_u8; DIRECTORY.len() + 11];
    path[..DIRECTORY.len()].copy_from_slice(DIRECTORY);
    let (mut digits, mut rest) = (0, file);
    let mut backwards = [0_u8; 10];
    loop {
        backwards[digits] = b'0' + (rest % 10) as u8;
        (digits, rest) = (digits + 1, rest / 10);
        if rest == 0 {
            break;
        }
    }
    for (to, from) in path[DIRECTORY.len()..].iter_mut().zip(backwards[..digits].iter().rev()) {
        *to = *from;
    }
    let mut found = None;
    lines(&path, |line| {
        found = after(line, b"clockid:");
        found.is_some()
    });
    found
}

/// `ID: 3`, and some lines later `ClockID: 0`.
fn clock_of_timer(timer: u32) -> Option<u32> {
    let (mut own, mut found) = (false, None);
    lines(b"/proc/self/timers\0", |line| {
        if let Some(which) = after(line, b"ID:") {
            own = which == timer;
        }
        found = after(line, b"ClockID:").filter(|_| own);
        found.is_some()
    });
    found
}

/// The number after a word at a line's beginning.
fn after(line: &[u8], word: &[u8]) -> Option<u32> {
    let rest = line.strip_prefix(word)?;
    let digits = rest.iter().skip_while(|byte| matches!(byte, b' ' | b'\t'));
    let mut number = None;
    for digit in digits.take_while(|byte| byte.is_ascii_digit()) {
        number = Some(number.unwrap_or(0_u32).wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
    }
    number
}

/// Passes the beginnings of a file's lines to `tell`, until it returns true.
fn lines(path: &[u8], mut tell: impl FnMut(&[u8]) -> bool) {
    let mut line = [0_u8; 32];
    let mut length = 0;
    maps::bytes(path, |byte| {
        if byte == b'\n' {
            let enough = tell(&line[..length]);
            length = 0;
            return enough;
        }
        if let Some(place) = line.get_mut(length) {
            *place = byte;
            length += 1;
        }
        false
    });
}
