// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a test waits: for an event, and no longer than a limit that grows with the machine's load.
//!
//! A limit is written for an idle machine. While three processes want each core, time counts for a third.

use std::time::{Duration, Instant};

/// How often the machine is asked for its load.
const LOOK: Duration = Duration::from_millis(100);

/// No load makes a limit longer than this many times itself: what hangs ends some time.
const MOST: u32 = 10;

/// A limit that is being used up.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    spent: Duration,
    until: Instant,
    last: Instant,
    looked: Instant,
    crowd: f64,
}

impl Patience {
    /// `limit` on an idle machine, from now on.
    #[must_use]
    pub fn new(limit: Duration) -> Patience {
        let now = Instant::now();
        Patience {
            limit,
            spent: Duration::ZERO,
            until: now + limit * MOST,
            last: now,
            looked: now,
            crowd: crowd(),
        }
    }

    /// Whether the limit is used up. To be asked several times a second: the load is that of the moment.
    pub fn is_spent(&mut self) -> bool {
        let now = Instant::now();
        if now - self.looked >= LOOK {
            self.looked = now;
            self.crowd = crowd();
        }
        self.spent += (now - self.last).div_f64(self.crowd);
        self.last = now;
        self.spent >= self.limit || now >= self.until
    }
}

/// Whether `condition` comes to hold before `limit`, which grows with the load, is used up. It is asked every few
/// milliseconds.
pub fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let mut patience = Patience::new(limit);
    loop {
        if condition() {
            return true;
        }
        if patience.is_spent() {
            // It may have come to hold while this process did not run.
            return condition();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for what gives no sign of itself: `time` on an idle machine, longer on a busy one.
pub fn pause(time: Duration) {
    let mut patience = Patience::new(time);
    while !patience.is_spent() {
        std::thread::sleep((time / 10).clamp(Duration::from_millis(1), LOOK));
    }
}

/// How many want each core: at least one.
#[must_use]
pub fn crowd() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    crowd_of(&load, cores)
}

/// By what `/proc/loadavg` says, the greater of two: the mean of the last minute, and what can run at this moment.
fn crowd_of(load: &str, cores: usize) -> f64 {
    let mut fields = load.split(' ');
    let mean = fields.next().and_then(|field| field.parse::<f64>().ok());
    let running =
        fields.nth(2).and_then(|field| field.split('/').next()).and_then(|field| field.parse::<f64>().ok());
    let cores = u32::try_from(cores).map_or(1.0, f64::from).max(1.0);
    (mean.unwrap_or_default().max(running.unwrap_or_default()) / cores).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_told_by_the_mean_or_by_what_runs() {
        let same = |load, cores, expected: f64| (crowd_of(load, cores) - expected).abs() < 1e-9;
        assert!(same("0.03 0.47 0.34 2/91 11748\n", 2, 1.0));
        assert!(same("0.03 0.47 0.34 9/91 11748\n", 2, 4.5));
        assert!(same("8.00 0.47 0.34 1/91 11748\n", 2, 4.0));
        assert!(same("", 2, 1.0), "a machine that tells nothing counts as idle");
    }

    #[test]
    fn a_limit_grows_with_the_load_and_ends() {
        let began = Instant::now();
        let mut patience = Patience {
            limit: Duration::from_secs(10),
            spent: Duration::ZERO,
            until: began + Duration::from_secs(100),
            last: began.checked_sub(Duration::from_secs(30)).unwrap(),
            looked: began + Duration::from_secs(1000),
            crowd: 4.0,
        };
        assert!(!patience.is_spent(), "30 s beside a load of 4 are 7.5 s");
        patience.last = began.checked_sub(Duration::from_secs(12)).unwrap();
        assert!(patience.is_spent());
        let mut long = Patience { until: began, ..Patience::new(Duration::from_secs(10)) };
        assert!(long.is_spent(), "no load makes it endless");
    }

    #[test]
    fn a_condition_that_holds_late_is_seen() {
        let began = Instant::now();
        assert!(eventually(Duration::from_secs(10), || began.elapsed() > Duration::from_millis(30)));
        assert!(!eventually(Duration::from_millis(10), || false));
        let began = Instant::now();
        pause(Duration::from_millis(50));
        assert!(began.elapsed() >= Duration::from_millis(50), "never less than on an idle machine");
    }
}
