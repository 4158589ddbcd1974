// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cuts the rules for one call into regions that don't overlap and that libseccomp accepts.
//!
//! Our rules are tried in order, may test one argument several times, and may test whether a value is in a list.
//! libseccomp takes conditions `argument & mask == value` and `argument != value`, one for each argument, and doesn't
//! define which of two matching rules wins. So the rules are rewritten as regions, of which exactly one holds for any
//! arguments. This module shares no code with the compiler or with `Rules::decide`.
//!
//! Arguments are handled in their order, the high half of each before its low half. Regions that differ in a later
//! argument are equal in the earlier ones, so libseccomp's tree of conditions never has to go back.

use palisade_syscall::rules::{Question, Width};
use palisade_syscall::{Action, Rule};

/// A set of values: those that equal `value` in the bits where `mask` has ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pattern {
    pub(crate) mask: u64,
    pub(crate) value: u64,
}

impl Pattern {
    /// `Some(true)` if every value of `self` fits `other`, `Some(false)` if none does, `None` if some do.
    fn within(self, other: Self) -> Option<bool> {
        if (self.value ^ other.value) & self.mask & other.mask != 0 {
            return Some(false);
        }
        (other.mask & !self.mask == 0).then_some(true)
    }
}

/// A region's condition on one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The argument fits the pattern. An empty mask fits every value.
    Fits(Pattern),
    /// The argument differs from this value.
    Differs(u64),
}

/// An answer, and the arguments for which it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) conditions: [Condition; 6],
    pub(crate) action: Action,
}

impl Region {
    /// Arguments in this region. `rest` fills the bits that are free.
    pub(crate) fn arguments(&self, rest: u64) -> [u64; 6] {
        self.conditions.map(|condition| match condition {
            Condition::Fits(pattern) => pattern.value | rest & !pattern.mask,
            Condition::Differs(value) if value == rest => !rest,
            Condition::Differs(_) => rest,
        })
    }
}

/// Whether an argument fits one of some patterns, or none of them if `inverse`.
#[derive(Debug, Clone)]
struct Doubt {
    argument: usize,
    patterns: Vec<Pattern>,
    inverse: bool,
}

impl Doubt {
    /// The result, as soon as it is certain. A pattern without remaining bits is fitted.
    fn holds(&self) -> Option<bool> {
        if self.patterns.is_empty() {
            Some(self.inverse)
        } else {
            self.patterns.iter().any(|pattern| pattern.mask == 0).then_some(!self.inverse)
        }
    }
}

/// A rule, with the conditions that aren't decided yet.
type Open = (Vec<Doubt>, Action);

/// The regions. `None` if there are more than `limit`.
pub(crate) fn regions(rules: &[Rule], default: Action, limit: usize) -> Option<Vec<Region>> {
    let mut open: Vec<Open> = rules
        .iter()
        .map(|rule| {
            let doubts = rule.tests.iter().map(|test| {
                let whole = match test.width() {
                    Width::Low => u64::from(u32::MAX),
                    Width::Full => u64::MAX,
                };
                let exactly =
                    |values: &[u64]| values.iter().map(|&value| Pattern { mask: whole, value }).collect();
                let (patterns, inverse) = match test.question() {
                    Question::In(values) => (exactly(values), false),
                    Question::NotIn(values) => (exactly(values), true),
                    Question::Has(mask) => (vec![Pattern { mask: *mask, value: 0 }], true),
                };
                Doubt { argument: usize::from(test.argument()), patterns, inverse }
            });
            (doubts.collect(), rule.action)
        })
        .collect();
    open.push((Vec::new(), default));
    let mut found = Vec::new();
    let everything = [Condition::Fits(Pattern::default()); 6];
    divide(open, everything, 0, limit, &mut found).then_some(found)
}

/// The rules that may still decide: all up to the first that certainly matches, without those that certainly don't.
fn left(open: Vec<Open>) -> Vec<Open> {
    let mut left = Vec::new();
    for (mut doubts, action) in open {
        if doubts.iter().any(|doubt| doubt.holds() == Some(false)) {
            continue;
        }
        doubts.retain(|doubt| doubt.holds().is_none());
        let sure = doubts.is_empty();
        left.push((doubts, action));
        if sure {
            break;
        }
    }
    left
}

/// The answer, if it is the same whatever the remaining bits are.
fn one_answer(left: &[Open]) -> Option<Action> {
    let action = left[0].1;
    left.iter().all(|&(_, other)| other == action).then_some(action)
}

/// Divides by the next `half` argument, of twelve. Returns false if the limit was reached.
fn divide(
    open: Vec<Open>,
    conditions: [Condition; 6],
    half: usize,
    limit: usize,
    found: &mut Vec<Region>,
) -> bool {
    let open = left(open);
    if let Some(action) = one_answer(&open) {
        found.push(Region { conditions, action });
        return found.len() <= limit;
    }
    let (argument, high) = (half / 2, half.is_multiple_of(2));
    let doubts = open.iter().flat_map(|(doubts, _)| doubts).filter(|doubt| doubt.argument == argument);
    let mut patterns: Vec<Pattern> = doubts.flat_map(|doubt| doubt.patterns.clone()).collect();

    // The only case in which libseccomp has a shorter form. It is used only if no later argument has a condition:
    // otherwise 2.5.4 may never return from `seccomp_rule_add`.
    if let Some(&only) = patterns.first()
        && only.mask == u64::MAX
        && patterns.iter().all(|&pattern| pattern == only)
        && let Some(action) = one_answer(&left(resolve(&open, argument, |_| None)))
    {
        let with = |condition| {
            let mut conditions = conditions;
            conditions[argument] = condition;
            conditions
        };
        found.push(Region { conditions: with(Condition::Differs(only.value)), action });
        let fits = resolve(&open, argument, |_| Some(Pattern::default()));
        return divide(fits, with(Condition::Fits(only)), (argument + 1) * 2, limit, found);
    }

    let here = if high { u64::from(u32::MAX) << 32 } else { u64::from(u32::MAX) };
    for pattern in &mut patterns {
        pattern.mask &= here;
    }
    let mut pieces = Vec::new();
    if !cut(Pattern::default(), &patterns, limit, &mut pieces) {
        return false;
    }
    pieces.into_iter().all(|piece| {
        let open = resolve(&open, argument, |pattern| {
            let part = Pattern { mask: pattern.mask & here, ..pattern };
            (piece.within(part) == Some(true)).then_some(Pattern { mask: pattern.mask & !here, ..pattern })
        });
        let mut conditions = conditions;
        if let Condition::Fits(before) = &mut conditions[argument] {
            before.mask |= piece.mask;
            before.value |= piece.value;
        }
        divide(open, conditions, half + 1, limit, found)
    })
}

/// The rules when more is known of one argument. `then` returns the undecided rest of a pattern, or `None` if the
/// pattern can't fit.
fn resolve(open: &[Open], argument: usize, then: impl Fn(Pattern) -> Option<Pattern>) -> Vec<Open> {
    let mut open = open.to_vec();
    for doubt in open.iter_mut().flat_map(|(doubts, _)| doubts).filter(|doubt| doubt.argument == argument) {
        doubt.patterns = doubt.patterns.iter().filter_map(|&pattern| then(pattern)).collect();
    }
    open
}

/// Cuts `whole` into pieces that lie completely inside or outside each pattern. Returns false if the limit was
/// reached.
fn cut(whole: Pattern, patterns: &[Pattern], limit: usize, pieces: &mut Vec<Pattern>) -> bool {
    let Some(&pattern) = patterns.iter().find(|&&pattern| whole.within(pattern).is_none()) else {
        pieces.push(whole);
        return pieces.len() <= limit;
    };
    let mut inside = whole;
    for bit in (0..64).rev().map(|shift| 1 << shift).filter(|bit| pattern.mask & !whole.mask & bit != 0) {
        let outside = Pattern { mask: inside.mask | bit, value: inside.value | !pattern.value & bit };
        if !cut(outside, patterns, limit, pieces) {
            return false;
        }
        inside = Pattern { mask: inside.mask | bit, value: inside.value | pattern.value & bit };
    }
    cut(inside, patterns, limit, pieces)
}
