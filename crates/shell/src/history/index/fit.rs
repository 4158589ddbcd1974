// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which of two lines fits better.
//!
//! The order of the criteria: a line that begins with what was typed comes before a line that only contains it. A line
//! that went well at least once comes before a line that never did. A line that was run in this directory comes before
//! a line that was run elsewhere. Then the line that was run last comes first (in this directory, if it was run here).
//! Lines that are equal in all this are ordered by their bytes.

use std::cmp::{Ordering, Reverse};

/// The length of a pick list: one line for each of the digits 1 to 9.
pub const LIST: usize = 9;

/// How well a line fits; a greater value fits better.
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
    /// Whether the line begins with what was typed; otherwise the line contains it.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.fit.begins
    }

    /// Whether the line went well at least once, as far as is known.
    #[must_use]
    pub fn went_well(&self) -> bool {
        self.fit.good
    }

    /// Whether the line was run in this directory.
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

/// The best lines so far, the best first, each line once.
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

    /// Whether a line with this fit could still get into the list.
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
