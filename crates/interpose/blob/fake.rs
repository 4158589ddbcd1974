// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers that the kernel wouldn't give. The kernel answers first, and the requested parts of its answer are
//! changed. So errors and all other parts are the kernel's. Bodies (`entry.S`) change the time of day, because
//! programs ask for it often.

use crate::call::{self, number};
use crate::layout::{FAKE_CPUS, FAKE_HOST, FAKE_RELEASE, FAKE_TIME, NAME};
use crate::{shared, until};

/// The answers that a call needs; 0: none.
const fn needed(call: u64) -> u32 {
    match call {
        number::UNAME => FAKE_HOST | FAKE_RELEASE,
        number::SCHED_GETAFFINITY => FAKE_CPUS,
        number::TIMERFD_SETTIME | number::TIMER_SETTIME => FAKE_TIME,
        _ => 0,
    }
}

/// Whether a call is answered here.
pub(crate) fn is_faked(call: u64) -> bool {
    needed(call) & shared().fakes.which != 0
}

/// The answer to such a call.
pub(crate) fn answer(call: u64, a: [u64; 6]) -> i64 {
    let fakes = &shared().fakes;
    if matches!(call, number::TIMERFD_SETTIME | number::TIMER_SETTIME) {
        return until::set(call, a);
    }
    // SAFETY: needed: only the kernel makes calls. Sound: the program asked for this call with these arguments, and it writes
    // only where the program said.
    let result = unsafe { call::raw(call, a) };
    if call::is_error(result) {
        return result;
    }
    match call {
        number::UNAME => {
            // struct utsname: sysname, nodename, release, ...
            for (which, place, name) in [(FAKE_HOST, 1, &fakes.host), (FAKE_RELEASE, 2, &fakes.release)] {
                if fakes.which & which != 0 {
                    // SAFETY: needed: the structure is at an address that the program gave. Sound: the kernel has just written
                    // all six names there without an error; `place` is below six.
                    unsafe { ((a[0] as usize + place * NAME) as *mut [u8; NAME]).write_unaligned(*name) };
                }
            }
            result
        }
        number::SCHED_GETAFFINITY => {
            for byte in 0..result as usize {
                let left = (fakes.cpus as usize).saturating_sub(8 * byte).min(8);
                let bits = ((1_u16 << left) - 1) as u8;
                // SAFETY: needed: the mask is at an address that the program gave. Sound: the kernel has just written `result`
                // bytes there without an error; `byte` is below that.
                unsafe { ((a[2] as usize + byte) as *mut u8).write(bits) };
            }
            result
        }
        _ => result,
    }
}

/// The kernel's answer to a call that was made without a body, with the time of day changed as bodies change it.
pub(crate) fn moved(call: u64, a: [u64; 6], result: i64) -> i64 {
    let fakes = &shared().fakes;
    if fakes.which & FAKE_TIME == 0 || call::is_error(result) {
        return result;
    }
    let seconds = match call {
        // CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_TAI
        number::CLOCK_GETTIME if matches!(a[0] as u32, 0 | 5 | 11) => a[1],
        number::GETTIMEOFDAY | number::TIME => a[0],
        _ => return result,
    } as *mut i64;
    if !seconds.is_null() {
        // SAFETY: needed: the time is at an address that the program gave. Sound: the kernel has just written it there without
        // an error; it may be unaligned.
        unsafe { seconds.write_unaligned(seconds.read_unaligned().wrapping_add(fakes.ahead)) };
    }
    if call == number::TIME { result.wrapping_add(fakes.ahead) } else { result }
}
