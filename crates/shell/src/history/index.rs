// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All lines in memory, each once, for being asked at each keystroke.
//!
//! - `fit`: which line fits better
//! - `base`: the bulk, sorted; `tree`: the best of any range of it
//! - `fresh`: what was added since
//! - `sorter`: the thread that makes one of both
//!
//! Asking allocates nothing and takes a number of steps that grows with the logarithm of the number of lines,
//! besides a look at each fresh one, of which there are 32 while the thread keeps up.

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

/// So many fresh lines are worth sorting in.
const MOST_FRESH: usize = 32;
/// Whoever has typed more than so many bytes has pasted them, and isn't helped any more.
const MOST_TYPED: usize = 1024;

/// All lines in memory.
#[derive(Debug, Default)]
pub struct Index {
    base: Arc<Base>,
    fresh: Fresh,
    /// By name.
    directories: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    sorter: Sorter,
    /// How many uses were added.
    additions: u64,
    /// What was deleted while the thread sorted it in again.
    deleted: Vec<Box<str>>,
}

impl Index {
    /// An index of all that is usable ([`Entry::is_usable`]) among `entries`, which may come in any order. Takes as
    /// long as sorting does: do it where nobody waits.
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

    /// The whole line that fits best among those that begin with `typed` and go on; none if nothing was typed.
    ///
    /// Lines that went well at least once come first, of them those that were run in `directory`, of them the one
    /// run last. Nothing is suggested for more than 1 KiB. Allocates nothing.
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

    /// Puts the lines that fit best into `into`, at most [`LIST`], the best first, and says how many. First those that
    /// begin with `typed` and go on, in the order of [`Index::suggest`], then those that contain it. With nothing
    /// typed: the best of all. Allocates nothing, but looks through all lines when few begin with `typed`.
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

    /// The positions of what begins with `typed` and goes on.
    fn longer(&self, typed: &str) -> (usize, usize) {
        let (from, to) = self.base.range(typed.as_bytes());
        let same = from < to && self.base.line(from).len() == typed.len();
        (from + usize::from(same), to)
    }

    /// Adds a command that ended (or whose end is unknown), once each. What isn't usable is left out.
    ///
    /// From time to time it has a thread sort what is fresh, and goes on with what the thread made; nobody waits.
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

    /// The number of a directory; none of the empty name.
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

    /// Takes a line out, however often it was run. Says whether it was there.
    pub fn delete(&mut self, line: &str) -> bool {
        let mut there = self.fresh.remove(line);
        if let Some(at) = self.base.find(line) {
            // A copy is made only while the thread reads it; lines themselves aren't copied.
            Arc::make_mut(&mut self.base).remove(at);
            there = true;
        }
        if there && self.sorter.is_busy() {
            self.deleted.push(line.into());
        }
        there
    }

    /// Takes over all lines of `other`, which was made meanwhile; what was added here stays.
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

    /// Waits until all that was added is sorted in.
    pub fn settle(&mut self) {
        self.settle_within(true);
        if self.fresh.len() > 0 {
            self.sort();
            self.settle_within(true);
        }
    }

    /// Goes on with what the thread made, if it is ready, or once it is.
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

    /// How many lines there are, about: one that is both in the bulk and fresh counts twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.base.len() + self.fresh.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much memory it has, in bytes, about.
    #[must_use]
    pub fn memory(&self) -> usize {
        let directories = self.directories.keys().map(|name| name.len() + 40).sum::<usize>();
        self.base.memory() + self.fresh.memory() + directories
    }
}

/// No line has a NUL, and nobody types that much.
fn can_be_asked(typed: &str) -> bool {
    typed.len() <= MOST_TYPED && memchr::memchr(0, typed.as_bytes()).is_none()
}

#[cfg(test)]
mod tests;
