// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An index from an attribute's value to the rows whose condition on the attribute holds.
//!
//! The index keeps a list of rows for each value that some rule names. A list has words of bits, none of them zero,
//! with one segment for each group of rows ([`super::group`]). A value that no rule names has no list, and thousands of
//! values with a row each cost a few bytes each. For the mixed group, the index also keeps the rows without a
//! condition, as bits with a summary (a bit per word). In every other group, either all rows have a condition on the
//! attribute or none.

use std::collections::HashMap;
use std::ops::Range;

use crate::rule::{GLOB, glob};

use super::dimension::{Dimension, Value};
use super::group::Group;
use super::rows::Condition;

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A list of rows: its range in [`Words::segments`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct List {
    from: u32,
    to: u32,
}

/// A list's rows in one group: the range of [`Words`] with their bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Segment {
    pub(super) group: u32,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// The words of all lists, one list after the other: the number of each word, and its bits.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) at: Vec<u32>,
    pub(super) bits: Vec<u64>,
    pub(super) segments: Vec<Segment>,
}

/// Bits of the mixed group's rows, and a bit for each word that isn't zero.
#[derive(Debug, Default)]
pub(super) struct Bits {
    first_word: u32,
    words: Vec<u64>,
    summary: Vec<u64>,
}

/// The values of one dimension.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The mixed group's rows without a condition here.
    pub(super) free: Bits,
    numbers: Map<u32, List>,
    texts: Map<Box<[u8]>, List>,
    prefixes: Prefixes<List>,
    globs: Globs,
    flags: [List; 4],
}

/// An index that is being built: rows, in order, by value.
#[derive(Debug, Default)]
pub(super) struct Collected {
    conditional: Vec<u32>,
    numbers: Map<u32, Vec<u32>>,
    texts: Map<Box<[u8]>, Vec<u32>>,
    flags: [Vec<u32>; 4],
}

/// Texts that are found by a text that begins with them. They are sorted. Each one has the longest other text that it
/// begins with.
#[derive(Debug)]
struct Prefixes<T> {
    texts: Vec<Box<[u8]>>,
    values: Vec<(Option<u32>, T)>,
}

/// Patterns that are found by their last component, or else by their beginning.
#[derive(Debug, Default)]
struct Globs {
    patterns: Vec<(Box<[u8]>, List)>,
    by_tail: Map<Box<[u8]>, Vec<u32>>,
    by_head: Prefixes<Vec<u32>>,
}

impl Words {
    /// Appends a list of rows, which are in order.
    fn push(&mut self, rows: &[u32], groups: &[Group]) -> List {
        let from = self.segments.len();
        let mut group = 0;
        let mut end = 0;
        for &row in rows {
            if row >= end {
                group += groups[group..].partition_point(|group| group.end <= row);
                end = groups[group].end;
                let start = index(self.at.len());
                self.segments.push(Segment { group: index(group), from: start, to: start });
            }
            let Some(segment) = self.segments.last_mut() else { continue };
            let word = row / 64;
            if segment.from == segment.to || self.at.last() != Some(&word) {
                self.at.push(word);
                self.bits.push(0);
                segment.to += 1;
            }
            if let Some(bits) = self.bits.last_mut() {
                *bits |= 1 << (row % 64);
            }
        }
        List { from: index(from), to: index(self.segments.len()) }
    }
}

impl Bits {
    /// All rows of a group except these.
    fn without(group: &Group, excluded: &[u32]) -> Self {
        let first_word = group.start / 64;
        let mut words = vec![!0u64; (group.end.div_ceil(64) - first_word) as usize];
        if let (Some(last), 1..) = (words.last_mut(), group.end % 64) {
            *last = (1 << (group.end % 64)) - 1;
        }
        for &row in excluded.iter().filter(|&&row| row >= group.start) {
            words[(row / 64 - first_word) as usize] &= !(1 << (row % 64));
        }
        let summary = words
            .chunks(64)
            .map(|chunk| chunk.iter().rev().fold(0, |bits, &word| bits << 1 | u64::from(word != 0)))
            .collect();
        Self { first_word, words, summary }
    }

    /// A word of the group.
    pub(super) fn word(&self, word: u32) -> u64 {
        self.words.get((word - self.first_word) as usize).copied().unwrap_or(0)
    }

    /// The first word from `word` that isn't zero.
    pub(super) fn next_word(&self, word: u32) -> Option<u32> {
        let word = word - self.first_word;
        let mut at = (word / 64) as usize;
        let mut bits = self.summary.get(at)? & (!0 << (word % 64));
        while bits == 0 {
            at += 1;
            bits = *self.summary.get(at)?;
        }
        Some(self.first_word + index(at) * 64 + bits.trailing_zeros())
    }
}

impl Collected {
    /// Adds a row's condition. Rows must come in order.
    pub(super) fn add(&mut self, row: u32, condition: &Condition<'_>) {
        self.conditional.push(row);
        match condition {
            Condition::Numbers(numbers) => {
                for number in numbers {
                    note(self.numbers.entry(*number).or_default(), row);
                }
            }
            Condition::Texts(texts) => {
                for text in texts {
                    match self.texts.get_mut(*text) {
                        Some(rows) => note(rows, row),
                        None => drop(self.texts.insert((*text).into(), vec![row])),
                    }
                }
            }
            Condition::Flags(flags) => {
                for (flag, rows) in self.flags.iter_mut().enumerate() {
                    if flags >> flag & 1 == 1 {
                        rows.push(row);
                    }
                }
            }
        }
    }
}

impl Index {
    pub(super) fn build(
        dimension: Dimension,
        collected: Collected,
        groups: &[Group],
        words: &mut Words,
    ) -> Self {
        let mut built = Self::default();
        if let Some(mixed) = groups.last().filter(|group| group.is_mixed) {
            built.free = Bits::without(mixed, &collected.conditional);
        }
        built.flags = collected.flags.map(|rows| words.push(&rows, groups));
        built.numbers =
            collected.numbers.into_iter().map(|(number, rows)| (number, words.push(&rows, groups))).collect();
        let texts = collected.texts.into_iter().map(|(text, rows)| (text, words.push(&rows, groups)));
        if dimension.is_by_prefix() {
            built.prefixes = Prefixes::new(texts.collect());
        } else if matches!(dimension, Dimension::Path | Dimension::Exe) {
            let (patterns, texts): (Vec<_>, Vec<_>) = texts.partition(|(text, _)| text.starts_with(GLOB));
            built.texts = texts.into_iter().collect();
            built.globs = Globs::new(patterns);
        } else {
            built.texts = texts.collect();
        }
        built
    }

    /// Calls `found` with every list of rows whose condition holds for this value.
    pub(super) fn look_up(&self, dimension: Dimension, value: &Value<'_>, found: &mut dyn FnMut(List)) {
        let mut tell = |list: Option<&List>| {
            if let Some(list) = list
                && list.from < list.to
            {
                found(*list);
            }
        };
        match value {
            Value::Nothing => {}
            Value::Flag(flag) => tell(self.flags.get(*flag)),
            Value::Number(number) => tell(self.numbers.get(number)),
            Value::Numbers(numbers) => {
                for (index, number) in numbers.iter().enumerate() {
                    // Most processes have the same user id four times.
                    if index == 0 || numbers[index - 1] != *number {
                        tell(self.numbers.get(number));
                    }
                }
            }
            Value::Text(text) if dimension.is_by_prefix() => {
                self.prefixes.of(text, &mut |list| tell(Some(list)));
            }
            Value::Text(text) => {
                tell(self.texts.get(*text));
                if !self.globs.patterns.is_empty() {
                    self.globs.matching(text, &mut |list| tell(Some(list)));
                }
            }
        }
    }
}

impl<T> Default for Prefixes<T> {
    fn default() -> Self {
        Self { texts: Vec::new(), values: Vec::new() }
    }
}

impl<T> Prefixes<T> {
    fn new(mut entries: Vec<(Box<[u8]>, T)>) -> Self {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let mut built = Self { texts: Vec::new(), values: Vec::new() };
        for (text, value) in entries {
            // The longest text that this one begins with is the one before, or one that the one before begins with.
            let mut parent = built.texts.len().checked_sub(1);
            while let Some(at) = parent.filter(|&at| !text.starts_with(&built.texts[at])) {
                parent = built.values[at].0.map(|at| at as usize);
            }
            built.texts.push(text);
            built.values.push((parent.map(index), value));
        }
        built
    }

    /// Calls `found` for every known text that `text` begins with. These texts are prefixes of one another. The longest
    /// is the last known text that isn't greater than `text`, or a prefix of that one.
    fn of(&self, text: &[u8], found: &mut dyn FnMut(&T)) {
        let mut next = self.texts.partition_point(|known| **known <= *text).checked_sub(1);
        let mut begins = false;
        while let Some(at) = next {
            begins = begins || text.starts_with(&self.texts[at]);
            let (parent, value) = &self.values[at];
            if begins {
                found(value);
            }
            next = parent.map(|at| at as usize);
        }
    }
}

impl Globs {
    fn new(patterns: Vec<(Box<[u8]>, List)>) -> Self {
        let mut built = Self::default();
        let mut by_head: Map<Box<[u8]>, Vec<u32>> = Map::default();
        for (text, list) in patterns {
            let pattern = &text[GLOB.len()..];
            let id = index(built.patterns.len());
            let (map, key) = match glob::literal_tail(pattern) {
                Some(tail) => (&mut built.by_tail, tail),
                None => (&mut by_head, glob::literal_head(pattern)),
            };
            map.entry(key.into()).or_default().push(id);
            built.patterns.push((pattern.into(), list));
        }
        built.by_head = Prefixes::new(by_head.into_iter().collect());
        built
    }

    fn matching(&self, path: &[u8], found: &mut dyn FnMut(&List)) {
        let mut try_each = |candidates: &Vec<u32>| {
            for &id in candidates {
                let (pattern, list) = &self.patterns[id as usize];
                if glob::matches(pattern, path) {
                    found(list);
                }
            }
        };
        if let Some(slash) = path.iter().rposition(|&byte| byte == b'/')
            && let Some(candidates) = self.by_tail.get(&path[slash..])
        {
            try_each(candidates);
        }
        self.by_head.of(path, &mut try_each);
    }
}

fn note(rows: &mut Vec<u32>, row: u32) {
    if rows.last() != Some(&row) {
        rows.push(row);
    }
}

/// A position as the index keeps it. Rules are numbered in 31 bits, and a rule has four rows and a few values.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl List {
    /// The range in [`Words::segments`].
    pub(super) fn range(self) -> Range<usize> {
        self.from as usize..self.to as usize
    }
}
