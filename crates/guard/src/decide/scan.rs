// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One decision's search for the first row of which everything that was asked for so far holds.
//!
//! A row holds if, in every dimension, it is free or listed for the value found. So the rows to look at are those in
//! some list, and those free in every dimension that was asked for; and a word of rows in which one dimension has
//! none is skipped together with all words up to that dimension's next.

use crate::facts::Facts;

use super::Decider;
use super::dimension::{DIMENSIONS, Dimension, Mask};
use super::index::List;

/// How many lists a search keeps. One attribute has few (a directory within a directory, groups of which rules
/// speak); if there are more, its rows count as possible, and each is looked up in its rule.
const LISTS: usize = 32;

/// A search. Lives on the stack: decisions don't allocate.
pub(super) struct Scan<'d> {
    decider: &'d Decider,
    /// What was asked for.
    pub(super) resolved: Mask,
    /// What was asked for and has too many lists.
    pub(super) unlisted: Mask,
    dimensions: [Dimension; DIMENSIONS],
    /// Where the lists of each of these dimensions end; they begin where the ones before end.
    ends: [u8; DIMENSIONS],
    count: usize,
    lists: [List; LISTS],
}

impl<'d> Scan<'d> {
    pub(super) fn new(decider: &'d Decider) -> Self {
        Self {
            decider,
            resolved: 0,
            unlisted: 0,
            dimensions: [Dimension::Access; DIMENSIONS],
            ends: [0; DIMENSIONS],
            count: 0,
            lists: [List::default(); LISTS],
        }
    }

    /// Asks for one attribute.
    pub(super) fn resolve(&mut self, dimension: Dimension, facts: &dyn Facts) {
        let start = self.end(self.count);
        let mut end = start;
        let lists = &mut self.lists;
        let index = &self.decider.indices[dimension as usize];
        index.look_up(dimension, &dimension.of(facts), &mut |list| {
            if let Some(slot) = lists.get_mut(end) {
                *slot = list;
            }
            end += 1;
        });
        self.resolved |= dimension.bit();
        match u8::try_from(end) {
            Ok(end) if usize::from(end) <= LISTS => {
                self.dimensions[self.count] = dimension;
                self.ends[self.count] = end;
                self.count += 1;
            }
            _ => self.unlisted |= dimension.bit(),
        }
    }

    /// The first row from `from` on that is possible by what was asked for. Calls come with rising `from`.
    pub(super) fn next(&mut self, from: u32) -> Option<u32> {
        let free = self.decider.next_free(from, self.resolved & !self.unlisted);
        self.next_listed(from, free).or(free)
    }

    /// Where the lists of the first `count` dimensions end.
    fn end(&self, count: usize) -> usize {
        count.checked_sub(1).map_or(0, |last| usize::from(self.ends[last]))
    }

    /// The first possible row from `from` on, in words up to that of `bound`, that is in some list.
    fn next_listed(&mut self, from: u32, bound: Option<u32>) -> Option<u32> {
        let last = bound.map_or(u32::MAX, |row| row / 64);
        let mut word = from / 64;
        let mut mask = !0u64 << (from % 64);
        loop {
            let at = self.next_word_in_lists(word)?;
            if at > last {
                return None;
            }
            if at > word {
                mask = !0;
                word = at;
            }
            match self.holding(word) {
                Ok(bits) if bits & mask != 0 => return Some(word * 64 + (bits & mask).trailing_zeros()),
                Ok(_) => word += 1,
                Err(next) => word = next?,
            }
            mask = !0;
        }
    }

    /// The first word from `word` on in which some list has rows. Moves all lists there.
    fn next_word_in_lists(&mut self, word: u32) -> Option<u32> {
        let words = &self.decider.words;
        let mut first = None;
        for list in
            &mut self.lists[..self.count.checked_sub(1).map_or(0, |last| usize::from(self.ends[last]))]
        {
            let rest = &words.at[list.range()];
            if rest.first().is_some_and(|&at| at < word) {
                // There is an entry a word at most: it can't be further off than this.
                let far = rest.len().min((word - rest[0]) as usize + 1);
                list.from += super::index::index(rest[..far].partition_point(|&at| at < word));
            }
            if let Some(&at) = words.at[list.range()].first()
                && first.is_none_or(|first| at < first)
            {
                first = Some(at);
            }
        }
        first
    }

    /// The rows of a word that are free or listed in all dimensions; or, if one dimension has no such row in this
    /// word, the next word in which it has. Lists are at `word` or behind it.
    fn holding(&self, word: u32) -> Result<u64, Option<u32>> {
        let words = &self.decider.words;
        let mut all = !0u64;
        let mut start = 0;
        for (dimension, end) in self.dimensions[..self.count].iter().zip(&self.ends) {
            let free = &self.decider.indices[*dimension as usize].free;
            let lists = &self.lists[start..usize::from(*end)];
            start = usize::from(*end);
            let mut bits = free.words[word as usize];
            let mut next = None;
            for list in lists {
                if list.from < list.to {
                    let at = words.at[list.from as usize];
                    if at == word {
                        bits |= words.bits[list.from as usize];
                    } else if next.is_none_or(|next| at < next) {
                        next = Some(at);
                    }
                }
            }
            if bits == 0 {
                let free = free.next_word(word + 1);
                return Err(match (free, next) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (one, other) => one.or(other),
                });
            }
            all &= bits;
            if all == 0 {
                return Ok(0);
            }
        }
        Ok(all)
    }
}
