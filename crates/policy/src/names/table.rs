// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table of all protected names for fast lookups: most paths contain no protected name.
//!
//! A component is looked up, by a hash in a sorted list, only if a pattern begins with its first byte. So an ordinary
//! path costs little more than finding its slashes. The parts of patterns are offsets in the rules' own text, so
//! building the table needs no allocation for each part.

use std::ops::Range;

use super::{Content, NameRule, NameStatus, STRICTEST, glob};

/// One component of a pattern.
#[derive(Clone, Copy)]
struct Part {
    /// Its offset in the rule's text.
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
    /// The index of the first `**` among its parts.
    first: Option<usize>,
    anchored: bool,
    /// The pattern's number among those with `**`, if it is one of the first 64.
    deep: Option<u8>,
}

/// The compiled rules.
#[derive(Clone, Default)]
pub(super) struct Table {
    parts: Vec<Part>,
    shapes: Vec<Shape>,
    /// The patterns that begin with a literal, by its hash. Sorted.
    heads: Vec<(u32, usize)>,
    /// The patterns that begin with a glob, with the last byte of that glob if it is fixed: most components end with
    /// another byte.
    others: Vec<(Option<u8>, usize)>,
    /// One bit for each byte with which the first component of a pattern in `heads` begins.
    firsts: [u64; 4],
    /// For each distinct list of exceptions, one rule that has it. Most rules share the same list.
    exceptions: Vec<usize>,
}

/// The ranges of the non-empty components of a text.
fn components(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    text.split(|byte| *byte == b'/').filter_map(move |part| {
        let start = at;
        at += part.len() + 1;
        (!part.is_empty()).then(|| start..start + part.len())
    })
}

/// The last byte of every match, in lower case, if the pattern fixes it.
fn last_byte(part: &[u8]) -> Option<u8> {
    part.last().filter(|last| !matches!(last, b'*' | b'?' | b']')).map(u8::to_ascii_lowercase)
}

/// FNV-1a, ignoring ASCII case.
fn hash(component: &[u8]) -> u32 {
    component.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    })
}

/// The result of matching one rule at one component of a path.
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
                // Two `**` in a row mean the same as one.
                (Kind::Any, Some(Kind::Any)) => {}
                // A leading `**` means that the rest applies at any depth.
                (Kind::Any, None) => anchored = false,
                _ => self.parts.push(Part { start: place.start, end: place.end, kind }),
            }
        }
        // A trailing `**` adds nothing: everything below is protected anyway.
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

    /// The patterns that can begin with a component.
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

    /// A rule that doesn't apply below one path and applies below another. Both have the number of their root's
    /// components.
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
        // Bits of patterns with `**` whose beginning has matched already. A failure there means that they match
        // nowhere further down.
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

    /// Matches a rule against `rest`, the components of a path from number `index` on. Also returns whether all parts
    /// up to the first `**` match.
    fn meet(&self, rule: &NameRule, shape: &Shape, rest: &[u8], index: usize, root: usize) -> (Met, bool) {
        let directory = rule.content == Content::Directory;
        let ends = |left: &Components<'_>| {
            // The rule doesn't apply to files inside a directory of this name.
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
        // For each run, the first match is enough: it leaves the most components for the following runs. Only the
        // last run has a further condition.
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

/// The remaining components of a path.
#[derive(Clone, Copy)]
struct Components<'p> {
    rest: &'p [u8],
    /// How many components precede them.
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

    /// Whether the next components, before number `end`, are these (separated by `/`).
    fn begins_with(mut self, components: &[u8], end: usize) -> bool {
        components
            .split(|byte| *byte == b'/')
            .all(|wanted| self.position < end && self.next() == Some(wanted))
    }

    /// The components after a run of parts, if the run matches the next components.
    fn after(mut self, rule: &NameRule, run: &[Part]) -> Option<Self> {
        for part in run {
            if !part.matches(rule, self.next()?) {
                return None;
            }
        }
        Some(self)
    }
}

/// Whether a directory of `except_below` lies between the root and the name, which begins at component `index`.
/// Compared exactly, without other spellings: an exception must not become wider.
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
