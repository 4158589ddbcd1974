// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds rule sets for both forms of rules: named sets, and which values a field takes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use palisade_policy::suggest::nearest;

use super::accounts::Accounts;
use super::error::{Complaint, LoadError, MOST_COMPLAINTS, RuleError, shown};
use super::parse::Placeholder;
use super::{
    GLOB, Members, NamedSet, ObjectText, Place, RuleSet, SubjectNumber, SubjectText, Text, Values, glob,
};

/// The only set that can be extended.
const EXTENDABLE: &str = "languages";

/// The index of the wrong item in a list, and the error.
pub(super) type Wrong = (usize, RuleError);

/// A rule set that is being read.
pub(super) struct Builder<'a> {
    pub(super) rules: RuleSet,
    accounts: &'a dyn Accounts,
    placeholders: &'a [Placeholder],
    names: HashMap<Box<str>, usize, foldhash::fast::RandomState>,
    /// Sets whose definition was refused. A rule that names one of them isn't reported again for that.
    broken: Vec<usize>,
    complaints: Vec<Complaint>,
    more: usize,
}

/// A field that takes a list of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextField {
    Subject(SubjectText),
    Object(ObjectText),
}

impl TextField {
    fn name(self) -> &'static str {
        match self {
            Self::Subject(field) => field.name(),
            Self::Object(field) => field.name(),
        }
    }

    fn takes_globs(self) -> bool {
        matches!(self, Self::Subject(SubjectText::Exe) | Self::Object(ObjectText::Path))
    }
}

impl<'a> Builder<'a> {
    pub(super) fn new(accounts: &'a dyn Accounts, placeholders: &'a [Placeholder]) -> Self {
        Self {
            rules: RuleSet::default(),
            accounts,
            placeholders,
            names: HashMap::default(),
            broken: Vec::new(),
            complaints: Vec::new(),
            more: 0,
        }
    }

    /// Starts a file. Returns its index.
    pub(super) fn begin(&mut self, file: &Path) -> u32 {
        self.rules.files.push(Arc::from(file));
        u32::try_from(self.rules.files.len() - 1).unwrap_or(u32::MAX)
    }

    /// Records a mistake. `column` is from zero.
    pub(super) fn complain(&mut self, place: Place, column: usize, text: &[u8], error: RuleError) {
        if self.complaints.len() == MOST_COMPLAINTS {
            self.more += 1;
            return;
        }
        let file = self.rules.files[place.file as usize].clone();
        let column = u32::try_from(column + 1).unwrap_or(u32::MAX);
        self.complaints.push(Complaint { file, line: place.line, column, text: shown(text), error });
    }

    /// The rules, if there was no mistake.
    pub(super) fn finish(self) -> Result<RuleSet, LoadError> {
        if self.complaints.is_empty() {
            Ok(self.rules)
        } else {
            Err(LoadError::Refused { complaints: self.complaints, more: self.more })
        }
    }

    /// Defines a set, or extends it.
    pub(super) fn define(
        &mut self,
        name: &[u8],
        items: Vec<Text>,
        extends: bool,
        place: Place,
    ) -> Result<(), Wrong> {
        let name = set_name(name).ok_or((0, RuleError::SetName))?;
        let existing = self.names.get(name).copied();
        if extends {
            return self.extend(name, existing, items);
        }
        if let Some(existing) = existing {
            return Err((0, RuleError::RedefinedSet { line: self.rules.sets[existing].place.line }));
        }
        let index = self.rules.sets.len();
        self.names.insert(name.into(), index);
        let (members, wrong) = members(items);
        self.rules.sets.push(NamedSet { name: name.into(), members, place });
        match wrong {
            Some(wrong) => {
                self.broken.push(index);
                Err(wrong)
            }
            None => Ok(()),
        }
    }

    fn extend(&mut self, name: &str, existing: Option<usize>, items: Vec<Text>) -> Result<(), Wrong> {
        if name != EXTENDABLE {
            return Err((0, RuleError::NotExtendable));
        }
        let Some(existing) = existing else { return Err((0, RuleError::UndefinedSet { suggestion: None })) };
        if items.is_empty() {
            return Err((0, RuleError::EmptySet));
        }
        if let Some(index) = items.iter().position(|item| item.starts_with(GLOB)) {
            return Err((index, RuleError::Glob { field: "ftype" }));
        }
        match &mut self.rules.sets[existing].members {
            Members::Texts(texts) => {
                for item in items {
                    if !texts.contains(&item) {
                        texts.push(item);
                    }
                }
                Ok(())
            }
            Members::Numbers(_) => {
                Err((0, RuleError::SetType { field: "ftype", expected: "texts", found: "numbers" }))
            }
        }
    }

    /// The values that a field of texts is compared with.
    pub(super) fn texts(&self, field: TextField, items: Vec<Text>) -> Result<Values<Text>, Wrong> {
        if field.takes_globs()
            && let [item] = &*items
            && let Some(values) = self.placeholder(item)
        {
            return Ok(Values::Listed(values.into()));
        }
        if let Some(index) = self.named(&items)? {
            let Members::Texts(texts) = &self.rules.sets[index].members else {
                return Err((
                    0,
                    RuleError::SetType { field: field.name(), expected: "texts", found: "numbers" },
                ));
            };
            // A wrong item of the set is reported at the word that names the set.
            check(field, texts).map_err(|(_, error)| (0, error))?;
            return Ok(Values::Named(index));
        }
        check(field, &items)?;
        Ok(Values::Listed(without_repeats(items)))
    }

    /// The values that a field of numbers is compared with.
    pub(super) fn numbers(&self, field: SubjectNumber, items: Vec<Text>) -> Result<Values<i64>, Wrong> {
        let (lowest, highest) = range(field);
        let wrong = RuleError::Number { field: field.name(), lowest, highest };
        if let Some(index) = self.named(&items)? {
            return match &self.rules.sets[index].members {
                Members::Numbers(numbers)
                    if numbers.iter().all(|number| (lowest..=highest).contains(number)) =>
                {
                    Ok(Values::Named(index))
                }
                Members::Numbers(_) => Err((0, wrong)),
                Members::Texts(_) if self.broken.contains(&index) => Ok(Values::Named(index)),
                Members::Texts(_) => {
                    Err((0, RuleError::SetType { field: field.name(), expected: "numbers", found: "texts" }))
                }
            };
        }
        if items.is_empty() {
            return Err((0, RuleError::NoValue { field: field.name() }));
        }
        let numbers = items.iter().enumerate().map(|(index, item)| {
            if !item.first().is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+')) {
                let found = match field {
                    SubjectNumber::Auid | SubjectNumber::Uid => {
                        self.accounts.user(item).ok_or(RuleError::UnknownUser)
                    }
                    SubjectNumber::Gid => self.accounts.group(item).ok_or(RuleError::UnknownGroup),
                    _ => Err(wrong.clone()),
                };
                return found.map(i64::from).map_err(|error| (index, error));
            }
            match number(item) {
                Some(number) if (lowest..=highest).contains(&number) => Ok(number),
                _ => Err((index, wrong.clone())),
            }
        });
        Ok(Values::Listed(without_repeats(numbers.collect::<Result<Vec<i64>, Wrong>>()?)))
    }

    /// The values of the placeholder, if the item is one of those that fapolicyd's build replaces.
    fn placeholder(&self, item: &[u8]) -> Option<&[Text]> {
        let name = item.strip_prefix(b"%")?.strip_suffix(b"%")?;
        let known = self.placeholders.iter().find(|placeholder| placeholder.name.as_bytes() == name)?;
        Some(&known.values)
    }

    /// The set that the items name, if the first one begins with `%`.
    fn named(&self, items: &[Text]) -> Result<Option<usize>, Wrong> {
        let Some(name) = items.first().and_then(|item| item.strip_prefix(b"%")) else { return Ok(None) };
        let name = set_name(name).filter(|_| items.len() == 1).ok_or((0, RuleError::SetName))?;
        match self.names.get(name) {
            Some(&index) => Ok(Some(index)),
            None => {
                let suggestion = nearest(name, self.names.keys().map(|name| &**name)).map(str::to_owned);
                Err((0, RuleError::UndefinedSet { suggestion }))
            }
        }
    }
}

/// Checks that the items can be values of this field.
fn check(field: TextField, items: &[Text]) -> Result<(), Wrong> {
    for (index, item) in items.iter().enumerate() {
        if let Some(pattern) = item.strip_prefix(GLOB) {
            if !field.takes_globs() {
                return Err((index, RuleError::Glob { field: field.name() }));
            }
            if !pattern.starts_with(b"/") || glob::is_malformed(pattern) {
                return Err((index, RuleError::BadGlob));
            }
        }
        let is_hash = item.len() == 64 && item.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if field == TextField::Object(ObjectText::Hash) && !is_hash {
            return Err((index, RuleError::BadHash));
        }
    }
    Ok(())
}

/// A set's items, and their first mistake.
fn members(items: Vec<Text>) -> (Members, Option<Wrong>) {
    let Some(first) = items.first() else {
        return (Members::Texts(Vec::new()), Some((0, RuleError::EmptySet)));
    };
    if number(first).is_none() {
        return (Members::Texts(without_repeats(items).into_vec()), None);
    }
    let mut numbers = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match number(item) {
            Some(number) => numbers.push(number),
            None => return (Members::Texts(Vec::new()), Some((index, RuleError::MixedSet))),
        }
    }
    (Members::Numbers(without_repeats(numbers).into_vec()), None)
}

/// The same items once each, in the order in which they first appear.
fn without_repeats<T: Clone + Eq + std::hash::Hash>(mut items: Vec<T>) -> Box<[T]> {
    if items.len() > 1 {
        let mut seen = std::collections::HashSet::with_capacity_and_hasher(
            items.len(),
            foldhash::fast::RandomState::default(),
        );
        items.retain(|item| seen.insert(item.clone()));
    }
    items.into()
}

fn number(item: &[u8]) -> Option<i64> {
    let digits = item.strip_prefix(b"-").unwrap_or(item);
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(item).ok()?.parse().ok()
}

/// The numbers that a field takes. Process ids are signed in fapolicyd, so lists of them may contain -1.
fn range(field: SubjectNumber) -> (i64, i64) {
    match field {
        SubjectNumber::Pid | SubjectNumber::Ppid => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (0, i64::from(u32::MAX)),
    }
}

fn set_name(name: &[u8]) -> Option<&str> {
    let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    std::str::from_utf8(name).ok().filter(|_| is_name)
}
