// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets timers that expire at a time of day.

use super::{Clock, Nanoseconds, SECOND, TIMESPEC, TellsDay, nanoseconds, read_timespec, timespec};
use crate::broker::caller::Caller;
use crate::broker::{Outcome, Shared, Worker};
use palisade_sys::notify::{self, Notification, Reply};
use palisade_sys::tracee::{Stop, Tracee};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
use std::sync::Arc;

/// The size of a `struct itimerspec`: the interval and the first expiry.
const ITIMERSPEC: usize = 2 * TIMESPEC;

/// `timerfd_settime` with an absolute time, on a timer file whose clock may show the time of day.
pub(super) fn set_file(ahead: Nanoseconds, caller: &Caller<'_>) -> Result<Outcome, Errno> {
    let number = caller.int(0);
    if number < 0 {
        return Err(Errno::BADF);
    }
    let told = caller
        .tells(&format!("fdinfo/{number}"))
        .map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { errno })?;
    // For another clock, or for a file that is no timer, the kernel gives the right result or error.
    if !matches!(clock_of_file(&told), Some(0)) {
        return Ok(Outcome::Continue);
    }
    let bytes = caller.bytes(2, ITIMERSPEC)?;
    let (interval, first) = bytes.split_at(TIMESPEC);
    let (interval, first) = (read_timespec(interval)?, shifted(read_timespec(first)?, ahead));
    let set = Itimerspec { it_interval: split(interval), it_value: split(first) };
    let file = notify::descriptor_of(caller.process()?, number)?;
    let flags = TimerfdTimerFlags::from_bits_retain(caller.unsigned(1));
    let before = timerfd_settime(&file, flags, &set)?;
    drop(file);
    if caller.argument(3) != 0 {
        // The time that was left: an interval, so no conversion.
        let before = [before.it_interval, before.it_value].map(|time| timespec(nanoseconds(&time)));
        caller.put(3, &before.concat())?;
    }
    Ok(Outcome::Value(0))
}

/// `timer_settime` with an absolute time, on a timer whose clock may show the time of day. Only the process itself
/// can set such a timer. So the broker makes the caller repeat the call with the time that remains until then.
pub(super) fn set(clock: &Clock, worker: &Worker<'_>, caller: &Caller<'_>) -> Result<Outcome, Errno> {
    let tells = match clock_of_timer(&caller.tells("timers")?, caller.int(0)) {
        Some(0) => TellsDay::Realtime,
        Some(11) => TellsDay::Tai,
        _ => return Ok(Outcome::Continue),
    };
    let bytes = caller.bytes(2, ITIMERSPEC)?;
    let (interval, first) = bytes.split_at(TIMESPEC);
    let (interval, first) = (read_timespec(interval)?, shifted(read_timespec(first)?, clock.now(tells)));
    let from_now = [timespec(interval), timespec(first)].concat();
    let (shared, call) = (Arc::clone(worker.shared), *caller.call);
    // The new thread inherits the filter of this worker.
    std::thread::Builder::new()
        .stack_size(64 * 1024)
        .spawn(move || make_instead(&shared, &call, &from_now))
        .map_err(|_limit| Errno::AGAIN)?;
    Ok(Outcome::Later)
}

/// Makes the caller of `timer_settime` repeat the call without `TIMER_ABSTIME` and with this time.
fn make_instead(shared: &Shared, call: &Notification, from_now: &[u8]) {
    let answer = |errno| shared.listener.answer(call.id, Reply::Error(errno));
    let mut tracee = match Tracee::seize(call.thread) {
        Ok(tracee) => tracee,
        Err(errno) => {
            let _nobody_waits = answer(errno);
            return;
        }
    };
    // If the tracee was killed, the wait below reports that. No signal handler runs before the tracee stops.
    let _killed = tracee.interrupt();
    // If the call no longer waits, the caller was killed, and another thread has its number.
    let is_caller = answer(Errno::OPNOTSUPP).is_ok();
    let signal = match tracee.wait() {
        Stop::Asked | Stop::Group(_) => 0,
        Stop::Signal(signal) => signal,
        Stop::Executed | Stop::Call | Stop::Ended => return,
    };
    let [timer, _flags, _time, before, ..] = call.arguments;
    if is_caller && let Ok(number) = u64::try_from(call.number) {
        // If the caller can't be made to repeat the call, it keeps the error that it got above.
        let _made = tracee.call(number, [timer, 0, 0, before, 0, 0], from_now, 2);
    }
    let _killed = tracee.detach(signal);
}

/// The time on the host's clock. 0 stays 0, which stops a timer.
fn shifted(time: Nanoseconds, ahead: Nanoseconds) -> Nanoseconds {
    if time == 0 { 0 } else { (time - ahead).max(1) }
}

fn split(time: Nanoseconds) -> Timespec {
    let word = |number| i64::try_from(number).unwrap_or(i64::MAX);
    Timespec { tv_sec: word(time / SECOND), tv_nsec: word(time % SECOND) }
}

/// The clock of a timer file, from `/proc/PID/fdinfo/NUMBER`: `clockid: 0`.
fn clock_of_file(told: &[u8]) -> Option<i32> {
    let text = core::str::from_utf8(told).ok()?;
    text.lines().find_map(|line| line.strip_prefix("clockid:"))?.trim().parse().ok()
}

/// The clock of a timer, from `/proc/PID/timers`: `ID: 3`, and further on `ClockID: 0`.
fn clock_of_timer(told: &[u8], timer: i32) -> Option<i32> {
    let text = core::str::from_utf8(told).ok()?;
    let mut lines = text.lines();
    lines.find(|line| line.strip_prefix("ID:").is_some_and(|id| id.trim().parse() == Ok(timer)))?;
    lines.find_map(|line| line.strip_prefix("ClockID:"))?.trim().parse().ok()
}

impl Caller<'_> {
    /// Reads a file of the caller's `/proc` directory.
    fn tells(&self, name: &str) -> Result<Vec<u8>, Errno> {
        let of = |afresh| -> Result<Vec<u8>, Errno> {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&*self.directory(afresh)?, name, flags, Mode::empty())?;
            let mut text = Vec::new();
            let mut chunk = [0u8; 4096];
            loop {
                match rustix::io::read(&file, &mut chunk[..])? {
                    0 => return Ok(text),
                    length => text.extend_from_slice(&chunk[..length]),
                }
            }
        };
        // The remembered thread may have ended, and this one got its number.
        of(false).or_else(|_gone| of(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_found_in_what_the_kernel_tells() {
        let file = b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t9391\nclockid: 8\nticks: 0\nsettime flags: 01\n";
        assert_eq!(clock_of_file(file), Some(8));
        assert_eq!(clock_of_file(b"pos:\t0\nflags:\t02\n"), None);
        let timers = b"ID: 0\nsignal: 14/0000000000000000\nnotify: signal/pid.7\nClockID: 1\n\
            ID: 10\nsignal: 14/0\nnotify: signal/pid.7\nClockID: 0\n";
        assert_eq!(clock_of_timer(timers, 0), Some(1));
        assert_eq!(clock_of_timer(timers, 10), Some(0));
        assert_eq!(clock_of_timer(timers, 1), None);
    }

    #[test]
    fn a_timer_that_is_stopped_stays_so_and_one_that_is_late_comes_at_once() {
        assert_eq!(shifted(0, SECOND), 0);
        assert_eq!(shifted(7 * SECOND, SECOND), 6 * SECOND);
        assert_eq!(shifted(7, -SECOND), SECOND + 7);
        assert_eq!(shifted(7, SECOND), 1);
    }
}
