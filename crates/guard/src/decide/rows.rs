// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns rules into rows: each a plain conjunction of one condition per dimension.
//!
//! `exe=untrusted,/usr/bin/vi` is about two attributes at once. Such a rule becomes two rows, one after the other,
//! either of which may hold: one asks for an untrusted program, the other for the other listed values. The same applies
//! to the object: a rule has four rows at most.

use crate::facts::{Access, Start};
use crate::rule::{
    ANY_KIND, EXECDIRS, EXECUTABLE_DIRECTORIES, ObjectField, ObjectText, Pattern, Permission, Rule, RuleSet,
    SYSTEM_DIRECTORIES, SYSTEMDIRS, SubjectField, SubjectNumber, SubjectText, Text, UNTRUSTED, Values,
};

use super::dimension::{Dimension, access_flag, start_flag};

/// One condition: a list of alternatives.
pub(super) enum Condition<'r> {
    /// The value is (or matches, or begins with) one of these.
    Texts(Vec<&'r [u8]>),
    /// The value is one of these.
    Numbers(Vec<u32>),
    /// The value is one of up to four; a bit for each.
    Flags(u8),
}

/// A conjunction. At most one condition for each dimension.
#[derive(Default)]
pub(super) struct Conjunction<'r> {
    pub(super) conditions: Vec<(Dimension, Condition<'r>)>,
    /// The rule has more conditions than the row: a match has to be confirmed in the rule.
    pub(super) is_partial: bool,
    /// No access can fulfil it.
    is_impossible: bool,
}

/// Which of the two rows: the one that asks for an untrusted file, or the one with the other listed values.
#[derive(Clone, Copy, PartialEq)]
enum Route {
    Untrusted,
    Listed,
}

/// The rows of a rule that an access could fulfil, in any order.
pub(super) fn of<'r>(rules: &'r RuleSet, rule: &'r Rule) -> Vec<Conjunction<'r>> {
    let subject_is_mixed = rule.subject.iter().any(|field| {
        matches!(field, SubjectField::Text(SubjectText::Exe | SubjectText::Dir, values) if rules.lists(values, UNTRUSTED))
    });
    let object_is_mixed = rule.object.iter().any(|field| {
        matches!(field, ObjectField::Text(ObjectText::Path | ObjectText::Dir, values) if rules.lists(values, UNTRUSTED))
    });
    let mut rows = Vec::with_capacity(1);
    for subject in routes(subject_is_mixed) {
        for object in routes(object_is_mixed) {
            let mut row = Conjunction::default();
            row.permission(rule.permission);
            row.subject(rules, rule, *subject);
            row.object(rules, rule, *object);
            if !row.is_impossible {
                rows.push(row);
            }
        }
    }
    rows
}

fn routes(is_mixed: bool) -> &'static [Route] {
    if is_mixed { &[Route::Untrusted, Route::Listed] } else { &[Route::Listed] }
}

impl<'r> Conjunction<'r> {
    fn permission(&mut self, permission: Permission) {
        match permission {
            Permission::Any => {}
            Permission::Open => self.flags(Dimension::Access, 1 << access_flag(Access::Open)),
            Permission::Execute => self.flags(Dimension::Access, 1 << access_flag(Access::Execute)),
        }
    }

    fn subject(&mut self, rules: &'r RuleSet, rule: &'r Rule, route: Route) {
        if route == Route::Untrusted {
            self.flags(Dimension::SubjectTrust, trust_flag(false));
        }
        for field in &rule.subject {
            match field {
                SubjectField::All => {}
                SubjectField::Trust(trust) => self.flags(Dimension::SubjectTrust, trust_flag(*trust)),
                SubjectField::Pattern(pattern) => match pattern {
                    Pattern::Normal => self.flags(Dimension::Start, 1 << start_flag(Start::Normal)),
                    Pattern::LinkerItself => self.flags(Dimension::Start, LINKER_ONLY),
                    Pattern::Static => self.flags(Dimension::Start, 1 << start_flag(Start::Static)),
                    Pattern::Preload => self.flags(Dimension::Preload, 0b10),
                },
                SubjectField::Number(number, values) => {
                    let dimension = match number {
                        SubjectNumber::Auid => Dimension::Auid,
                        SubjectNumber::Uid => Dimension::Uid,
                        SubjectNumber::Gid => Dimension::Gid,
                        SubjectNumber::Session => Dimension::Session,
                        SubjectNumber::Pid => Dimension::Pid,
                        SubjectNumber::Ppid => Dimension::Ppid,
                    };
                    let numbers =
                        rules.numbers(values).iter().filter_map(|&number| u32::try_from(number).ok());
                    let numbers: Vec<u32> = numbers.collect();
                    self.is_impossible |= numbers.is_empty();
                    self.add(dimension, Condition::Numbers(numbers));
                }
                SubjectField::Text(text, values) => match text {
                    SubjectText::Comm => self.exact(Dimension::Comm, rules.texts(values)),
                    SubjectText::Kind => self.exact(Dimension::SubjectKind, rules.texts(values)),
                    SubjectText::Exe => self.place(Dimension::Exe, rules, values, route),
                    SubjectText::Dir => self.place(Dimension::ExeDirectory, rules, values, route),
                },
            }
        }
    }

    fn object(&mut self, rules: &'r RuleSet, rule: &'r Rule, route: Route) {
        if route == Route::Untrusted {
            self.flags(Dimension::Trust, trust_flag(false));
        }
        for (index, field) in rule.object.iter().enumerate() {
            if rules.needs_untrusted_object(rule, index) {
                self.flags(Dimension::Trust, trust_flag(false));
            }
            match field {
                ObjectField::All => {}
                ObjectField::Trust(trust) => self.flags(Dimension::Trust, trust_flag(*trust)),
                ObjectField::Text(text, values) => match text {
                    ObjectText::Path => self.place(Dimension::Path, rules, values, route),
                    ObjectText::Dir => self.place(Dimension::Directory, rules, values, route),
                    ObjectText::Device => self.exact(Dimension::Device, rules.texts(values)),
                    ObjectText::Kind if rules.lists(values, ANY_KIND) => {}
                    ObjectText::Kind => self.exact(Dimension::Kind, rules.texts(values)),
                    ObjectText::Hash => self.exact(Dimension::Hash, rules.texts(values)),
                },
            }
        }
    }

    /// Paths, patterns and prefixes, and the words that stand for some.
    fn place(&mut self, dimension: Dimension, rules: &'r RuleSet, values: &'r Values<Text>, route: Route) {
        let is_mixed = rules.lists(values, UNTRUSTED);
        if is_mixed && route == Route::Untrusted {
            return;
        }
        let mut texts: Vec<&[u8]> = Vec::new();
        for text in rules.texts(values) {
            match &**text {
                UNTRUSTED => {}
                EXECDIRS if dimension.is_by_prefix() => texts.extend(EXECUTABLE_DIRECTORIES),
                SYSTEMDIRS if dimension.is_by_prefix() => texts.extend(SYSTEM_DIRECTORIES),
                text => texts.push(text),
            }
        }
        self.is_impossible |= texts.is_empty();
        self.add(dimension, Condition::Texts(texts));
    }

    fn exact(&mut self, dimension: Dimension, texts: &'r [Text]) {
        self.is_impossible |= texts.is_empty();
        self.add(dimension, Condition::Texts(texts.iter().map(|text| &**text).collect()));
    }

    fn flags(&mut self, dimension: Dimension, flags: u8) {
        for (known, condition) in &mut self.conditions {
            if let (true, Condition::Flags(both)) = (*known == dimension, condition) {
                *both &= flags;
                self.is_impossible |= *both == 0;
                return;
            }
        }
        self.conditions.push((dimension, Condition::Flags(flags)));
    }

    fn add(&mut self, dimension: Dimension, condition: Condition<'r>) {
        if self.conditions.iter().any(|(known, _)| *known == dimension) {
            // A repeated attribute happens only by mistake. The second condition is checked in the rule.
            self.is_partial = true;
        } else {
            self.conditions.push((dimension, condition));
        }
    }
}

/// `pattern=ld_so`
pub(super) const LINKER_ONLY: u8 = 1 << 2;

fn trust_flag(trust: bool) -> u8 {
    if trust { 0b10 } else { 0b01 }
}
