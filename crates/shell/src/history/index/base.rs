// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The base of the index: most of the lines, sorted, each once. It never changes, except that lines can be removed.
//!
//! All lines that begin with the same text form one range. A tree finds the best line of a range. There is one tree
//! over all lines, and for each directory one tree over the lines that were run there.

use std::cmp::Reverse;
use std::sync::Arc;

use super::fit::{Fit, Found, LIST};
use super::tree::{self, Descending};

/// The number of ranges that are open at once while the best [`LIST`] lines of one range are taken.
const OPEN: usize = LIST + 2;

/// The number of keys in eight cache lines.
const PART: usize = 64;

/// The sorted lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Base {
    /// The lines, a NUL after each.
    text: Arc<String>,
    /// Where each line begins in `text`, and the end of `text`.
    starts: Vec<u32>,
    /// The first eight bytes of each line, so that most of a search reads no line.
    keys: Vec<u64>,
    /// Each [`PART`]th key.
    parts: Vec<u64>,
    good: Vec<bool>,
    last: Vec<i64>,
    /// Ranks by position. `by_rank` has the positions by rank - 1.
    tree: Vec<u32>,
    by_rank: Vec<u32>,
    /// Where the uses of each line begin, and the end.
    uses: Vec<u32>,
    /// By line, then by directory: the directory. `use_last` has the time of the last run there.
    use_directory: Vec<u32>,
    use_last: Vec<i64>,
    /// Where the lines of each directory begin, and the end.
    places: Vec<u32>,
    /// By directory, then by position.
    place_lines: Vec<u32>,
    place_tree: Vec<u32>,
    place_by_rank: Vec<u32>,
}

/// The first eight bytes of a line, as a number with the same order.
pub(super) fn key(line: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = line.len().min(8);
    first[..length].copy_from_slice(&line[..length]);
    u64::from_be_bytes(first)
}

/// The range of keys of all lines that begin with `typed`.
pub(super) fn keys(typed: &[u8]) -> (u64, u64) {
    let from = key(typed);
    let rest = u64::MAX.checked_shr(u32::try_from(8 * typed.len()).unwrap_or(u32::MAX)).unwrap_or(0);
    (from, from | rest)
}

pub(super) fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Base {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of lines, of bytes of text, and of uses.
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.len(), self.text.len(), self.use_last.len())
    }

    pub(super) fn line(&self, at: usize) -> &str {
        &self.text[self.starts[at] as usize..self.starts[at + 1] as usize - 1]
    }

    fn bytes(&self, at: usize) -> &[u8] {
        &self.text.as_bytes()[self.starts[at] as usize..self.starts[at + 1] as usize - 1]
    }

    /// The positions of all lines that begin with `typed`, which has no NUL.
    pub(super) fn range(&self, typed: &[u8]) -> (usize, usize) {
        let (least, most) = keys(typed);
        // The part is found among few keys, which stay in the cache.
        let part = self.parts.partition_point(|key| *key < least).saturating_sub(1) * PART;
        let end = (part + PART).min(self.keys.len());
        let from = part + self.keys[part..end].partition_point(|key| *key < least);
        let to = gallop(from, self.keys.len(), |at| self.keys[at] > most);
        if typed.len() <= 8 || from == to {
            return (from, to);
        }
        let (from, alike) = self.first_from(from, to, typed);
        if alike < typed.len() {
            return (from, from);
        }
        (from, gallop(from + 1, to, |at| !self.bytes(at).starts_with(typed)))
    }

    /// The first line of `from..to` that isn't less than `typed`, and how many bytes they have in common. All lines in
    /// `from..to` have the first eight bytes of `typed`. Bytes that both ends have in common with `typed` are common to
    /// all lines between.
    fn first_from(&self, mut from: usize, mut to: usize, typed: &[u8]) -> (usize, usize) {
        let (mut before, mut after) = (8, 8);
        let end = to;
        while from < to {
            let middle = from + (to - from) / 2;
            let line = self.bytes(middle);
            let alike = alike(line, typed, before.min(after));
            if alike == typed.len() || line.get(alike).is_some_and(|byte| *byte > typed[alike]) {
                (to, after) = (middle, alike);
            } else {
                (from, before) = (middle + 1, alike);
            }
        }
        (from, if from == end { 0 } else { after })
    }

    /// The position of a line, unless it was removed.
    pub(super) fn find(&self, line: &str) -> Option<usize> {
        let (at, to) = self.range(line.as_bytes());
        (at < to && self.bytes(at).len() == line.len() && self.is_there(at)).then_some(at)
    }

    pub(super) fn is_there(&self, at: usize) -> bool {
        self.tree[self.len() + at] != 0
    }

    /// Whether a line went well, when it was run last, and in which directories with the time of the last run.
    pub(super) fn record(&self, at: usize) -> (bool, i64, impl Iterator<Item = (u32, i64)>) {
        let uses = self.uses[at] as usize..self.uses[at + 1] as usize;
        let uses = self.use_directory[uses.clone()].iter().copied().zip(self.use_last[uses].iter().copied());
        (self.good[at], self.last[at], uses)
    }

    fn last_here(&self, at: usize, directory: Option<u32>) -> Option<i64> {
        let uses = self.uses[at] as usize..self.uses[at + 1] as usize;
        let found = self.use_directory[uses.clone()].binary_search(&directory?).ok()?;
        Some(self.use_last[uses][found])
    }

    fn found(&self, at: usize, begins: bool, directory: Option<u32>) -> Found<'_> {
        let here = self.last_here(at, directory);
        let last = here.unwrap_or(self.last[at]);
        Found { line: self.line(at), fit: Fit { begins, good: self.good[at], here: here.is_some(), last } }
    }

    /// A directory's tree, the positions of its lines, and these by rank.
    fn place(&self, directory: Option<u32>) -> Option<(&[u32], &[u32], &[u32])> {
        let directory = directory? as usize;
        let from = *self.places.get(directory)? as usize;
        let to = *self.places.get(directory + 1)? as usize;
        Some((&self.place_tree[2 * from..2 * to], &self.place_lines[from..to], &self.place_by_rank[from..to]))
    }

    /// The best line in a range.
    pub(super) fn best(&self, from: usize, to: usize, directory: Option<u32>) -> Option<Found<'_>> {
        let here = self.place(directory).and_then(|(ranks, lines, by_rank)| {
            let (from, to) = within(lines, from, to);
            let best = tree::greatest(ranks, from, to).checked_sub(1)?;
            Some(lines[by_rank[best as usize] as usize] as usize)
        });
        if let Some(here) = here.filter(|here| self.good[*here]) {
            return Some(self.found(here, true, directory));
        }
        let best = tree::greatest(&self.tree, from, to).checked_sub(1)?;
        let best = self.by_rank[best as usize] as usize;
        let best = here.filter(|_| !self.good[best]).unwrap_or(best);
        Some(self.found(best, true, directory))
    }

    /// Passes the best [`LIST`] lines of a range to `put`, perhaps with more lines. (It is enough to take the best
    /// lines of the directory and the best of all lines: a line that is in neither set has enough better lines before
    /// it.)
    pub(super) fn each_best<'a>(
        &'a self,
        (from, to): (usize, usize),
        directory: Option<u32>,
        mut put: impl FnMut(Found<'a>),
    ) {
        if let Some((ranks, lines, by_rank)) = self.place(directory) {
            let (from, to) = within(lines, from, to);
            let at = |rank: u32| by_rank[rank as usize - 1] as usize;
            let mut best = Descending::<OPEN>::new(ranks, from, to);
            for _ in 0..LIST {
                let Some(rank) = best.next(at) else { break };
                put(self.found(lines[at(rank)] as usize, true, directory));
            }
        }
        let at = |rank: u32| self.by_rank[rank as usize - 1] as usize;
        let mut best = Descending::<OPEN>::new(&self.tree, from, to);
        for _ in 0..LIST {
            let Some(rank) = best.next(at) else { break };
            put(self.found(at(rank), true, directory));
        }
    }

    /// Passes all lines that contain `typed`, but don't begin with it, to `put`.
    pub(super) fn each_containing<'a>(
        &'a self,
        typed: &str,
        directory: Option<u32>,
        mut put: impl FnMut(Fit, &dyn Fn() -> Found<'a>),
    ) {
        let text = self.text.as_bytes();
        let finder = memchr::memmem::Finder::new(typed.as_bytes());
        let (mut from, mut at) = (0, 0);
        while let Some(hit) = finder.find(&text[from..]) {
            let hit = narrow(from + hit);
            // Hits come in the order of the lines. The next one is near if there are many.
            let mut step = 1;
            while self.starts.get(at + step).is_some_and(|start| *start <= hit) {
                at += step;
                step *= 2;
            }
            at += self.starts[at..].partition_point(|start| *start <= hit) - 1;
            from = self.starts[at + 1] as usize;
            if self.is_there(at) && self.starts[at] != hit {
                // The best case: the line was run in this directory.
                let fit = Fit { begins: false, good: self.good[at], here: true, last: self.last[at] };
                put(fit, &|| self.found(at, false, directory));
            }
        }
    }

    /// Removes a line.
    pub(super) fn remove(&mut self, at: usize) {
        tree::clear(&mut self.tree, at);
        for directory in &self.use_directory[self.uses[at] as usize..self.uses[at + 1] as usize] {
            let directory = *directory as usize;
            let (from, to) = (self.places[directory] as usize, self.places[directory + 1] as usize);
            if let Ok(found) = self.place_lines[from..to].binary_search(&narrow(at)) {
                tree::clear(&mut self.place_tree[2 * from..2 * to], found);
            }
        }
    }

    /// How much memory the base uses, in bytes.
    pub(super) fn memory(&self) -> usize {
        let words = [
            &self.starts,
            &self.tree,
            &self.by_rank,
            &self.uses,
            &self.use_directory,
            &self.places,
            &self.place_lines,
            &self.place_tree,
            &self.place_by_rank,
        ];
        self.text.capacity()
            + 4 * words.iter().map(|words| words.capacity()).sum::<usize>()
            + 8 * (self.keys.capacity()
                + self.parts.capacity()
                + self.last.capacity()
                + self.use_last.capacity())
            + self.good.capacity()
    }
}

/// The first index of `from..to` for which `holds` is true; it is then true for all later ones. Fast if the result is
/// near `from`.
fn gallop(from: usize, to: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (from, 1);
    while low + step <= to && !holds(low + step - 1) {
        low += step;
        step *= 2;
    }
    let mut high = (low + step - 1).min(to);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// How many bytes two texts have in common at their beginning. The first `known` bytes are known to be equal.
fn alike(one: &[u8], other: &[u8], known: usize) -> usize {
    let length = one.len().min(other.len());
    let (one, other) = (&one[..length], &other[..length]);
    let mut at = known;
    while at + 32 <= length && one[at..at + 32] == other[at..at + 32] {
        at += 32;
    }
    at + one[at..].iter().zip(&other[at..]).take_while(|(one, other)| one == other).count()
}

/// Which of `lines`, in ascending order, are in `from..to`.
fn within(lines: &[u32], from: usize, to: usize) -> (usize, usize) {
    let (from, to) = (narrow(from), narrow(to));
    let start = lines.partition_point(|line| *line < from);
    (start, start + lines[start..].partition_point(|line| *line < to))
}

/// Builds a [`Base`] from lines in ascending order.
#[derive(Debug)]
pub(super) struct Builder {
    base: Base,
    text: String,
}

impl Builder {
    pub(super) fn new(lines: usize, text: usize, uses: usize) -> Self {
        let base = Base {
            starts: Vec::with_capacity(lines + 1),
            keys: Vec::with_capacity(lines),
            good: Vec::with_capacity(lines),
            last: Vec::with_capacity(lines),
            uses: Vec::with_capacity(lines + 1),
            use_directory: Vec::with_capacity(uses),
            use_last: Vec::with_capacity(uses),
            ..Base::default()
        };
        Self { base, text: String::with_capacity(text) }
    }

    /// Adds a line, greater than all before it, with its uses by directory. A line for which there is no room is left
    /// out: all lines together may have 4 GiB.
    pub(super) fn push(
        &mut self,
        line: &str,
        good: bool,
        last: i64,
        uses: impl IntoIterator<Item = (u32, i64)>,
    ) {
        let Self { base, text } = self;
        if u32::try_from(text.len() + line.len() + 1).is_err() {
            return;
        }
        base.starts.push(narrow(text.len()));
        text.push_str(line);
        text.push('\0');
        base.keys.push(key(line.as_bytes()));
        base.good.push(good);
        base.last.push(last);
        base.uses.push(narrow(base.use_last.len()));
        for (directory, last) in uses {
            base.use_directory.push(directory);
            base.use_last.push(last);
        }
    }

    /// Computes the ranks and returns the base.
    pub(super) fn finish(self, directories: usize) -> Base {
        let Self { mut base, text } = self;
        let n = base.len();
        base.starts.push(narrow(text.len()));
        base.uses.push(narrow(base.use_last.len()));
        base.text = Arc::new(text);
        base.parts = base.keys.iter().copied().step_by(PART).collect();
        let rank = |at: u32| (base.good[at as usize], base.last[at as usize], Reverse(at));
        let mut by_rank: Vec<u32> = (0..narrow(n)).collect();
        by_rank.sort_unstable_by_key(|at| rank(*at));
        base.tree = ranked(&by_rank);
        base.by_rank = by_rank;

        base.places = vec![0; directories + 1];
        for directory in &base.use_directory {
            base.places[*directory as usize + 1] += 1;
        }
        for at in 0..directories {
            base.places[at + 1] += base.places[at];
        }
        let mut next = base.places.clone();
        let mut lasts = vec![0; base.use_last.len()];
        base.place_lines = vec![0; base.use_last.len()];
        for at in 0..n {
            for used in base.uses[at] as usize..base.uses[at + 1] as usize {
                let slot = &mut next[base.use_directory[used] as usize];
                base.place_lines[*slot as usize] = narrow(at);
                lasts[*slot as usize] = base.use_last[used];
                *slot += 1;
            }
        }
        base.place_tree = Vec::with_capacity(2 * lasts.len());
        base.place_by_rank = Vec::with_capacity(lasts.len());
        for directory in 0..directories {
            let (from, to) = (base.places[directory] as usize, base.places[directory + 1] as usize);
            let (lines, lasts) = (&base.place_lines[from..to], &lasts[from..to]);
            let mut by_rank: Vec<u32> = (0..narrow(to - from)).collect();
            by_rank.sort_unstable_by_key(|at| {
                (base.good[lines[*at as usize] as usize], lasts[*at as usize], Reverse(*at))
            });
            base.place_tree.extend(ranked(&by_rank));
            base.place_by_rank.extend(by_rank);
        }
        base
    }
}

/// The tree over the positions, which are given in the order of their ranks.
fn ranked(by_rank: &[u32]) -> Vec<u32> {
    let n = by_rank.len();
    let mut tree = vec![0; 2 * n];
    for (rank, at) in by_rank.iter().enumerate() {
        tree[n + *at as usize] = narrow(rank + 1);
    }
    tree::grow(&mut tree);
    tree
}
