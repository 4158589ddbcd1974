// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of rows: rows with conditions on the same attributes and with the same decision.
//!
//! A value that no row of a group names rules out the whole group at once. What remains is to intersect a few short
//! lists. Rows of one group keep their order; which of two groups' rows comes first is looked up.

use std::collections::HashMap;

use crate::rule::Decision;

use super::Row;
use super::dimension::{Mask, OBJECT};

/// The most groups: one bit for each in a word. The rows of the rarest shapes share the last group.
pub(super) const GROUPS: usize = 64;

/// A group of rows.
#[derive(Debug)]
pub(super) struct Group {
    /// The attributes that each row has conditions on; in the mixed group, those that some row has conditions on.
    pub(super) mask: Mask,
    /// The range of its rows. It begins at the first bit of a word.
    pub(super) start: u32,
    pub(super) end: u32,
    /// The decision of its rows (in the mixed group: of one of them).
    pub(super) decision: Decision,
    /// All its rows have a condition on the subject.
    pub(super) asks_subject: bool,
    /// All its rows ask for `pattern=ld_so`.
    pub(super) is_for_linker: bool,
    /// The group has rows of many shapes.
    pub(super) is_mixed: bool,
}

/// What the rows of a group have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    mask: Mask,
    decision: Decision,
    is_for_linker: bool,
}

/// Puts rows, given in the order of their rules, into groups. Returns the groups, in the order of each group's first
/// row, and the row at each position. (A group can end within a word; the positions up to the next word then have no
/// row.)
pub(super) fn arrange(rows: &[Row]) -> (Vec<Group>, Vec<Option<usize>>) {
    let mut shapes: Vec<(Shape, Vec<usize>)> = Vec::new();
    let mut known = HashMap::<Shape, usize, foldhash::fast::RandomState>::default();
    for (number, row) in rows.iter().enumerate() {
        let shape = Shape { mask: row.mask, decision: row.decision, is_for_linker: row.is_for_linker };
        let index = *known.entry(shape).or_insert_with(|| {
            shapes.push((shape, Vec::new()));
            shapes.len() - 1
        });
        shapes[index].1.push(number);
    }
    let mut mixed = Vec::new();
    if shapes.len() > GROUPS {
        shapes.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
        mixed = shapes.split_off(GROUPS - 1);
        shapes.sort_by_key(|(_, members)| members[0]);
    }
    let mut groups = Vec::with_capacity(GROUPS);
    let mut positions: Vec<Option<usize>> = Vec::with_capacity(rows.len() + 64 * GROUPS);
    for (shape, members) in shapes {
        let group = Group {
            mask: shape.mask,
            start: 0,
            end: 0,
            decision: shape.decision,
            asks_subject: shape.mask & !OBJECT != 0,
            is_for_linker: shape.is_for_linker,
            is_mixed: false,
        };
        place(group, &members, &mut groups, &mut positions);
    }
    if let Some((first, _)) = mixed.first() {
        let group = Group {
            mask: mixed.iter().fold(0, |mask, (shape, _)| mask | shape.mask),
            start: 0,
            end: 0,
            decision: first.decision,
            asks_subject: false,
            is_for_linker: false,
            is_mixed: true,
        };
        let mut members: Vec<usize> = mixed.iter().flat_map(|(_, members)| members.iter().copied()).collect();
        members.sort_unstable();
        place(group, &members, &mut groups, &mut positions);
    }
    (groups, positions)
}

fn place(mut group: Group, members: &[usize], groups: &mut Vec<Group>, positions: &mut Vec<Option<usize>>) {
    positions.resize(positions.len().next_multiple_of(64), None);
    group.start = super::index(positions.len());
    positions.extend(members.iter().map(|&member| Some(member)));
    group.end = super::index(positions.len());
    groups.push(group);
}
