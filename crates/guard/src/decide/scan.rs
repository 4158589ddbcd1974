// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search of one decision for the first row whose conditions hold for all attributes that were asked for so far.
//!
//! Each group of rows has a candidate: its first row that is still possible. Asking for another attribute rules out
//! groups, and moves the candidates of the groups that have conditions on it. The search's candidate is the group's
//! candidate that comes first in the rules.

use crate::facts::Facts;

use super::Decider;
use super::dimension::{Dimension, Mask};
use super::group::GROUPS;
use super::index::{Segment, index};

/// The most segments that a search keeps. An attribute has few segments in groups that are still possible (a directory
/// within a directory, user ids that rules name). If there are more, all rows with a condition on the attribute count
/// as possible, and each is checked in its rule.
const SEGMENTS: usize = 64;

/// Marks that no segment follows.
const END: u8 = u8::MAX;

/// A search. It lives on the stack, because decisions don't allocate.
pub(super) struct Scan<'d> {
    decider: &'d Decider,
    /// The attributes that were asked for.
    resolved: Mask,
    /// The attributes that were asked for and have too many segments.
    unlisted: Mask,
    /// The groups that have a candidate, and the groups whose candidate must be found again; a bit for each.
    possible: u64,
    stale: u64,
    /// Each group's candidate, or the position where the search for it starts.
    candidates: [u32; GROUPS],
    /// Each group's last segment, and for each segment the previous segment of its group.
    last: [u8; GROUPS],
    before: [u8; SEGMENTS],
    segments: [(u8, Segment); SEGMENTS],
    count: usize,
}

impl<'d> Scan<'d> {
    pub(super) fn new(decider: &'d Decider) -> Self {
        let possible = match decider.groups.len() {
            GROUPS.. => !0,
            count => (1 << count) - 1,
        };
        let mut candidates = [0; GROUPS];
        for (candidate, group) in candidates.iter_mut().zip(&decider.groups) {
            *candidate = group.start;
        }
        Self {
            decider,
            resolved: 0,
            unlisted: 0,
            possible,
            stale: 0,
            candidates,
            last: [END; GROUPS],
            before: [END; SEGMENTS],
            segments: [(0, Segment::default()); SEGMENTS],
            count: 0,
        }
    }

    /// The attributes of `mask` that were not asked for yet.
    pub(super) fn unresolved(&self, mask: Mask) -> Mask {
        mask & !self.resolved
    }

    /// Does `mask` contain attributes whose rows all count as possible?
    pub(super) fn is_unsure_of(&self, mask: Mask) -> bool {
        mask & self.unlisted != 0
    }

    /// Rules out groups; a bit for each.
    pub(super) fn drop_groups(&mut self, groups: u64) {
        self.possible &= !groups;
    }

    /// Asks for one attribute.
    pub(super) fn resolve(&mut self, dimension: Dimension, facts: &dyn Facts) {
        self.resolved |= dimension.bit();
        let decider = self.decider;
        let (before, segments, last) = (&mut self.before, &mut self.segments, &mut self.last);
        let (start, mut count, possible) = (self.count, self.count, self.possible);
        let mut found = 0u64;
        decider.indices[dimension as usize].look_up(dimension, &dimension.of(facts), &mut |list| {
            for segment in &decider.words.segments[list.range()] {
                found |= 1 << segment.group;
                if possible >> segment.group & 1 == 0 {
                    continue;
                }
                if let Some(slot) = segments.get_mut(count) {
                    *slot = (dimension as u8, *segment);
                    let last = &mut last[segment.group as usize];
                    before[count] = *last;
                    // There are fewer than 255 segments.
                    *last = u8::try_from(count).unwrap_or(END);
                }
                count += 1;
            }
        });
        if count > SEGMENTS {
            for slot in (start..SEGMENTS).rev() {
                self.last[self.segments[slot].1.group as usize] = self.before[slot];
            }
            self.unlisted |= dimension.bit();
            return;
        }
        self.count = count;
        let conditional = decider.conditional[dimension as usize];
        self.possible &= !conditional | found;
        self.stale |= conditional | decider.mixed;
    }

    /// The position of the first row that is possible by what was asked for.
    pub(super) fn first(&mut self) -> Option<u32> {
        let mut first = None;
        let mut first_order = u32::MAX;
        let mut rest = self.possible;
        while rest != 0 {
            let group = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            // Groups are in the order of their first rows, except for the mixed group, which is the last.
            if self.decider.rows[self.candidates[group] as usize].order >= first_order {
                continue;
            }
            if self.stale >> group & 1 == 1 {
                self.stale &= !(1 << group);
                match self.next_in(group) {
                    Some(candidate) => self.candidates[group] = candidate,
                    None => {
                        self.possible &= !(1 << group);
                        continue;
                    }
                }
            }
            let order = self.decider.rows[self.candidates[group] as usize].order;
            if order < first_order {
                first_order = order;
                first = Some(self.candidates[group]);
            }
        }
        first
    }

    /// Continues behind a row that [`Scan::first`] returned.
    pub(super) fn pass(&mut self, at: u32) {
        let group = self.decider.groups.partition_point(|group| group.end <= at);
        if at + 1 < self.decider.groups[group].end {
            self.candidates[group] = at + 1;
            self.stale |= 1 << group;
        } else {
            self.possible &= !(1 << group);
        }
    }

    /// A group's first possible row, from its candidate on.
    fn next_in(&mut self, number: usize) -> Option<u32> {
        let group = &self.decider.groups[number];
        let listed = group.mask & self.resolved & !self.unlisted;
        let from = self.candidates[number];
        if listed == 0 {
            return Some(from);
        }
        let mut word = from / 64;
        let mut wanted = !0u64 << (from % 64);
        'words: loop {
            let mut dimensions = listed;
            while dimensions != 0 {
                let dimension = Dimension::first_of(dimensions);
                dimensions &= dimensions - 1;
                let (bits, next) = self.holding(number, dimension, word);
                if bits == 0 {
                    // No row before that dimension's next word can be possible.
                    word = next?;
                    wanted = !0;
                    continue 'words;
                }
                wanted &= bits;
            }
            if wanted != 0 {
                return Some(word * 64 + wanted.trailing_zeros());
            }
            word += 1;
            wanted = !0;
        }
    }

    /// The rows of a group in one word whose condition on a dimension holds, and if there is none, the next word with
    /// one. Moves the segments there, because words are asked for in rising order.
    fn holding(&mut self, group: usize, dimension: Dimension, word: u32) -> (u64, Option<u32>) {
        let words = &self.decider.words;
        let mut bits = 0;
        let mut next: Option<u32> = None;
        let mut slot = self.last[group];
        while slot != END {
            let (of, segment) = &mut self.segments[usize::from(slot)];
            slot = self.before[usize::from(slot)];
            if *of != dimension as u8 {
                continue;
            }
            let rest = &words.at[segment.from as usize..segment.to as usize];
            let Some(&first) = rest.first() else { continue };
            if first < word {
                // A word has one entry at most, so the entry can't be further away than this.
                let far = rest.len().min((word - first) as usize + 1);
                segment.from += index(rest[..far].partition_point(|&at| at < word));
            }
            if segment.from == segment.to {
                continue;
            }
            let at = words.at[segment.from as usize];
            if at == word {
                bits |= words.bits[segment.from as usize];
            } else if next.is_none_or(|next| at < next) {
                next = Some(at);
            }
        }
        if self.decider.mixed >> group & 1 == 1 {
            let free = &self.decider.indices[dimension as usize].free;
            bits |= free.word(word);
            if bits == 0 {
                next = match (free.next_word(word + 1), next) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (one, other) => one.or(other),
                };
            }
        }
        (bits, next)
    }
}
