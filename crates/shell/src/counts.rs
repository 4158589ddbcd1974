// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what the shell's modules did, over all sessions: lines, ghost text, the guard's rulings.
//!
//! - [`Tally`]: where modules count, as numbers in memory
//! - [`Counts`]: the same numbers with names, in the form in which they are stored
//! - [`MetricsThread`]: the thread that adds them to the file, so that the proxy never waits for a disk
//!
//! Lines that the user doesn't want remembered aren't counted: see [`modules::counts`](crate::modules::counts).

mod file;
mod metrics_thread;

use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

pub use file::{CountsError, FILE, read};
pub use metrics_thread::MetricsThread;

/// The number of latest rulings that are kept.
pub const LATEST: usize = 50;
/// The number of rules that have counts of their own. Further rules are counted in the sums only.
const RULES: usize = 2048;
/// The number of rulings that wait until [`Tally::take`]. Further ones are dropped.
const WAITING: usize = 64;
/// The number of characters that are kept of a line.
const SHOWN: usize = 200;

/// What the guard decided about a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    /// The line was run with a warning.
    Warned,
    /// The user was asked.
    Asked,
    /// The user was asked and confirmed the line.
    Confirmed,
    /// The line wasn't run.
    Blocked,
}

impl Ruling {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Warned, Self::Asked, Self::Confirmed, Self::Blocked];

    /// The ruling's name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Warned => "warned",
            Self::Asked => "asked",
            Self::Confirmed => "confirmed",
            Self::Blocked => "blocked",
        }
    }
}

/// One ruling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// When, in nanoseconds since 1970, UTC.
    pub time: i64,
    /// What was ruled.
    pub ruling: Ruling,
    /// The rule that decided.
    pub rule: String,
    /// The beginning of the line, if it may be kept.
    pub line: Option<String>,
}

/// How often each ruling was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rulings {
    /// Lines that were warned of.
    pub warned: u64,
    /// Lines that were asked about.
    pub asked: u64,
    /// Lines that were run after a question.
    pub confirmed: u64,
    /// Lines that weren't run.
    pub blocked: u64,
}

impl Rulings {
    /// How often this ruling was made.
    #[must_use]
    pub fn of(&self, ruling: Ruling) -> u64 {
        match ruling {
            Ruling::Warned => self.warned,
            Ruling::Asked => self.asked,
            Ruling::Confirmed => self.confirmed,
            Ruling::Blocked => self.blocked,
        }
    }

    fn count(&mut self, ruling: Ruling) {
        let number = match ruling {
            Ruling::Warned => &mut self.warned,
            Ruling::Asked => &mut self.asked,
            Ruling::Confirmed => &mut self.confirmed,
            Ruling::Blocked => &mut self.blocked,
        };
        *number = number.saturating_add(1);
    }

    fn add(&mut self, other: &Self) {
        self.warned = self.warned.saturating_add(other.warned);
        self.asked = self.asked.saturating_add(other.asked);
        self.confirmed = self.confirmed.saturating_add(other.confirmed);
        self.blocked = self.blocked.saturating_add(other.blocked);
    }
}

/// The counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// When counting began, in nanoseconds since 1970, UTC; 0 if nothing was counted.
    pub since: i64,
    /// Lines that were run.
    pub lines: u64,
    /// Of these, the lines that ended with another code than 0.
    pub failed: u64,
    /// Lines at which ghost text was shown.
    pub ghost_shown: u64,
    /// Times that ghost text, or a part of it, was taken.
    pub ghost_taken: u64,
    /// The guard's rulings.
    pub rulings: Rulings,
    /// The same by rule.
    pub rules: BTreeMap<String, Rulings>,
    /// The latest rulings, the newest last.
    pub latest: VecDeque<Told>,
}

impl Counts {
    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { since: _, lines, failed, ghost_shown, ghost_taken, rulings, rules: _, latest: _ } = self;
        [*lines, *failed, *ghost_shown, *ghost_taken].iter().all(|number| *number == 0)
            && *rulings == Rulings::default()
    }

    /// Counts a ruling.
    pub fn rule(&mut self, mut told: Told) {
        self.rulings.count(told.ruling);
        if let Some(line) = &mut told.line
            && let Some((end, _)) = line.char_indices().nth(SHOWN)
        {
            line.truncate(end);
            line.push('…');
        }
        if let Some(rulings) = self.rules.get_mut(&told.rule) {
            rulings.count(told.ruling);
        } else if self.rules.len() < RULES {
            self.rules.entry(told.rule.clone()).or_default().count(told.ruling);
        }
        self.latest.push_back(told);
        self.shorten();
    }

    /// Adds counts of another session or a later time.
    pub fn add(&mut self, other: &Self) {
        if self.since == 0 || (other.since != 0 && other.since < self.since) {
            self.since = other.since;
        }
        self.lines = self.lines.saturating_add(other.lines);
        self.failed = self.failed.saturating_add(other.failed);
        self.ghost_shown = self.ghost_shown.saturating_add(other.ghost_shown);
        self.ghost_taken = self.ghost_taken.saturating_add(other.ghost_taken);
        self.rulings.add(&other.rulings);
        for (rule, rulings) in &other.rules {
            if self.rules.contains_key(rule) || self.rules.len() < RULES {
                self.rules.entry(rule.clone()).or_default().add(rulings);
            }
        }
        self.latest.extend(other.latest.iter().cloned());
        self.latest.make_contiguous().sort_by_key(|told| told.time);
        self.shorten();
    }

    fn shorten(&mut self) {
        while self.latest.len() > LATEST {
            self.latest.pop_front();
        }
    }
}

/// Where modules count while they handle a key. Counting allocates nothing, except for rulings, which come only at
/// Enter.
#[derive(Debug, Default)]
pub struct Tally {
    /// Lines that were run.
    pub lines: Cell<u64>,
    /// Of these, those that failed.
    pub failed: Cell<u64>,
    /// Lines at which ghost text was shown.
    pub ghost_shown: Cell<u64>,
    /// Times that ghost text, or a part of it, was taken.
    pub ghost_taken: Cell<u64>,
    rulings: RefCell<Vec<Told>>,
}

impl Tally {
    /// Adds one to a number.
    pub fn count(number: &Cell<u64>) {
        number.set(number.get().saturating_add(1));
    }

    /// Counts a ruling of the guard, with the whole line. If no module calls [`Tally::take`], further rulings are
    /// dropped.
    pub fn rule(&self, told: Told) {
        let mut rulings = self.rulings.borrow_mut();
        if rulings.len() < WAITING {
            rulings.push(told);
        }
    }

    /// Returns what was counted since the last call. `keeps` selects the rulings that are kept, and can change them.
    pub fn take(&self, now: i64, keeps: impl Fn(Told) -> Option<Told>) -> Counts {
        let mut counts = Counts {
            since: now,
            lines: self.lines.take(),
            failed: self.failed.take(),
            ghost_shown: self.ghost_shown.take(),
            ghost_taken: self.ghost_taken.take(),
            ..Counts::default()
        };
        for told in self.rulings.borrow_mut().drain(..) {
            if let Some(told) = keeps(told) {
                counts.rule(told);
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(time: i64, ruling: Ruling, rule: &str) -> Told {
        Told { time, ruling, rule: rule.to_owned(), line: Some("x".repeat(300)) }
    }

    #[test]
    fn sums_are_those_of_the_parts() {
        let (mut one, mut other) = (Counts::default(), Counts { since: 5, lines: 3, ..Counts::default() });
        one.since = 9;
        one.rule(told(2, Ruling::Asked, "a/b"));
        one.rule(told(4, Ruling::Confirmed, "a/b"));
        other.rule(told(3, Ruling::Blocked, "mine"));
        let mut sum = one.clone();
        sum.add(&other);
        assert_eq!((sum.since, sum.lines, sum.rulings.asked, sum.rulings.blocked), (5, 3, 1, 1));
        assert_eq!(sum.rules["a/b"], Rulings { asked: 1, confirmed: 1, ..Rulings::default() });
        assert_eq!(sum.latest.iter().map(|told| told.time).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(sum.latest[0].line.as_deref().map(|line| line.chars().count()), Some(SHOWN + 1));
        let mut back = other;
        back.add(&one);
        assert_eq!(back, sum);
        assert!(!sum.is_empty() && Counts { since: 4, ..Counts::default() }.is_empty());
    }

    #[test]
    fn what_is_kept_stays_small() {
        let mut counts = Counts::default();
        for number in 0..10_000 {
            counts.rule(told(number, Ruling::Warned, &format!("rule {number}")));
        }
        assert_eq!((counts.rules.len(), counts.latest.len(), counts.rulings.warned), (RULES, LATEST, 10_000));
        let mut sum = counts.clone();
        sum.add(&counts);
        assert_eq!((sum.rules.len(), sum.latest.len(), sum.rulings.warned), (RULES, LATEST, 20_000));
        let tally = Tally::default();
        for number in 0..1000 {
            tally.rule(told(number, Ruling::Warned, "x"));
        }
        assert_eq!(tally.take(1, Some).rulings.warned, 64);
        assert!(tally.take(1, Some).is_empty());
    }
}
