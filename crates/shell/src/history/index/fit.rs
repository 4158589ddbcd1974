// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of two lines fits better.
//!
//! What begins with what was typed comes before what only contains it, what went well at least once before what
//! never did, what was run in this directory before what was run elsewhere, and then what was run last (in this
//! directory, if it was run here). Of lines that are the same in all this, the first by its bytes.

use std::cmp::{Ordering, Reverse};

/// How many lines a pick list has: one for each of the digits 1 to 9.
pub const LIST: usize = 9;

/// How well a line fits; the greater, the better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fit {
    pub(super) begins: bool,
    pub(super) good: bool,
    pub(super) here: bool,
    pub(super) last: i64,
}

/// A line for a pick list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found<'a> {
    /// The line.
    pub line: &'a str,
    pub(super) fit: Fit,
}

impl Found<'_> {
    /// Whether it begins with what was typed; otherwise it contains it.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.fit.begins
    }

    /// Whether it went well at least once, for all that is known.
    #[must_use]
    pub fn went_well(&self) -> bool {
        self.fit.good
    }

    /// Whether it was run in this directory.
    #[must_use]
    pub fn is_from_here(&self) -> bool {
        self.fit.here
    }

    /// When it was last run (in this directory, if it was run here), in nanoseconds since 1970, UTC.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.fit.last
    }

    pub(super) fn order(&self, other: &Self) -> Ordering {
        (self.fit, Reverse(self.line)).cmp(&(other.fit, Reverse(other.line)))
    }
}

/// The better of two.
pub(super) fn better<'a>(one: Option<Found<'a>>, other: Option<Found<'a>>) -> Option<Found<'a>> {
    match (one, other) {
        (Some(one), Some(other)) if other.order(&one) == Ordering::Greater => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

/// The best so far, the best first, each line once.
#[derive(Debug)]
pub(super) struct Top<'t, 'a> {
    into: &'t mut [Found<'a>],
    used: usize,
}

impl<'t, 'a> Top<'t, 'a> {
    pub(super) fn new(into: &'t mut [Found<'a>]) -> Self {
        let most = into.len().min(LIST);
        Self { into: &mut into[..most], used: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.into.len()
    }

    /// Whether one that fits like this could still get in.
    pub(super) fn admits(&self, fit: Fit) -> bool {
        !self.is_full() || self.used > 0 && fit >= self.into[self.used - 1].fit
    }

    pub(super) fn put(&mut self, found: Found<'a>) {
        let same = self.into[..self.used].iter().position(|other| other.line == found.line);
        match same {
            Some(at) if self.into[at].fit >= found.fit => return,
            Some(at) => {
                self.into.copy_within(at + 1..self.used, at);
                self.used -= 1;
            }
            None => {}
        }
        let at = self.into[..self.used].partition_point(|other| other.order(&found) == Ordering::Greater);
        if at == self.into.len() {
            return;
        }
        let kept = self.used.min(self.into.len() - 1);
        self.into.copy_within(at..kept, at + 1);
        self.into[at] = found;
        self.used = kept + 1;
    }
}
