// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time that a test may take, which passes more slowly on a busy machine.

use std::time::{Duration, Instant};

/// A limit that grows with the machine's load: while twice as many processes want to run as there are processors, a
/// second counts as half a second.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: Duration,
    seen: Instant,
    hard: Instant,
}

/// No limit grows beyond this many times itself.
const MOST: u32 = 10;

impl Allowance {
    /// `limit`: on an idle machine.
    pub(crate) fn new(limit: Duration) -> Allowance {
        let now = Instant::now();
        Allowance { left: limit, seen: now, hard: now + limit * MOST }
    }

    /// Whether nothing is left of it. To be asked often: the load counts as it is at the question.
    pub(crate) fn is_used_up(&mut self) -> bool {
        let now = Instant::now();
        let passed = now.duration_since(self.seen);
        self.seen = now;
        self.left = self.left.saturating_sub(passed.div_f64(crowding()));
        self.left.is_zero() || now >= self.hard
    }
}

/// How many processes want each processor, at least 1: the average of the last minute, by `/proc/loadavg`.
fn crowding() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok()).unwrap_or(1.0);
    (load / f64::from(processors())).max(1.0)
}

/// How many processors there are.
pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_ends_and_not_before_its_time() {
        let mut allowance = Allowance::new(Duration::from_millis(40));
        let began = Instant::now();
        while !allowance.is_used_up() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(40), "{took:?}");
        assert!(crowding() >= 1.0);
    }
}
