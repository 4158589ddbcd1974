// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lints rules: finds what is valid and probably a mistake.
//!
//! A rule that can't be reached is found by comparing it, condition by condition, with the few earlier rules that can
//! matter. It is reported only when this is certain, so that every finding is worth attention.

use palisade_text::Show as _;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use super::{
    EXECDIRS, EXECUTABLE_DIRECTORIES, GLOB, ObjectField, ObjectText, Permission, Place, Rule, RuleId,
    RuleSet, SYSTEM_DIRECTORIES, SYSTEMDIRS, SubjectField, SubjectText, Text, UNTRUSTED, Values,
};

/// With how many earlier rules each rule is compared: with this many that name no single program or file, because those
/// hide others most easily, and with this many others. With these limits a set of 100,000 rules takes seconds.
const MOST_GENERAL: usize = 400;
const MOST_SPECIAL: usize = 100;

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// An earlier rule matches everything that this one matches, so this one is never reached.
    Shadowed {
        /// The rule.
        rule: RuleId,
        /// The earlier one.
        by: RuleId,
    },
    /// The same rule was written before, with the same decision.
    Duplicate {
        /// The rule.
        rule: RuleId,
        /// The earlier one.
        of: RuleId,
    },
    /// Its conditions exclude each other.
    NeverMatches {
        /// The rule.
        rule: RuleId,
        /// The conditions that exclude each other.
        why: &'static str,
    },
    /// A set that no rule names: its index in [`RuleSet::sets`].
    UnusedSet {
        /// The index.
        set: usize,
    },
    /// A form that is supported only for old rules.
    Deprecated {
        /// The rule.
        rule: RuleId,
        /// The form.
        form: &'static str,
        /// What to write.
        instead: &'static str,
    },
    /// `all` beside other fields, where it has no effect.
    NeedlessAll {
        /// The rule.
        rule: RuleId,
    },
    /// A `dir` that doesn't end with `/` matches every path that begins with it: `/tmp` matches `/tmp2/x`, too.
    OpenEndedDirectory {
        /// The rule.
        rule: RuleId,
    },
    /// No rule decides this kind of access for all subjects and files; what no rule matches is allowed.
    Undecided {
        /// `open` or `execute`.
        permission: Permission,
        /// The last rule, if there is one.
        last: Option<RuleId>,
    },
    /// A decision that logs to the kernel's audit system, which must be present and enabled.
    Audits {
        /// How many rules have such a decision.
        rules: usize,
        /// The first of them.
        first: RuleId,
    },
}

impl Finding {
    /// A name for the class of finding.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Shadowed { .. } => "lint.shadowed",
            Self::Duplicate { .. } => "lint.duplicate",
            Self::NeverMatches { .. } => "lint.never-matches",
            Self::UnusedSet { .. } => "lint.unused-set",
            Self::Deprecated { .. } => "lint.deprecated",
            Self::NeedlessAll { .. } => "lint.needless-all",
            Self::OpenEndedDirectory { .. } => "lint.open-ended-directory",
            Self::Undecided { .. } => "lint.undecided",
            Self::Audits { .. } => "lint.audits",
        }
    }

    /// Is it only information, and no reason to change anything?
    #[must_use]
    pub fn is_note(&self) -> bool {
        matches!(self, Self::Audits { .. } | Self::NeedlessAll { .. })
    }

    /// The place of the finding, if it has one.
    #[must_use]
    pub fn place(&self, rules: &RuleSet) -> Option<Place> {
        match self {
            Self::Shadowed { rule, .. }
            | Self::Duplicate { rule, .. }
            | Self::NeverMatches { rule, .. }
            | Self::Deprecated { rule, .. }
            | Self::NeedlessAll { rule }
            | Self::OpenEndedDirectory { rule }
            | Self::Audits { first: rule, .. } => Some(rules.origin(*rule).place),
            Self::UnusedSet { set } => Some(rules.sets[*set].place),
            Self::Undecided { last, .. } => last.map(|last| rules.origin(last).place),
        }
    }

    /// One line for people, without the place.
    #[must_use]
    pub fn message(&self, rules: &RuleSet) -> String {
        let at = |rule: &RuleId| {
            let place = rules.origin(*rule).place;
            format!("rule {} at {}:{}", rule.number(), rules.file(place).shown(), place.line)
        };
        match self {
            Self::Shadowed { rule, by } => {
                format!("{} is never reached: {} comes first and matches the same accesses", at(rule), at(by))
            }
            Self::Duplicate { rule, of } => format!("{} is the same as {}", at(rule), at(of)),
            Self::NeverMatches { rule, why } => format!("{} never matches: {why}", at(rule)),
            Self::UnusedSet { set } => format!("no rule names %{}", rules.sets[*set].name),
            Self::Deprecated { rule, form, instead } => {
                format!("{} uses {form}; write {instead}", at(rule))
            }
            Self::NeedlessAll { rule } => format!("{} has `all` beside other fields; remove `all`", at(rule)),
            Self::OpenEndedDirectory { rule } => {
                format!(
                    "{} has a `dir` without a `/` at its end: `dir=/tmp` matches `/tmp2/x`, too; write `dir=/tmp/`",
                    at(rule)
                )
            }
            Self::Undecided { permission, .. } => format!(
                "no rule matches every {name}, and one that no rule matches is allowed; \
                 end with `deny perm={name} all : all` or an allow",
                name = permission.name()
            ),
            Self::Audits { rules: count, first } => {
                format!(
                    "{count} rules, the first of them {}, write audit records; the audit system needs a rule about system calls",
                    at(first)
                )
            }
        }
    }
}

/// Lints a rule set. The findings are in the order of the rules.
#[must_use]
pub fn lint(rules: &RuleSet) -> Vec<Finding> {
    let mut findings = Vec::new();
    let hasher = foldhash::fast::FixedState::default();
    let mut seen: HashMap<u64, Vec<RuleId>> = HashMap::new();
    let mut compared: Vec<RuleId> = Vec::new();
    let mut specials = 0;
    for (id, rule) in rules.iter() {
        shape(rules, id, rule, &mut findings);
        if let Some(why) = contradiction(rules, rule) {
            findings.push(Finding::NeverMatches { rule: id, why });
            continue;
        }
        let same = seen.entry(hasher.hash_one(Key(rule))).or_default();
        if let Some(&of) = same.iter().find(|&&of| rules.rule(of) == rule) {
            findings.push(Finding::Duplicate { rule: id, of });
            continue;
        }
        same.push(id);
        if let Some(&by) = compared.iter().find(|&&by| covers(rules, rules.rule(by), rule)) {
            findings.push(Finding::Shadowed { rule: id, by });
            continue;
        }
        let special = is_special(rule);
        specials += usize::from(special);
        if (special && specials <= MOST_SPECIAL) || (!special && compared.len() < MOST_GENERAL + MOST_SPECIAL)
        {
            compared.push(id);
        }
    }
    for set in 0..rules.sets.len() {
        if !rules.rules.iter().any(|rule| names(rule, set)) {
            findings.push(Finding::UnusedSet { set });
        }
    }
    for permission in [Permission::Open, Permission::Execute] {
        let decides = |rule: &Rule| {
            (rule.permission == permission || rule.permission == Permission::Any)
                && rule.subject.iter().all(|field| *field == SubjectField::All)
                && rule.object.iter().all(|field| *field == ObjectField::All)
        };
        if !rules.rules.iter().any(decides) {
            findings.push(Finding::Undecided { permission, last: rules.iter().last().map(|(id, _)| id) });
        }
    }
    let mut audits = rules.iter().filter(|(_, rule)| rule.decision.audit);
    if let Some((first, _)) = audits.next() {
        findings.push(Finding::Audits { rules: audits.count() + 1, first });
    }
    findings
}

/// Does it name single programs or files?
fn is_special(rule: &Rule) -> bool {
    rule.subject.iter().any(|field| matches!(field, SubjectField::Text(SubjectText::Exe, _)))
        || rule
            .object
            .iter()
            .any(|field| matches!(field, ObjectField::Text(ObjectText::Path | ObjectText::Hash, _)))
}

/// A rule as it is hashed: its lengths and texts, which are enough to keep different rules apart in most cases.
struct Key<'r>(&'r Rule);

impl Hash for Key<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.0.decision, self.0.permission, self.0.subject.len(), self.0.object.len()).hash(state);
        for field in &self.0.subject {
            match field {
                SubjectField::Number(_, Values::Listed(numbers)) => numbers.hash(state),
                SubjectField::Text(_, Values::Listed(texts)) => texts.hash(state),
                _ => {}
            }
        }
        for field in &self.0.object {
            if let ObjectField::Text(_, Values::Listed(texts)) = field {
                texts.hash(state);
            }
        }
    }
}

/// Findings about how a rule is written.
fn shape(rules: &RuleSet, id: RuleId, rule: &Rule, findings: &mut Vec<Finding>) {
    let is_needless = |all: usize, len: usize| all > 0 && len > 1;
    let alls = (
        rule.subject.iter().filter(|field| **field == SubjectField::All).count(),
        rule.object.iter().filter(|field| **field == ObjectField::All).count(),
    );
    if is_needless(alls.0, rule.subject.len()) || is_needless(alls.1, rule.object.len()) {
        findings.push(Finding::NeedlessAll { rule: id });
    }
    let subject = rule.subject.iter().filter_map(|field| match field {
        SubjectField::Text(SubjectText::Exe, values) => Some((values, false)),
        SubjectField::Text(SubjectText::Dir, values) => Some((values, true)),
        _ => None,
    });
    let object = rule.object.iter().filter_map(|field| match field {
        ObjectField::Text(ObjectText::Path, values) => Some((values, false)),
        ObjectField::Text(ObjectText::Dir, values) => Some((values, true)),
        _ => None,
    });
    let (mut says_untrusted, mut is_open_ended) = (false, false);
    for (values, is_directory) in subject.chain(object) {
        says_untrusted |= rules.lists(values, UNTRUSTED);
        is_open_ended |= is_directory
            && rules.texts(values).iter().any(|text| text.starts_with(b"/") && !text.ends_with(b"/"));
    }
    if says_untrusted {
        let (form, instead) = ("`untrusted`", "`trust=0`");
        findings.push(Finding::Deprecated { rule: id, form, instead });
    }
    if let Some((form, instead)) = rules.origin(id).deprecated {
        findings.push(Finding::Deprecated { rule: id, form, instead });
    }
    if is_open_ended {
        findings.push(Finding::OpenEndedDirectory { rule: id });
    }
}

/// Why the rule's conditions exclude each other, if that is certain.
fn contradiction(rules: &RuleSet, rule: &Rule) -> Option<&'static str> {
    let is_empty = rule
        .subject
        .iter()
        .any(|field| matches!(field, SubjectField::Text(_, values) if rules.texts(values).is_empty()))
        || rule
            .object
            .iter()
            .any(|field| matches!(field, ObjectField::Text(_, values) if rules.texts(values).is_empty()));
    if is_empty {
        return Some("a field has no value");
    }
    if [true, false].iter().all(|trust| rule.subject.contains(&SubjectField::Trust(*trust))) {
        return Some("the subject would have to be both trusted and untrusted");
    }
    if [true, false].iter().all(|trust| rule.object.contains(&ObjectField::Trust(*trust))) {
        return Some("the object would have to be both trusted and untrusted");
    }
    let exes = rule.subject.iter().filter_map(|field| match field {
        SubjectField::Text(SubjectText::Exe, values) => Some(rules.texts(values)),
        _ => None,
    });
    let exe_directories = rule.subject.iter().filter_map(|field| match field {
        SubjectField::Text(SubjectText::Dir, values) => Some(rules.texts(values)),
        _ => None,
    });
    let paths = rule.object.iter().filter_map(|field| match field {
        ObjectField::Text(ObjectText::Path, values) => Some(rules.texts(values)),
        _ => None,
    });
    let directories = rule.object.iter().filter_map(|field| match field {
        ObjectField::Text(ObjectText::Dir, values) => Some(rules.texts(values)),
        _ => None,
    });
    if are_disjoint(exes, exe_directories) {
        return Some("the subject's `exe` isn't in its `dir`");
    }
    if are_disjoint(paths, directories) {
        return Some("the object's `path` isn't in its `dir`");
    }
    None
}

/// Is there a list of paths none of which is in any directory of some list of directories?
fn are_disjoint<'r>(
    paths: impl Iterator<Item = &'r [Text]>,
    directories: impl Iterator<Item = &'r [Text]> + Clone,
) -> bool {
    let is_plain = |text: &Text| **text != *UNTRUSTED && !text.starts_with(GLOB);
    paths.filter(|paths| paths.iter().all(is_plain)).any(|paths| {
        directories.clone().filter(|directories| directories.iter().all(|text| **text != *UNTRUSTED)).any(
            |directories| {
                let prefixes = prefixes(directories);
                !paths.iter().any(|path| prefixes.iter().any(|prefix| path.starts_with(prefix)))
            },
        )
    })
}

/// The prefixes of a `dir`, with its special words expanded.
fn prefixes(directories: &[Text]) -> Vec<&[u8]> {
    let mut prefixes: Vec<&[u8]> = Vec::new();
    for directory in directories {
        match &**directory {
            EXECDIRS => prefixes.extend(EXECUTABLE_DIRECTORIES),
            SYSTEMDIRS => prefixes.extend(SYSTEM_DIRECTORIES),
            directory => prefixes.push(directory),
        }
    }
    prefixes
}

/// Does the first rule match everything that the second one matches? True only if it is certain.
fn covers(rules: &RuleSet, first: &Rule, second: &Rule) -> bool {
    let permission = first.permission == Permission::Any || first.permission == second.permission;
    permission
        && first.subject.iter().all(|field| {
            *field == SubjectField::All
                || second.subject.iter().any(|other| subject_implies(rules, other, field))
        })
        && first.object.iter().enumerate().all(|(index, field)| {
            !rules.needs_untrusted_object(first, index)
                && (*field == ObjectField::All
                    || second.object.iter().any(|other| object_implies(rules, other, field)))
        })
}

/// If `narrow` holds, does `wide`?
fn subject_implies(rules: &RuleSet, narrow: &SubjectField, wide: &SubjectField) -> bool {
    match (narrow, wide) {
        (SubjectField::Number(a, narrow), SubjectField::Number(b, wide)) => {
            a == b && is_subset(rules.numbers(narrow), rules.numbers(wide))
        }
        (SubjectField::Text(SubjectText::Dir, narrow), SubjectField::Text(SubjectText::Dir, wide))
        | (SubjectField::Text(SubjectText::Exe, narrow), SubjectField::Text(SubjectText::Dir, wide)) => {
            is_below(rules, narrow, wide)
        }
        (SubjectField::Text(a, narrow), SubjectField::Text(b, wide)) => {
            a == b && is_subset(rules.texts(narrow), rules.texts(wide))
        }
        (narrow, wide) => narrow == wide,
    }
}

fn object_implies(rules: &RuleSet, narrow: &ObjectField, wide: &ObjectField) -> bool {
    match (narrow, wide) {
        (_, ObjectField::Text(ObjectText::Kind, wide)) if rules.lists(wide, super::ANY_KIND) => true,
        (ObjectField::Text(ObjectText::Kind, narrow), _) if rules.lists(narrow, super::ANY_KIND) => false,
        (ObjectField::Text(ObjectText::Dir, narrow), ObjectField::Text(ObjectText::Dir, wide))
        | (ObjectField::Text(ObjectText::Path, narrow), ObjectField::Text(ObjectText::Dir, wide)) => {
            is_below(rules, narrow, wide)
        }
        (ObjectField::Text(a, narrow), ObjectField::Text(b, wide)) => {
            a == b && is_subset(rules.texts(narrow), rules.texts(wide))
        }
        (narrow, wide) => narrow == wide,
    }
}

fn is_subset<T: Eq + Hash>(narrow: &[T], wide: &[T]) -> bool {
    if narrow.len().min(wide.len()) < 16 {
        return narrow.iter().all(|value| wide.contains(value));
    }
    let wide: std::collections::HashSet<&T, foldhash::fast::RandomState> = wide.iter().collect();
    narrow.iter().all(|value| wide.contains(value))
}

/// Is everything that the first list (of paths or directories) matches below the second list's directories?
fn is_below(rules: &RuleSet, narrow: &Values<Text>, wide: &Values<Text>) -> bool {
    if rules.lists(narrow, UNTRUSTED) && !rules.lists(wide, UNTRUSTED) {
        return false;
    }
    let wide = prefixes(rules.texts(wide));
    prefixes(rules.texts(narrow)).iter().filter(|path| **path != UNTRUSTED).all(|path| {
        let head = path.strip_prefix(GLOB).map_or(*path, super::glob::literal_head);
        wide.iter().any(|prefix| *prefix != UNTRUSTED && head.starts_with(prefix))
    })
}

fn names(rule: &Rule, set: usize) -> bool {
    rule.subject.iter().any(|field| match field {
        SubjectField::Number(_, Values::Named(named)) | SubjectField::Text(_, Values::Named(named)) => {
            *named == set
        }
        _ => false,
    }) || rule
        .object
        .iter()
        .any(|field| matches!(field, ObjectField::Text(_, Values::Named(named)) if *named == set))
}
