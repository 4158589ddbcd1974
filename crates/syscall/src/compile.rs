// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles rules to a filter.
//!
//! The compiler cuts the call numbers into segments with the same answer. A tree of comparisons finds a number's
//! segment. If only a few segments of a region differ from the rest, they are selected by equality (one instruction
//! for a single number, where bounds would take two). Otherwise the region is halved. Arguments are loaded only in
//! the leaves, below the tree. So number and architecture alone decide a call without conditions, and the kernel
//! answers it from a bitmap without running the filter.
//!
//! The time to load a filter grows with the number of instructions (translation) and with the depth (the kernel runs
//! the filter once for every number to fill that bitmap). So the compiler keeps both small.
//! number to fill that bitmap), so both are kept small.

use std::collections::HashMap;

use crate::program::{
    ARCHITECTURE, IF_ANY_BIT, IF_AT_LEAST, IF_EQUAL, JUMP, LIMIT, LOAD, NUMBER, RETURN, half, verdict,
};
use crate::rules::{Question, Width};
use crate::{Action, Arch, Error, Filter, Instruction, Rule, Rules, Syscall, Test};

/// How many segments of a region are selected by equality before the region is halved. The built-in list for x86-64
/// takes 93 instructions with 1, 87 with 2, 85 with 4, at the same depth. A higher value would turn longer lists into
/// chains.
const EXCEPTIONS: usize = 2;

/// Compiles rules for one architecture. The function is pure: the same rules give the same filter.
///
/// # Errors
/// [`Error::TooLong`] if the kernel wouldn't accept the result.
pub fn compile(rules: &Rules, arch: Arch) -> Result<Filter, Error> {
    let segments = segments(rules, arch);
    let mut writer = Writer::default();
    let root = writer.tree(&segments);
    writer.adjoin(root);
    writer.push(LOAD, NUMBER);
    let number = writer.last();
    writer.branch(IF_EQUAL, arch.audit(), number, Goal::Answer(rules.foreign));
    writer.push(LOAD, ARCHITECTURE);
    let mut program = writer.backwards;
    program.reverse();
    if program.len() > LIMIT {
        return Err(Error::TooLong { length: program.len(), limit: LIMIT });
    }
    Ok(Filter { program })
}

/// What remains to be decided when the number is known.
#[derive(Clone, Copy, PartialEq)]
enum Leaf<'a> {
    Answer(Action),
    /// Rules with conditions, and the answer if none of them matches.
    Ask(&'a [Rule], Action),
}

/// Numbers from `first` up to the next segment's first.
#[derive(Clone, Copy)]
struct Segment<'a> {
    first: u32,
    leaf: Leaf<'a>,
}

fn segments(rules: &Rules, arch: Arch) -> Vec<Segment<'_>> {
    let mut calls: Vec<(u32, Syscall)> =
        Syscall::all().filter_map(|call| Some((call.number(arch)?, call))).collect();
    calls.sort_unstable();
    let mut segments: Vec<Segment<'_>> = Vec::new();
    let mut append = |first: u32, leaf| match segments.last() {
        Some(last) if last.leaf == leaf => {}
        _ => segments.push(Segment { first, leaf }),
    };
    let mut next = 0;
    for (number, call) in calls {
        if number > next {
            append(next, Leaf::Answer(rules.unknown));
        }
        append(number, leaf(rules.of(call), rules.default));
        next = number + 1;
    }
    append(next, Leaf::Answer(rules.unknown));
    segments
}

/// The leaf for these rules. Rules behind an unconditional one are dropped, because they are never tried.
fn leaf(rules: &[Rule], default: Action) -> Leaf<'_> {
    let (rules, otherwise) = match rules.iter().position(|rule| rule.tests.is_empty()) {
        Some(index) => (&rules[..index], rules[index].action),
        None => (rules, default),
    };
    if rules.iter().all(|rule| rule.action == otherwise) {
        Leaf::Answer(otherwise)
    } else {
        Leaf::Ask(rules, otherwise)
    }
}

/// The target of a jump: an answer, which is written on demand and shared, or an instruction that is already written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Goal {
    Answer(Action),
    /// Index in `Writer::backwards`.
    At(usize),
}

/// Writes a program from its end. All jumps of BPF lead forward, so every target is written before the jump, and the
/// distance is known at once.
#[derive(Default)]
struct Writer {
    backwards: Vec<Instruction>,
    /// For each goal, the last written instruction that leads to it: the goal itself, a copy, or a jump to it.
    near: HashMap<Goal, usize>,
}

/// How many instructions a conditional jump can skip.
const REACH: usize = u8::MAX as usize;

impl Writer {
    fn push(&mut self, code: u16, k: u32) {
        self.backwards.push(Instruction { code, jt: 0, jf: 0, k });
    }

    fn last(&self) -> Goal {
        Goal::At(self.backwards.len() - 1)
    }

    /// The number of instructions between the next written one and the one at `index`.
    fn distance(&self, index: usize) -> usize {
        self.backwards.len() - 1 - index
    }

    /// An instruction that leads to `goal` and stays within reach of a conditional jump after `more` further
    /// instructions.
    fn reach(&mut self, goal: Goal, more: usize) -> usize {
        let known = match goal {
            Goal::At(index) => Some(self.near.get(&goal).copied().unwrap_or(index)),
            Goal::Answer(_) => self.near.get(&goal).copied(),
        };
        match known {
            Some(index) if self.distance(index) + more <= REACH => return index,
            _ => {}
        }
        match goal {
            Goal::Answer(action) => self.push(RETURN, verdict(action)),
            Goal::At(index) => {
                // The cut can't matter: programs have at most 4096 instructions, which is checked at the end.
                let skip = u32::try_from(self.distance(index)).unwrap_or(u32::MAX);
                self.push(JUMP, skip);
            }
        }
        let index = self.backwards.len() - 1;
        self.near.insert(goal, index);
        index
    }

    fn branch(&mut self, code: u16, k: u32, yes: Goal, no: Goal) -> Goal {
        // The second `reach` may add one instruction, hence the 1.
        let yes = self.reach(yes, 1);
        let no = self.reach(no, 0);
        let skip = |index| u8::try_from(self.distance(index)).unwrap_or(u8::MAX);
        let (jt, jf) = (skip(yes), skip(no));
        self.backwards.push(Instruction { code, jt, jf, k });
        self.last()
    }

    /// Makes `goal` the last written instruction, so that the instruction before it can fall through to it.
    fn adjoin(&mut self, goal: Goal) {
        if goal == Goal::At(self.backwards.len().wrapping_sub(1)) {
            return;
        }
        match goal {
            Goal::Answer(action) => self.push(RETURN, verdict(action)),
            Goal::At(index) => {
                let skip = u32::try_from(self.distance(index)).unwrap_or(u32::MAX);
                self.push(JUMP, skip);
            }
        }
    }

    /// Comparisons that lead from a number to the leaf of its segment.
    fn tree(&mut self, segments: &[Segment<'_>]) -> Goal {
        let usual = usual(segments);
        let exceptions: Vec<usize> = (0..segments.len()).filter(|&i| segments[i].leaf != usual).collect();
        // The first and last segment of a region are bounded on one side already. A middle one must be a single
        // number.
        let pickable =
            |&i: &usize| i == 0 || i + 1 == segments.len() || segments[i + 1].first - segments[i].first == 1;
        if exceptions.len() <= EXCEPTIONS && exceptions.iter().all(pickable) {
            let mut rest = self.leaf(usual);
            for &i in &exceptions {
                let leaf = self.leaf(segments[i].leaf);
                rest = if i == 0 {
                    self.branch(IF_AT_LEAST, segments[1].first, rest, leaf)
                } else if i + 1 == segments.len() {
                    self.branch(IF_AT_LEAST, segments[i].first, leaf, rest)
                } else {
                    self.branch(IF_EQUAL, segments[i].first, leaf, rest)
                };
            }
            return rest;
        }
        let middle = halve(segments);
        let high = self.tree(&segments[middle..]);
        let low = self.tree(&segments[..middle]);
        self.branch(IF_AT_LEAST, segments[middle].first, high, low)
    }

    fn leaf(&mut self, leaf: Leaf<'_>) -> Goal {
        let (rules, otherwise) = match leaf {
            Leaf::Answer(action) => return Goal::Answer(action),
            Leaf::Ask(rules, otherwise) => (rules, Goal::Answer(otherwise)),
        };
        let mut next = otherwise;
        for (index, rule) in rules.iter().enumerate().rev() {
            // The half that is loaded on every path into this rule. That is certain only if the rule before has
            // exactly one test.
            let before = index.checked_sub(1).map_or(&[][..], |index| rules[index].tests.as_slice());
            let mut loaded = if let [test] = before { low_half(test) } else { None };
            let loads: Vec<bool> = rule
                .tests
                .iter()
                .map(|test| {
                    let again = loaded.is_some() && loaded == low_half(test);
                    loaded = low_half(test);
                    !again
                })
                .collect();
            let mut matched = Goal::Answer(rule.action);
            for (test, load) in rule.tests.iter().zip(loads).rev() {
                matched = self.test(test, load, matched, next);
            }
            next = matched;
        }
        next
    }

    /// Compiles one test. `load` is false if its half is loaded already.
    fn test(&mut self, test: &Test, load: bool, yes: Goal, no: Goal) -> Goal {
        let (values, mask, yes, no) = match test.question() {
            Question::In(values) => (values.as_slice(), None, yes, no),
            Question::NotIn(values) => (values.as_slice(), None, no, yes),
            Question::Has(mask) => (&[][..], Some(*mask), yes, no),
        };
        let offset = |high| half(test.argument(), high);
        let mut next = no;
        match (test.width(), mask) {
            (Width::Low, Some(mask)) => next = self.branch(IF_ANY_BIT, low(mask), yes, no),
            (Width::Low, None) => {
                for &value in values.iter().rev() {
                    next = self.branch(IF_EQUAL, low(value), yes, next);
                }
            }
            (Width::Full, Some(mask)) => {
                let halves = [(low(mask), false), (self::high(mask), true)];
                for (bits, high) in halves.into_iter().filter(|&(bits, _)| bits != 0) {
                    self.branch(IF_ANY_BIT, bits, yes, next);
                    self.push(LOAD, offset(high));
                    next = self.last();
                }
            }
            (Width::Full, None) => {
                for &value in values.iter().rev() {
                    self.branch(IF_EQUAL, self::high(value), yes, next);
                    self.push(LOAD, offset(true));
                    let same_low = self.last();
                    self.branch(IF_EQUAL, low(value), same_low, next);
                    self.push(LOAD, offset(false));
                    next = self.last();
                }
            }
        }
        if test.width() == Width::Low && load && next != no {
            self.adjoin(next);
            self.push(LOAD, offset(false));
            next = self.last();
        }
        next
    }
}

/// The argument whose low half is loaded after a test, whether it holds or not.
fn low_half(test: &Test) -> Option<u8> {
    let compares =
        !matches!(test.question(), Question::In(values) | Question::NotIn(values) if values.is_empty());
    (test.width() == Width::Low && compares).then_some(test.argument())
}

#[expect(clippy::cast_possible_truncation, reason = "the half is meant")]
const fn low(value: u64) -> u32 {
    value as u32
}

const fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

/// The most frequent leaf in a region.
fn usual<'a>(segments: &[Segment<'a>]) -> Leaf<'a> {
    let count = |leaf| segments.iter().filter(|segment| segment.leaf == leaf).count();
    let mut best = segments[0].leaf;
    let mut most = count(best);
    for segment in segments {
        let times = count(segment.leaf);
        if times > most {
            (best, most) = (segment.leaf, times);
        }
    }
    best
}

/// Where to cut a region: at the boundary nearest to half of its numbers. The last segment has no end. Numbers beyond
/// the table are rarely called and count as one.
fn halve(segments: &[Segment<'_>]) -> usize {
    let first = segments[0].first;
    let last = segments[segments.len() - 1].first;
    let half = first + (last - first).div_ceil(2);
    (1..segments.len()).min_by_key(|&index| segments[index].first.abs_diff(half)).unwrap_or(1)
}
