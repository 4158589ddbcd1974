// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The index: all lines in memory, each once, for a lookup at each keystroke.
//!
//! - `fit`: which of two lines fits better
//! - `base`: most of the lines, sorted; `tree`: the best line of any range of them
//! - `fresh`: lines that were added since the last sorting
//! - `sorter`: the thread that merges both
//!
//! A lookup allocates nothing. The number of its steps grows with the logarithm of the number of lines. In addition it
//! examines each fresh line; there are 32 of these while the thread keeps up.

mod base;
mod fit;
mod fresh;
mod sorter;
mod tree;

use std::collections::HashMap;
use std::sync::Arc;

use super::Entry;
use super::entry::usable;
use base::Base;
use fit::{Top, better};
use fresh::{Fresh, Line};
use sorter::Sorter;

pub use fit::{Found, LIST};

/// From this number of fresh lines on, the thread sorts them in.
const MOST_FRESH: usize = 32;
/// A longer text in the editor was pasted and not typed, so nothing is suggested for it.
const MOST_TYPED: usize = 1024;

/// All lines in memory.
#[derive(Debug, Default)]
pub struct Index {
    base: Arc<Base>,
    fresh: Fresh,
    /// The number of each directory, by name.
    directories: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    sorter: Sorter,
    /// How many uses were added so far.
    additions: u64,
    /// Lines that were deleted while the thread sorted; the thread's result still contains them.
    deleted: Vec<Box<str>>,
}

impl Index {
    /// Builds an index of the usable `entries` ([`Entry::is_usable`]), which may come in any order. This takes as long
    /// as sorting does, so don't call it where the user waits.
    #[must_use]
    pub fn build<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut index = Self::default();
        let mut lines: HashMap<&str, Line, foldhash::fast::RandomState> = HashMap::default();
        for entry in entries.into_iter().filter(|entry| entry.is_usable()) {
            let directory = index.directory(&entry.directory);
            let line = lines.entry(&entry.line).or_insert_with(|| Line::new(&entry.line));
            line.used(entry.went_well(), directory, entry.started);
        }
        let lines = lines.into_values().collect();
        index.base = Arc::new(sorter::merge(&index.base, lines, index.directories.len()));
        index
    }

    /// The whole line that fits best among the lines that begin with `typed` and are longer; `None` if nothing was
    /// typed.
    ///
    /// Lines that went well at least once come first, among them lines that were run in `directory`, among those the
    /// line that was run last. Nothing is suggested for more than 1 KiB. Allocates nothing.
    #[must_use]
    pub fn suggest(&self, typed: &str, directory: &str) -> Option<&str> {
        if typed.is_empty() || !can_be_asked(typed) {
            return None;
        }
        let directory = self.directories.get(directory).copied();
        let (from, to) = self.longer(typed);
        let mut best = if from < to { self.base.best(from, to, directory) } else { None };
        self.fresh.each_beginning(typed, directory, |found| {
            if found.line.len() > typed.len() {
                best = better(best, Some(found));
            }
        });
        Some(best?.line)
    }

    /// Puts the lines that fit best into `into`, the best first, at most [`LIST`], and returns how many. First come the
    /// lines that begin with `typed` and are longer, in the order of [`Index::suggest`], then the lines that contain
    /// it. With nothing typed: the best of all lines. Allocates nothing, but examines all lines when few begin with
    /// `typed`.
    pub fn list<'a>(&'a self, typed: &str, directory: &str, into: &mut [Found<'a>]) -> usize {
        if !can_be_asked(typed) {
            return 0;
        }
        let mut top = Top::new(into);
        let directory = self.directories.get(directory).copied();
        self.fresh.each_beginning(typed, directory, |found| {
            if found.line.len() > typed.len() {
                top.put(found);
            }
        });
        self.base.each_best(self.longer(typed), directory, |found| top.put(found));
        if !typed.is_empty() && !top.is_full() {
            self.fresh.each_containing(typed, directory, |found| top.put(found));
            self.base.each_containing(typed, directory, |fit, found| {
                if top.admits(fit) {
                    top.put(found());
                }
            });
        }
        top.len()
    }

    /// The positions of the lines that begin with `typed` and are longer.
    fn longer(&self, typed: &str) -> (usize, usize) {
        let (from, to) = self.base.range(typed.as_bytes());
        let same = from < to && self.base.line(from).len() == typed.len();
        (from + usize::from(same), to)
    }

    /// Adds a use of a command that ended, or about whose end nothing is known. Call it once per use. An unusable entry
    /// is left out.
    ///
    /// From time to time a thread sorts the fresh lines in, and the index then uses the thread's result. No caller
    /// waits.
    pub fn add(&mut self, entry: &Entry) {
        self.settle_within(false);
        self.put(entry);
        if self.fresh.len() >= MOST_FRESH && !self.sorter.is_busy() {
            self.sort();
        }
    }

    fn put(&mut self, entry: &Entry) {
        if !usable(&entry.line) {
            return;
        }
        let directory = self.directory(&entry.directory);
        self.additions += 1;
        let line = self.fresh.line(&self.base, &entry.line);
        line.used(entry.went_well(), directory, entry.started);
        line.changed = self.additions;
    }

    /// The number of a directory; `None` for an empty name.
    fn directory(&mut self, name: &str) -> Option<u32> {
        if name.is_empty() {
            return None;
        }
        if let Some(known) = self.directories.get(name) {
            return Some(*known);
        }
        let new = base::narrow(self.directories.len());
        self.directories.insert(name.into(), new);
        Some(new)
    }

    fn sort(&mut self) {
        self.deleted.clear();
        self.sorter.sort(&self.base, self.fresh.lines(), self.directories.len(), self.additions);
    }

    /// Removes a line, however often it was run. Returns whether it was there.
    pub fn delete(&mut self, line: &str) -> bool {
        let mut there = self.fresh.remove(line);
        if let Some(at) = self.base.find(line) {
            // Copies only while the thread reads the base. The text of the lines is not copied.
            Arc::make_mut(&mut self.base).remove(at);
            there = true;
        }
        if there && self.sorter.is_busy() {
            self.deleted.push(line.into());
        }
        there
    }

    /// Adopts all lines of `other`, which was built meanwhile. Lines that were added here stay.
    pub fn adopt(&mut self, other: Self) {
        self.settle_within(true);
        let mut names = vec![""; self.directories.len()];
        for (name, at) in &self.directories {
            names[*at as usize] = name;
        }
        let mut adopted = other;
        adopted.settle_within(true);
        let own = sorter::merge(&self.base, self.fresh.lines().to_vec(), self.directories.len());
        for at in 0..own.len() {
            let (good, last, uses) = own.record(at);
            adopted.additions += 1;
            let uses: Vec<_> =
                uses.map(|(name, last)| (adopted.directory(names[name as usize]), last)).collect();
            let line = adopted.fresh.line(&adopted.base, own.line(at));
            line.changed = adopted.additions;
            line.used(good, None, last);
            for (directory, last) in uses {
                line.used(good, directory, last);
            }
        }
        *self = adopted;
        if self.fresh.len() >= MOST_FRESH {
            self.sort();
        }
    }

    /// Waits until all added lines are sorted in.
    pub fn settle(&mut self) {
        self.settle_within(true);
        if self.fresh.len() > 0 {
            self.sort();
            self.settle_within(true);
        }
    }

    /// Takes the thread's result if it is ready; with `wait`, waits for it.
    fn settle_within(&mut self, wait: bool) {
        let Some(sorted) = self.sorter.take(wait) else { return };
        self.sorter.dispose(std::mem::replace(&mut self.base, sorted.base));
        self.fresh.retain(|line| line.changed > sorted.until);
        for line in self.deleted.drain(..) {
            if let Some(at) = self.base.find(&line) {
                Arc::make_mut(&mut self.base).remove(at);
            }
        }
    }

    /// About how many lines there are: a line that is both in the base and fresh counts twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.base.len() + self.fresh.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how much memory the index uses, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let directories = self.directories.keys().map(|name| name.len() + 40).sum::<usize>();
        self.base.memory() + self.fresh.memory() + directories
    }
}

/// Whether a lookup makes sense: no line has a NUL, and a user doesn't type that much.
fn can_be_asked(typed: &str) -> bool {
    typed.len() <= MOST_TYPED && memchr::memchr(0, typed.as_bytes()).is_none()
}

#[cfg(test)]
mod tests;
