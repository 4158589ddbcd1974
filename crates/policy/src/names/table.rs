// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All protected names in a form that tells quickly that a path is none of them.
//!
//! A component is looked up only if its first byte begins some pattern, by a hash in a sorted list;
//! so an ordinary path costs little more than finding its slashes. The parts of patterns are places
//! in the rules' own text, so making the table costs no allocation for each of them.

use std::ops::Range;

use super::{Content, NameRule, NameStatus, STRICTEST, glob};

/// One component of a pattern.
#[derive(Clone, Copy)]
struct Part {
    /// Where it stands in the rule's text.
    start: usize,
    end: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Literal,
    Glob,
    /// `**`.
    Any,
}

/// A pattern: its parts, without `**` at either end.
#[derive(Clone)]
struct Shape {
    parts: Range<usize>,
    /// Where in them the first `**` stands.
    first: Option<usize>,
    anchored: bool,
    /// Its number among the patterns with `**`, if it is one of the first 64.
    deep: Option<u8>,
}

/// The compiled rules.
#[derive(Clone, Default)]
pub(super) struct Table {
    parts: Vec<Part>,
    shapes: Vec<Shape>,
    /// The patterns that begin with a literal, by its hash; sorted.
    heads: Vec<(u32, usize)>,
    /// The patterns that begin with a glob, and the byte that this one ends with, if it is always the same: most
    /// components end with another.
    others: Vec<(Option<u8>, usize)>,
    /// A bit for each byte that the first component of a pattern of `heads` begins with.
    firsts: [u64; 4],
    /// Of each list of exceptions a rule that has it: most rules have the same.
    exceptions: Vec<usize>,
}

/// The places of the non-empty components of a text.
fn components(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    text.split(|byte| *byte == b'/').filter_map(move |part| {
        let start = at;
        at += part.len() + 1;
        (!part.is_empty()).then(|| start..start + part.len())
    })
}

/// The byte that whatever fits ends with, in lower case, if the pattern says so.
fn last_byte(part: &[u8]) -> Option<u8> {
    part.last().filter(|last| !matches!(last, b'*' | b'?' | b']')).map(u8::to_ascii_lowercase)
}

/// FNV-1a, without regard to ASCII case.
fn hash(component: &[u8]) -> u32 {
    component.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    })
}

/// What one rule says at one place of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    Nothing,
    Begun,
    Whole,
}

impl Table {
    pub(super) fn new(rules: &[NameRule]) -> Self {
        let mut table = Self {
            // Most names have two or three components.
            parts: Vec::with_capacity(rules.len() * 3),
            shapes: Vec::with_capacity(rules.len()),
            heads: Vec::with_capacity(rules.len()),
            ..Self::default()
        };
        let mut deep = 0;
        for (at, rule) in rules.iter().enumerate() {
            table.add(at, rule, &mut deep);
            let known = |other: &usize| rules[*other].except_below == rule.except_below;
            if !rule.except_below.is_empty() && !table.exceptions.iter().any(known) {
                table.exceptions.push(at);
            }
        }
        table.heads.sort_unstable();
        table
    }

    fn add(&mut self, at: usize, rule: &NameRule, deep: &mut u8) {
        let text = rule.path.as_bytes();
        let from = self.parts.len();
        let mut anchored = rule.anchored;
        for place in components(text) {
            let part = &text[place.clone()];
            let kind = match part {
                b"**" => Kind::Any,
                part if glob::is_literal(part) => Kind::Literal,
                _ => Kind::Glob,
            };
            let before = self.parts[from..].last().map(|part| part.kind);
            match (kind, before) {
                // "Any number of any" is no more than one of them.
                (Kind::Any, Some(Kind::Any)) => {}
                // In front it says that the rest holds at any depth.
                (Kind::Any, None) => anchored = false,
                _ => self.parts.push(Part { start: place.start, end: place.end, kind }),
            }
        }
        // At the end it says what holds anyway: everything beneath.
        self.parts.pop_if(|part| part.kind == Kind::Any);
        let own = &self.parts[from..];
        let first = own.iter().position(|part| part.kind == Kind::Any);
        let number = first.map(|_deep| std::mem::replace(deep, deep.saturating_add(1)));
        match own.first() {
            None => {}
            Some(head) if head.kind == Kind::Literal => {
                let text = head.of(rule);
                self.heads.push((hash(text), at));
                for byte in [text[0].to_ascii_lowercase(), text[0].to_ascii_uppercase()] {
                    self.firsts[usize::from(byte >> 6)] |= 1 << (byte & 63);
                }
            }
            Some(glob) => self.others.push((last_byte(glob.of(rule)), at)),
        }
        self.shapes.push(Shape {
            parts: from..self.parts.len(),
            first,
            anchored,
            deep: number.filter(|number| *number < 64),
        });
    }

    /// The patterns that a component may begin.
    fn candidates(&self, component: &[u8]) -> impl Iterator<Item = usize> {
        let known = component
            .first()
            .is_some_and(|first| self.firsts[usize::from(first >> 6)] >> (first & 63) & 1 == 1);
        let same = if known {
            let wanted = hash(component);
            let from = self.heads.partition_point(|(hash, _)| *hash < wanted);
            let count = self.heads[from..].iter().take_while(|(hash, _)| *hash == wanted).count();
            &self.heads[from..from + count]
        } else {
            &[]
        };
        let last = component.last().map(u8::to_ascii_lowercase);
        let others = self.others.iter().filter(move |(end, _)| end.is_none() || *end == last);
        same.iter().map(|(_, rule)| rule).chain(others.map(|(_, rule)| rule)).copied()
    }

    /// A rule that doesn't hold below one path and does below another, each with the number of its root's components.
    pub(super) fn exception<'r>(
        &self,
        rules: &'r [NameRule],
        (path, root): (&[u8], usize),
        (other, other_root): (&[u8], usize),
    ) -> Option<&'r NameRule> {
        self.exceptions.iter().map(|at| &rules[*at]).find(|rule| {
            excepted(rule, path, root, usize::MAX) && !excepted(rule, other, other_root, usize::MAX)
        })
    }

    pub(super) fn judge<'r>(&self, rules: &'r [NameRule], path: &[u8], root: usize) -> NameStatus<'r> {
        let mut protected: Option<&NameRule> = None;
        let mut holder: Option<&NameRule> = None;
        // A pattern with `**` that doesn't fit where it begins first fits nowhere further down.
        let mut tried: u64 = 0;
        let mut index = 0;
        let mut at = usize::from(path.first() == Some(&b'/'));
        while let Some(rest) = path.get(at..).filter(|rest| !rest.is_empty()) {
            let component = rest.split(|byte| *byte == b'/').next().unwrap_or(rest);
            for number in self.candidates(component) {
                let (rule, shape) = (&rules[number], &self.shapes[number]);
                let bit = shape.deep.map_or(0, |number| 1_u64 << number);
                if (shape.anchored && index > 0) || tried & bit != 0 {
                    continue;
                }
                let (met, begun) = self.meet(rule, shape, rest, index, root);
                if begun {
                    tried |= bit;
                }
                let status = match met {
                    Met::Nothing => continue,
                    Met::Begun => &mut holder,
                    Met::Whole => &mut protected,
                };
                if status.is_none_or(|other| other.strictness() < rule.strictness())
                    && !excepted(rule, path, root, index)
                {
                    *status = Some(rule);
                }
            }
            if let Some(rule) = protected
                && rule.strictness() == STRICTEST
            {
                return NameStatus::Protected(rule);
            }
            index += 1;
            at += component.len() + 1;
        }
        match (protected, holder) {
            (Some(rule), _) => NameStatus::Protected(rule),
            (None, Some(rule)) if index > root => NameStatus::Holder(rule),
            _ => NameStatus::Free,
        }
    }

    /// What a rule says of a path whose components from number `index` on are `rest`; and whether
    /// all up to its first `**` fits.
    fn meet(&self, rule: &NameRule, shape: &Shape, rest: &[u8], index: usize, root: usize) -> (Met, bool) {
        let directory = rule.content == Content::Directory;
        let ends = |left: &Components<'_>| {
            // What lies in a directory of the name isn't the rule's business.
            (left.position > root || rule.locked) && (!directory || left.rest.is_empty())
        };
        let whole = if directory { Met::Begun } else { Met::Whole };
        let parts = &self.parts[shape.parts.clone()];
        let (first, more) = parts.split_at(shape.first.unwrap_or(parts.len()));
        let mut left = Components { rest, position: index };
        for part in first {
            match left.next() {
                None => return (Met::Begun, false),
                Some(component) if part.matches(rule, component) => {}
                Some(_) => return (Met::Nothing, false),
            }
        }
        let mut runs = more.split(|part| part.kind == Kind::Any).filter(|run| !run.is_empty()).peekable();
        if runs.peek().is_none() {
            return (if ends(&left) { whole } else { Met::Nothing }, true);
        }
        // Of each run the first place will do: it leaves most to those that follow. Only the last
        // one has a condition of its own.
        while let Some(run) = runs.next() {
            let last = runs.peek().is_none();
            loop {
                if let Some(after) = left.after(rule, run)
                    && (!last || ends(&after))
                {
                    left = after;
                    break;
                }
                if left.next().is_none() {
                    return (Met::Begun, true);
                }
            }
        }
        (whole, true)
    }
}

impl Part {
    fn of(self, rule: &NameRule) -> &[u8] {
        &rule.path.as_bytes()[self.start..self.end]
    }

    fn matches(self, rule: &NameRule, component: &[u8]) -> bool {
        match self.kind {
            Kind::Any => true,
            Kind::Literal => self.of(rule).eq_ignore_ascii_case(component),
            Kind::Glob => glob::matches(self.of(rule), component),
        }
    }
}

/// What is left of a path.
#[derive(Clone, Copy)]
struct Components<'p> {
    rest: &'p [u8],
    /// How many components precede it.
    position: usize,
}

impl<'p> Components<'p> {
    fn next(&mut self) -> Option<&'p [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        self.position += 1;
        match self.rest.iter().position(|byte| *byte == b'/') {
            None => Some(std::mem::take(&mut self.rest)),
            Some(slash) => {
                let component = &self.rest[..slash];
                self.rest = &self.rest[slash + 1..];
                Some(component)
            }
        }
    }

    /// Whether these components, with `/` between them, are what comes next, before number `end`.
    fn begins_with(mut self, components: &[u8], end: usize) -> bool {
        components
            .split(|byte| *byte == b'/')
            .all(|wanted| self.position < end && self.next() == Some(wanted))
    }

    /// What follows a run of parts, if they are what comes next.
    fn after(mut self, rule: &NameRule, run: &[Part]) -> Option<Self> {
        for part in run {
            if !part.matches(rule, self.next()?) {
                return None;
            }
        }
        Some(self)
    }
}

/// Whether one of the directories that a rule doesn't hold below lies between the root and the
/// name, which begins at component `index`. Exactly as spelt: an exception isn't widened.
pub(super) fn excepted(rule: &NameRule, path: &[u8], root: usize, index: usize) -> bool {
    if rule.except_below.is_empty() {
        return false;
    }
    let mut left = Components { rest: path.strip_prefix(b"/").unwrap_or(path), position: 0 };
    while left.position < index && !left.rest.is_empty() {
        let below = left.position >= root;
        let mut exceptions = rule.except_below.iter();
        if below && exceptions.any(|exception| left.begins_with(exception.as_bytes(), index)) {
            return true;
        }
        left.next();
    }
    false
}
