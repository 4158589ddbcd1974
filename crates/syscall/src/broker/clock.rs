// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sandbox's own time of day: the host's clock, moved by a constant.
//!
//! The broker answers calls that read the time. It answers calls that wait until a time when that time has come.
//! Timers are the kernel's own, set to the time on the kernel's clock. A futex lies in the caller's memory, and no
//! other process can sleep on it: the broker ends such a wait after [some milliseconds](waits) at most, as if the
//! caller was woken, and the caller waits again.

pub(super) mod programs;
mod timers;
mod waits;

use crate::broker::caller::Caller;
use crate::broker::{Outcome, Worker, calls};
use rustix::io::Errno;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};
use waits::{Until, Waits};

const SECOND: i128 = 1_000_000_000;

/// Nanoseconds since 1970.
type Nanoseconds = i128;

/// The clock, and the calls that wait for it.
pub(crate) struct Clock {
    /// How far this clock is ahead of the host's.
    ahead: Nanoseconds,
    waits: Waits,
}

/// The size of a `struct timespec`.
const TIMESPEC: usize = 16;

const fn nanoseconds(time: &Timespec) -> Nanoseconds {
    time.tv_sec as Nanoseconds * SECOND + time.tv_nsec as Nanoseconds
}

/// A clock that tells the time of day.
#[derive(Clone, Copy)]
enum TellsDay {
    /// `CLOCK_REALTIME`, and `CLOCK_REALTIME_ALARM`, which shows the same time.
    Realtime,
    /// The time of the last tick (`CLOCK_REALTIME_COARSE`).
    Coarse,
    /// The time without leap seconds (`CLOCK_TAI`).
    Tai,
}

impl TellsDay {
    fn of(number: i32) -> Result<Self, Errno> {
        match number {
            0 | 8 => Ok(Self::Realtime),
            5 => Ok(Self::Coarse),
            11 => Ok(Self::Tai),
            _ => Err(Errno::INVAL),
        }
    }
}

/// The time on the host's clock.
fn host(clock: TellsDay) -> Nanoseconds {
    nanoseconds(&match clock {
        TellsDay::Realtime => clock_gettime(ClockId::Realtime),
        TellsDay::Coarse => clock_gettime(ClockId::RealtimeCoarse),
        TellsDay::Tai => clock_gettime_dynamic(DynamicClockId::Tai)
            .unwrap_or_else(|_too_old| clock_gettime(ClockId::Realtime)),
    })
}

/// A time as the kernel writes it: two words.
fn timespec(time: Nanoseconds) -> [u8; TIMESPEC] {
    pair(time.div_euclid(SECOND), time.rem_euclid(SECOND))
}

fn pair(first: i128, second: i128) -> [u8; TIMESPEC] {
    let word = |number| i64::try_from(number).unwrap_or(i64::MAX).to_ne_bytes();
    let mut bytes = [0; TIMESPEC];
    bytes[..8].copy_from_slice(&word(first));
    bytes[8..].copy_from_slice(&word(second));
    bytes
}

/// The time in such words.
///
/// # Errors
/// `EINVAL` for an invalid time.
fn read_timespec(bytes: &[u8]) -> Result<Nanoseconds, Errno> {
    let (words, _rest) = bytes.as_chunks::<8>();
    let [seconds, nanoseconds, ..] = words else { return Err(Errno::INVAL) };
    let (seconds, nanoseconds) = (i64::from_ne_bytes(*seconds), i64::from_ne_bytes(*nanoseconds));
    if seconds < 0 || !(0..1_000_000_000).contains(&nanoseconds) {
        return Err(Errno::INVAL);
    }
    Ok(i128::from(seconds) * SECOND + i128::from(nanoseconds))
}

impl Clock {
    /// A clock that shows `start` now, in seconds since 1970.
    pub(super) fn starting_at(start: i64) -> Self {
        // Use the clock that lags: so no clock shows a time before the start.
        Self { ahead: i128::from(start) * SECOND - host(TellsDay::Coarse), waits: Waits::default() }
    }

    fn now(&self, clock: TellsDay) -> Nanoseconds {
        host(clock) + self.ahead
    }

    /// Answers a call that reads or uses the time of day.
    pub(super) fn answer(&self, worker: &Worker<'_>, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        match calls::name_of(caller.call) {
            "clock_gettime" => {
                caller.put(1, &timespec(self.now(TellsDay::of(caller.int(0))?)))?;
                Ok(Outcome::Value(0))
            }
            "gettimeofday" => {
                let now = self.now(TellsDay::Realtime);
                if caller.argument(0) != 0 {
                    caller.put(0, &pair(now.div_euclid(SECOND), now.rem_euclid(SECOND) / 1000))?;
                }
                if caller.argument(1) != 0 {
                    // The kernel's own time zone, which no program sets.
                    caller.put(1, &[0; 8])?;
                }
                Ok(Outcome::Value(0))
            }
            "time" => {
                // `time` returns the time of the last tick.
                let now = self.now(TellsDay::Coarse).div_euclid(SECOND);
                let now = i64::try_from(now).unwrap_or(i64::MAX);
                if caller.argument(0) != 0 {
                    caller.put(0, &now.to_ne_bytes())?;
                }
                Ok(Outcome::Value(now))
            }
            "clock_nanosleep" => {
                let clock = TellsDay::of(caller.int(0))?;
                let until = read_timespec(&caller.bytes(2, TIMESPEC)?)?;
                let left = until - self.now(clock);
                if left <= 0 {
                    return Ok(Outcome::Value(0));
                }
                self.waits.add(
                    worker.shared,
                    caller.call,
                    Until::Time { clock, time: until - self.ahead },
                )?;
                Ok(Outcome::Later)
            }
            "futex" => self.futex(worker, caller),
            "timerfd_settime" => timers::set_file(self.ahead, caller),
            "timer_settime" => timers::set(self, worker, caller),
            _ => Err(Errno::NOSYS),
        }
    }

    /// `FUTEX_WAIT_BITSET` with a limit on the clock that shows the time of day.
    fn futex(&self, worker: &Worker<'_>, caller: &Caller<'_>) -> Result<Outcome, Errno> {
        let limit = read_timespec(&caller.bytes(3, TIMESPEC)?)?;
        let address = caller.argument(0);
        if caller.unsigned(5) == 0 || !address.is_multiple_of(4) {
            return Err(Errno::INVAL);
        }
        let value = caller.unsigned(2);
        if waits::word(caller.call.thread, address)? != value {
            return Err(Errno::AGAIN);
        }
        if self.now(TellsDay::Realtime) >= limit {
            return Err(Errno::TIMEDOUT);
        }
        self.waits.add(
            worker.shared,
            caller.call,
            Until::Word { address, value, time: limit - self.ahead },
        )?;
        Ok(Outcome::Later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for time in [0, 1, SECOND, 253_402_300_799 * SECOND + 999_999_999] {
            assert_eq!(read_timespec(&timespec(time)), Ok(time));
        }
        for [seconds, nanoseconds] in [[-1, 0], [0, -1], [0, 1_000_000_000], [i128::from(i64::MIN), 0]] {
            assert_eq!(read_timespec(&pair(seconds, nanoseconds)), Err(Errno::INVAL));
        }
        assert_eq!(read_timespec(&[0; 15]), Err(Errno::INVAL));
    }

    #[test]
    fn a_clock_starts_where_it_is_told_and_runs_on() {
        for start in [0, 1_893_456_000, 253_402_300_799] {
            let clock = Clock::starting_at(start);
            let first = clock.now(TellsDay::Realtime);
            let since = first - i128::from(start) * SECOND;
            assert!((0..60 * SECOND).contains(&since), "{since}");
            assert!(clock.now(TellsDay::Realtime) >= first);
        }
    }
}
