// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides how many jobs may run at once: more while processors idle. Many jobs wait for the clock, for each other or for
//! the kernel, and jobs of one kind run at the same time, because the longest jobs start first.

use std::time::{Duration, Instant};

/// The least number of jobs for each processor.
const FEWEST: usize = 2;
/// The greatest number of jobs for each processor.
const MOST: usize = 5;
/// The time between two measurements.
const PERIOD: Duration = Duration::from_millis(400);
/// One more job may run if processors idle for more than this share of the time, and one less if they idle for less than `BUSY`.
const IDLE: f64 = 0.1;
const BUSY: f64 = 0.03;

/// The processors' time as the kernel counts it, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    /// Time without work.
    idle: u64,
    all: u64,
}

/// Room for jobs.
#[derive(Debug)]
pub(crate) struct Room {
    fewest: usize,
    most: usize,
    now: usize,
    before: Ticks,
    looked: Instant,
}

impl Room {
    /// A fixed number if one is requested; otherwise as many as keep the processors busy.
    pub(crate) fn new(wanted: Option<usize>) -> Room {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (fewest, most) = wanted.map_or((cores * FEWEST, cores * MOST), |count| (count, count));
        Room { fewest, most, now: fewest, before: ticks().unwrap_or_default(), looked: Instant::now() }
    }

    /// The greatest number, whatever the processors do.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// The number of jobs that may run now.
    pub(crate) fn now(&mut self) -> usize {
        if self.looked.elapsed() >= PERIOD
            && let Some(ticks) = ticks()
        {
            self.looked = Instant::now();
            self.adapt(ticks);
        }
        self.now
    }

    fn adapt(&mut self, ticks: Ticks) {
        // The kernel may correct the idle time downwards.
        let idle = ticks.idle.saturating_sub(self.before.idle);
        let all = ticks.all.saturating_sub(self.before.all);
        self.before = ticks;
        if all == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "ticks of less than a minute")]
        let share = idle as f64 / all as f64;
        if share > IDLE {
            self.now = (self.now + 1).min(self.most);
        } else if share < BUSY {
            self.now = (self.now - 1).max(self.fewest);
        }
    }
}

/// How much the processors worked during a run, for all processes of the machine.
#[derive(Debug)]
pub(crate) struct Work {
    began: Option<Ticks>,
    /// The counts when the first of the jobs that must be alone began.
    alone: Option<Ticks>,
}

/// Time of all processors together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Worked {
    /// Time with work and without.
    pub(crate) all: Duration,
    /// Time without work.
    pub(crate) idle: Duration,
    /// The part of `idle` while jobs ran that must be alone.
    pub(crate) idle_alone: Duration,
}

impl Work {
    /// Begins to measure now.
    pub(crate) fn begin() -> Work {
        Work { began: ticks(), alone: None }
    }

    /// Records that from now on each job runs alone.
    pub(crate) fn alone(&mut self) {
        if self.alone.is_none() {
            self.alone = ticks();
        }
    }

    /// The work from the beginning until now.
    pub(crate) fn so_far(&self) -> Option<Worked> {
        Some(self.between(self.began?, ticks()?))
    }

    fn between(&self, began: Ticks, now: Ticks) -> Worked {
        let time = |ticks: u64| Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second());
        let alone = self.alone.unwrap_or(now);
        Worked {
            all: time(now.all.saturating_sub(began.all)),
            idle: time(now.idle.saturating_sub(began.idle)),
            idle_alone: time(now.idle.saturating_sub(alone.idle)),
        }
    }
}

/// The ticks of all processors since the machine started, from `/proc/stat`; `None` if that can't be read.
fn ticks() -> Option<Ticks> {
    read_ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn read_ticks(stat: &str) -> Option<Ticks> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal. The time of virtual machines is part of user.
    let fields: Vec<u64> =
        fields.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let (idle, waiting) = (fields.get(3)?, fields.get(4)?);
    Some(Ticks { idle: idle + waiting, all: fields.iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read() {
        let stat = "cpu  100 1 20 300 4 5 6 7 80 9\ncpu0 1 1 1 1\n";
        assert_eq!(read_ticks(stat), Some(Ticks { idle: 304, all: 443 }));
        assert_eq!(read_ticks("cpu  1 x"), None);
        assert_eq!(read_ticks(""), None);
        assert!(ticks().is_some_and(|ticks| ticks.all > ticks.idle));
    }

    #[test]
    fn idle_time_is_told_from_that_beside_what_must_be_alone() {
        let work = Work { began: None, alone: Some(Ticks { idle: 150, all: 600 }) };
        let worked = work.between(Ticks { idle: 100, all: 400 }, Ticks { idle: 250, all: 800 });
        assert_eq!(worked.all, worked.idle * 400 / 150);
        assert_eq!(worked.idle_alone, worked.idle * 100 / 150);
        let none = Work { began: None, alone: None };
        assert!(none.between(Ticks::default(), Ticks { idle: 9, all: 9 }).idle_alone.is_zero());
    }

    #[test]
    fn there_is_more_room_while_processors_idle_and_none_beyond_the_limits() {
        let mut room = Room { fewest: 4, most: 6, now: 4, before: Ticks::default(), looked: Instant::now() };
        let mut after = |idle: u64| {
            let before = room.before;
            room.adapt(Ticks { idle: before.idle + idle, all: before.all + 100 });
            room.now
        };
        assert_eq!([after(50), after(11), after(90)], [5, 6, 6]);
        assert_eq!(after(5), 6, "neither idle nor busy");
        assert_eq!([after(0), after(2), after(0)], [5, 4, 4]);
    }

    #[test]
    fn what_somebody_wants_stays() {
        let mut room = Room::new(Some(3));
        room.adapt(Ticks { idle: u64::MAX / 2, all: u64::MAX / 2 });
        assert_eq!((room.now(), room.most()), (3, 3));
    }
}
