// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows which jobs run and how long the rest may take: one updated line on a terminal, an occasional line elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a line is printed where there is no terminal.
const PERIOD: Duration = Duration::from_secs(20);

/// The state of the progress display.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    total: usize,
    done: usize,
    failed: usize,
    /// Seconds of work as expected at the start, and the part of it that is done.
    work: f64,
    work_done: f64,
    began: Instant,
    told: Instant,
    running: Vec<Running>,
}

/// A job that hasn't ended.
#[derive(Debug)]
struct Running {
    job: usize,
    name: String,
    /// Seconds that it is expected to take.
    expected: f64,
    since: Instant,
}

impl Progress {
    /// `total`: the number of tests; `work`: the seconds that they are expected to take, one after the other.
    pub(crate) fn new(total: usize, work: f64) -> Progress {
        let now = Instant::now();
        Progress {
            terminal: std::io::stderr().is_terminal(),
            total,
            done: 0,
            failed: 0,
            work,
            work_done: 0.0,
            began: now,
            told: now,
            running: Vec::new(),
        }
    }

    /// A job has started that is expected to take `expected` seconds.
    pub(crate) fn started(&mut self, job: usize, name: String, expected: f64) {
        self.running.push(Running { job, name, expected, since: Instant::now() });
        self.tell(false);
    }

    /// A job has ended.
    pub(crate) fn ended(&mut self, job: usize, tests: usize, failed: usize, expected: f64) {
        self.running.retain(|running| running.job != job);
        self.done += tests;
        self.failed += failed;
        self.work_done += expected;
    }

    /// Prints how far the run is; where there is no terminal, only now and then.
    pub(crate) fn tell(&mut self, now: bool) {
        let every = if self.terminal { Duration::from_millis(200) } else { PERIOD };
        if !now && self.told.elapsed() < every {
            return;
        }
        self.told = Instant::now();
        let mut line = format!("{} of {} tests, {} failed", self.done, self.total, self.failed);
        if let Some(rest) = self.rest() {
            line.push_str(&format!(", about {} left", words(rest)));
        }
        let mut longest: Vec<_> = self.running.iter().collect();
        longest.sort_by_key(|running| running.since);
        for (number, running) in longest.iter().enumerate() {
            let before = if number == 0 { "; running: " } else { ", " };
            line.push_str(&format!("{before}{} ({} s)", running.name, running.since.elapsed().as_secs()));
        }
        let mut stderr = std::io::stderr().lock();
        let _nobody_reads = if self.terminal {
            let width =
                rustix::termios::tcgetwinsize(&stderr).map_or(80, |size| usize::from(size.ws_col.max(20)));
            let line: String = line.chars().take(width - 1).collect();
            write!(stderr, "\r\x1b[K{line}")
        } else {
            writeln!(stderr, "x test: {line}")
        };
    }

    /// Prints lines that stay.
    pub(crate) fn say(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let before = if self.terminal { "\r\x1b[K" } else { "" };
        let _nobody_reads = writeln!(stderr, "{before}{text}");
    }

    /// Ends the line that is updated in place.
    pub(crate) fn end(&self) {
        if self.terminal {
            let _nobody_reads = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// The expected rest at the pace so far. Half done jobs count, because where only a few long ones run, hardly any has ended.
    fn rest(&self) -> Option<Duration> {
        let passed = self.began.elapsed().as_secs_f64();
        let under_way: f64 = self
            .running
            .iter()
            .map(|running| running.since.elapsed().as_secs_f64().min(running.expected))
            .sum();
        let done = self.work_done + under_way;
        if done < 1.0 || passed < 1.0 {
            return None;
        }
        let rest = (self.work - done).max(0.0) * passed / done;
        Duration::try_from_secs_f64(rest).ok()
    }
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_follows_the_pace() {
        let mut progress = Progress::new(10, 100.0);
        assert_eq!(progress.rest(), None);
        progress.began = Instant::now() - Duration::from_secs(10);
        progress.started(0, "x".into(), 50.0);
        progress.ended(0, 5, 0, 50.0);
        let rest = progress.rest().unwrap().as_secs();
        assert!((9..=11).contains(&rest), "{rest}");
        // Another job is half done, and a third takes longer than expected.
        progress.started(1, "y".into(), 5.0);
        progress.started(2, "z".into(), 10.0);
        progress.running[0].since = Instant::now() - Duration::from_millis(2500);
        progress.running[1].since = Instant::now() - Duration::from_secs(30);
        // 37.5 of 100 are left, and 62.5 took 10 seconds.
        let rest = progress.rest().unwrap().as_secs_f64();
        assert!((5.9..=6.1).contains(&rest), "{rest}");
        assert_eq!(words(Duration::from_secs(99)), "99 s");
        assert_eq!(words(Duration::from_secs(121)), "3 min");
    }
}
