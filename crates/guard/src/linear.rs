// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What rules mean: they are tried one after the other, and the first rule whose conditions all hold decides. If no
//! rule matches, access is allowed.
//!
//! This is the definition. [`crate::decide`] gives the same answers faster, and its tests compare the two.
//!
//! Where fapolicyd 1.1.7, 2.0 and its manual differ, the manual of 2.0 counts: the keywords of `dir` are alternatives
//! to its other values, every user id of a process counts, and `dir` compares bytes (so that `dir=/tmp` holds for
//! `/tmp2/x`).

use crate::facts::{Access, Facts, Start};
use crate::rule::{
    ANY_KIND, Decision, EXECDIRS, EXECUTABLE_DIRECTORIES, GLOB, ObjectField, ObjectText, Pattern, Permission,
    Rule, RuleId, RuleSet, SYSTEM_DIRECTORIES, SYSTEMDIRS, SubjectField, SubjectNumber, SubjectText, Text,
    UNTRUSTED, glob,
};

/// A decision, and the rule that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The rule, or `None` if no rule matched.
    pub rule: Option<RuleId>,
    /// The rule's decision.
    pub decision: Decision,
}

impl Outcome {
    /// When no rule matches.
    pub const NO_RULE: Self = Self { rule: None, decision: Decision::ALLOW };
}

/// Why a rule doesn't match: the first of its conditions that doesn't hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// `perm=`
    Permission,
    /// The subject's field at this index.
    Subject(usize),
    /// The object's field at this index.
    Object(usize),
}

/// Decides one open or exec.
#[must_use]
pub fn decide(rules: &RuleSet, facts: &dyn Facts) -> Outcome {
    rules
        .iter()
        .find(|(_, rule)| mismatch(rules, rule, facts).is_none())
        .map_or(Outcome::NO_RULE, |(id, rule)| Outcome { rule: Some(id), decision: rule.decision })
}

/// The first of a rule's conditions that doesn't hold, in the order in which they are written.
#[must_use]
pub fn mismatch(rules: &RuleSet, rule: &Rule, facts: &dyn Facts) -> Option<Mismatch> {
    if !permits(rule.permission, facts.access()) {
        return Some(Mismatch::Permission);
    }
    let subject = rule.subject.iter().position(|field| !subject_holds(rules, field, facts));
    if let Some(index) = subject {
        return Some(Mismatch::Subject(index));
    }
    object_mismatch(rules, rule, facts).map(Mismatch::Object)
}

/// The index of the first object field that doesn't hold. Asks for no fact about the subject.
pub(crate) fn object_mismatch(rules: &RuleSet, rule: &Rule, facts: &dyn Facts) -> Option<usize> {
    rule.object.iter().enumerate().position(|(index, field)| {
        (rules.needs_untrusted_object(rule, index) && facts.trusted()) || !object_holds(rules, field, facts)
    })
}

/// Is a rule of this permission about this access?
#[must_use]
pub fn permits(permission: Permission, access: Access) -> bool {
    match permission {
        Permission::Any => true,
        Permission::Open => access == Access::Open,
        Permission::Execute => access == Access::Execute,
    }
}

fn subject_holds(rules: &RuleSet, field: &SubjectField, facts: &dyn Facts) -> bool {
    match field {
        SubjectField::All => true,
        SubjectField::Trust(trust) => facts.subject_trusted() == *trust,
        SubjectField::Pattern(pattern) => match pattern {
            Pattern::Normal => facts.start() == Start::Normal,
            Pattern::LinkerItself => facts.start() == Start::LinkerItself,
            Pattern::Static => facts.start() == Start::Static,
            Pattern::Preload => facts.preloads(),
        },
        SubjectField::Number(number, values) => {
            let lists = |found: u32| rules.numbers(values).contains(&i64::from(found));
            match number {
                SubjectNumber::Auid => lists(facts.auid()),
                SubjectNumber::Uid => facts.uids().iter().any(|&uid| lists(uid)),
                SubjectNumber::Gid => facts.gids().iter().any(|&gid| lists(gid)),
                SubjectNumber::Session => lists(facts.session()),
                SubjectNumber::Pid => lists(facts.pid()),
                SubjectNumber::Ppid => lists(facts.ppid()),
            }
        }
        SubjectField::Text(text, values) => {
            let texts = rules.texts(values);
            match text {
                SubjectText::Comm => lists(texts, facts.comm()),
                SubjectText::Kind => lists(texts, facts.subject_kind().as_bytes()),
                SubjectText::Exe => path_holds(texts, facts.exe(), || !facts.subject_trusted()),
                SubjectText::Dir => directory_holds(texts, facts.exe(), || !facts.subject_trusted()),
            }
        }
    }
}

fn object_holds(rules: &RuleSet, field: &ObjectField, facts: &dyn Facts) -> bool {
    match field {
        ObjectField::All => true,
        ObjectField::Trust(trust) => facts.trusted() == *trust,
        ObjectField::Text(text, values) => {
            let texts = rules.texts(values);
            match text {
                ObjectText::Path => path_holds(texts, facts.path(), || !facts.trusted()),
                ObjectText::Dir => directory_holds(texts, facts.path(), || !facts.trusted()),
                ObjectText::Device => lists(texts, facts.device()),
                ObjectText::Kind => lists(texts, ANY_KIND) || lists(texts, facts.kind().as_bytes()),
                // A file that can't be read has no hash, and so isn't the file that the rule means.
                ObjectText::Hash => facts.hash().is_some_and(|hash| lists(texts, hash.as_bytes())),
            }
        }
    }
}

fn lists(texts: &[Text], found: &[u8]) -> bool {
    texts.iter().any(|text| **text == *found)
}

fn path_holds(texts: &[Text], path: &[u8], is_untrusted: impl Fn() -> bool) -> bool {
    texts.iter().any(|text| match text.strip_prefix(GLOB) {
        Some(pattern) => glob::matches(pattern, path),
        None if **text == *UNTRUSTED => is_untrusted(),
        None => **text == *path,
    })
}

fn directory_holds(texts: &[Text], path: &[u8], is_untrusted: impl Fn() -> bool) -> bool {
    let below = |directories: &[&[u8]]| directories.iter().any(|directory| path.starts_with(directory));
    texts.iter().any(|text| match &**text {
        EXECDIRS => below(EXECUTABLE_DIRECTORIES),
        SYSTEMDIRS => below(SYSTEM_DIRECTORIES),
        UNTRUSTED => is_untrusted(),
        directory => path.starts_with(directory),
    })
}

/// One rule that was tried, for explanations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The rule.
    pub rule: RuleId,
    /// Why it didn't match; `None` if it did (and decided).
    pub mismatch: Option<Mismatch>,
}

impl Step {
    /// The condition that didn't hold, as a rule would write it, and the actual value.
    #[must_use]
    pub fn reason(&self, rules: &RuleSet, facts: &dyn Facts) -> Option<String> {
        let rule = rules.rule(self.rule);
        Some(match self.mismatch? {
            Mismatch::Permission => format!("perm={}: this is {}", rule.permission.name(), facts.access()),
            Mismatch::Subject(index) => {
                let (name, found) = subject_found(&rule.subject[index], facts);
                format!("subject {name}: it is {found}")
            }
            Mismatch::Object(index) => {
                if rules.needs_untrusted_object(rule, index) && facts.trusted() {
                    "object path: with the subject's `untrusted` it matches untrusted files; this file is trusted"
                        .to_owned()
                } else {
                    let (name, found) = object_found(&rule.object[index], facts);
                    format!("object {name}: it is {found}")
                }
            }
        })
    }
}

/// The rules that were tried, up to the one that decided (the last, unless it has a `mismatch`).
#[must_use]
pub fn explain(rules: &RuleSet, facts: &dyn Facts) -> Vec<Step> {
    let mut steps = Vec::new();
    for (id, rule) in rules.iter() {
        let mismatch = mismatch(rules, rule, facts);
        steps.push(Step { rule: id, mismatch });
        if mismatch.is_none() {
            break;
        }
    }
    steps
}

fn subject_found(field: &SubjectField, facts: &dyn Facts) -> (&'static str, String) {
    match field {
        SubjectField::All => ("all", String::new()),
        SubjectField::Trust(_) => ("trust", u8::from(facts.subject_trusted()).to_string()),
        SubjectField::Pattern(Pattern::Preload) => {
            ("pattern=ld_preload", "started without preloads".to_owned())
        }
        SubjectField::Pattern(_) => (
            "pattern",
            match facts.start() {
                Start::Unknown => "not known",
                Start::Normal => "normal",
                Start::LinkerItself => "ld_so",
                Start::Static => "static",
            }
            .to_owned(),
        ),
        SubjectField::Number(number, _) => (
            number.name(),
            match number {
                SubjectNumber::Auid => facts.auid().to_string(),
                SubjectNumber::Uid => listed(facts.uids()),
                SubjectNumber::Gid => listed(facts.gids()),
                SubjectNumber::Session => facts.session().to_string(),
                SubjectNumber::Pid => facts.pid().to_string(),
                SubjectNumber::Ppid => facts.ppid().to_string(),
            },
        ),
        SubjectField::Text(text, _) => (
            text.name(),
            match text {
                SubjectText::Comm => text_of(facts.comm()),
                SubjectText::Kind => facts.subject_kind().to_owned(),
                SubjectText::Exe | SubjectText::Dir => text_of(facts.exe()),
            },
        ),
    }
}

fn object_found(field: &ObjectField, facts: &dyn Facts) -> (&'static str, String) {
    match field {
        ObjectField::All => ("all", String::new()),
        ObjectField::Trust(_) => ("trust", u8::from(facts.trusted()).to_string()),
        ObjectField::Text(text, _) => (
            text.name(),
            match text {
                ObjectText::Path | ObjectText::Dir => text_of(facts.path()),
                ObjectText::Device => text_of(facts.device()),
                ObjectText::Kind => facts.kind().to_owned(),
                ObjectText::Hash => facts.hash().unwrap_or("not readable, or larger than 512 MiB").to_owned(),
            },
        ),
    }
}

fn listed(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn text_of(bytes: &[u8]) -> String {
    crate::rule::error::shown(bytes)
}
