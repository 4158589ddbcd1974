// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines that were added since the base was sorted. Each has all that is known about it, including what the base knows.
//! So it fits at least as well here as there.

use std::sync::Arc;

use super::base::{self, Base};
use super::fit::{Fit, Found};

/// A line with all that is known about it.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) text: Arc<str>,
    pub(super) good: bool,
    pub(super) last: i64,
    /// For each directory, when the line was run there last.
    pub(super) uses: Vec<(u32, i64)>,
    /// The number of additions at the line's last change.
    pub(super) changed: u64,
}

impl Line {
    /// A line that was never run.
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.into(), good: false, last: i64::MIN, uses: Vec::new(), changed: 0 }
    }

    /// Records a use of the line.
    pub(super) fn used(&mut self, good: bool, directory: Option<u32>, last: i64) {
        self.good |= good;
        self.last = self.last.max(last);
        if let Some(directory) = directory {
            match self.uses.binary_search_by_key(&directory, |(directory, _last)| *directory) {
                Ok(at) => self.uses[at].1 = self.uses[at].1.max(last),
                Err(at) => self.uses.insert(at, (directory, last)),
            }
        }
    }

    fn fit(&self, begins: bool, directory: Option<u32>) -> Fit {
        let used = directory.and_then(|directory| {
            self.uses.binary_search_by_key(&directory, |(directory, _last)| *directory).ok()
        });
        let last = used.map_or(self.last, |at| self.uses[at].1);
        Fit { begins, good: self.good, here: used.is_some(), last }
    }
}

/// A few lines, sorted.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    /// The first eight bytes of each line.
    keys: Vec<u64>,
    lines: Vec<Line>,
}

impl Fresh {
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn find(&self, line: &str) -> Result<usize, usize> {
        self.lines.binary_search_by(|other| (*other.text).cmp(line))
    }

    /// The line. If it is only in the base, it is copied from there.
    pub(super) fn line(&mut self, base: &Base, text: &str) -> &mut Line {
        let at = self.find(text).unwrap_or_else(|at| {
            let mut line = Line::new(text);
            if let Some(known) = base.find(text) {
                let (good, last, uses) = base.record(known);
                (line.good, line.last, line.uses) = (good, last, uses.collect());
            }
            self.keys.insert(at, base::key(text.as_bytes()));
            self.lines.insert(at, line);
            at
        });
        &mut self.lines[at]
    }

    /// Removes a line. Returns whether it was there.
    pub(super) fn remove(&mut self, line: &str) -> bool {
        let found = self.find(line);
        if let Ok(at) = found {
            self.keys.remove(at);
            self.lines.remove(at);
        }
        found.is_ok()
    }

    /// Keeps only the lines for which `keep` is true.
    pub(super) fn retain(&mut self, keep: impl Fn(&Line) -> bool) {
        self.lines.retain(keep);
        self.keys.clear();
        self.keys.extend(self.lines.iter().map(|line| base::key(line.text.as_bytes())));
    }

    /// Passes all lines that begin with `typed` to `put`.
    pub(super) fn each_beginning<'a>(
        &'a self,
        typed: &str,
        directory: Option<u32>,
        mut put: impl FnMut(Found<'a>),
    ) {
        let (least, most) = base::keys(typed.as_bytes());
        let from = self.keys.partition_point(|key| *key < least);
        for (key, line) in self.keys[from..].iter().zip(&self.lines[from..]) {
            if *key > most {
                break;
            }
            if line.text.starts_with(typed) {
                put(Found { line: &line.text, fit: line.fit(true, directory) });
            }
        }
    }

    /// Passes all lines that contain `typed`, but don't begin with it, to `put`.
    pub(super) fn each_containing<'a>(
        &'a self,
        typed: &str,
        directory: Option<u32>,
        mut put: impl FnMut(Found<'a>),
    ) {
        let finder = memchr::memmem::Finder::new(typed.as_bytes());
        for line in &self.lines {
            if finder.find(line.text.as_bytes()).is_some_and(|at| at > 0) {
                put(Found { line: &line.text, fit: line.fit(false, directory) });
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        let of = |line: &Line| size_of::<Line>() + 16 + line.text.len() + 16 * line.uses.capacity();
        self.lines.iter().map(of).sum::<usize>() + 8 * self.keys.capacity()
    }
}
