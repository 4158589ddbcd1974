// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses fapolicyd's grammar, both its forms, to a [`RuleSet`].
//!
//! A line with a colon anywhere is in the newer form (`decision [perm=…] subject : object`). Any other line is in the
//! original form, without a colon and without `perm=`, where the program's directory and type are `exe_dir` and
//! `exe_type`. fapolicyd distinguishes them in the same way.

use std::path::Path;

use palisade_policy::suggest::nearest;

use super::accounts::Accounts;
use super::build::{Builder, TextField, Wrong};
use super::error::{LoadError, MOST_FIELDS, RuleError};
use super::line::{Item, Misplaced, Word, Words};
use super::{
    Decision, ObjectField, ObjectText, Origin, Pattern, Permission, Place, Rule, RuleSet, SubjectField,
    SubjectNumber, SubjectText, Text,
};

/// Reads rule files, one after the other, to one rule set.
pub struct Parser<'a> {
    pub(super) builder: Builder<'a>,
}

impl std::fmt::Debug for Parser<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parser").field("rules", &self.builder.rules.len()).finish_non_exhaustive()
    }
}

/// The values with which fapolicyd's build replaces `%name%`. Its unbuilt rules use such names for `exe=` and `path=`:
/// `ld_so_path`, `python2_path`, `python3_path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// Its name, without the `%`s.
    pub name: Box<str>,
    /// This host's paths.
    pub values: Vec<Text>,
}

/// Reads one text as rules. `name` is the file name in complaints.
///
/// # Errors
/// All mistakes in it, at most 20.
pub fn parse(name: &Path, content: &[u8], accounts: &dyn Accounts) -> Result<RuleSet, LoadError> {
    let mut parser = Parser::new(accounts, &[]);
    parser.file(name, content);
    parser.finish()
}

impl<'a> Parser<'a> {
    /// A parser without rules. Only rules of fapolicyd's unbuilt sources need `placeholders`.
    #[must_use]
    pub fn new(accounts: &'a dyn Accounts, placeholders: &'a [Placeholder]) -> Self {
        Self { builder: Builder::new(accounts, placeholders) }
    }

    /// Reads the next file. [`Parser::finish`] reports its mistakes.
    pub fn file(&mut self, name: &Path, content: &[u8]) {
        let file = self.builder.begin(name);
        for (line, number) in content.split(|&byte| byte == b'\n').zip(1..) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let place = Place { file, line: number };
            if let Err(misplaced) = self.line(line, place) {
                let end = misplaced.end.clamp(misplaced.column, line.len());
                let text = &line[misplaced.column.min(end)..end];
                self.builder.complain(place, misplaced.column, text, misplaced.error);
            }
        }
    }

    /// The rules of all files.
    ///
    /// # Errors
    /// All mistakes in them, at most 20.
    pub fn finish(self) -> Result<RuleSet, LoadError> {
        self.builder.finish()
    }

    fn line(&mut self, line: &[u8], place: Place) -> Result<(), Misplaced> {
        let Some(start) = line.iter().position(|byte| !byte.is_ascii_whitespace()) else { return Ok(()) };
        if line[start] == b'#' {
            return Ok(());
        }
        if let Some(nul) = line.iter().position(|&byte| byte == 0) {
            return Err(Misplaced { column: nul, end: nul + 1, error: RuleError::Nul });
        }
        let mut words = Words::of(line);
        let Some(first) = words.next()? else { return Ok(()) };
        if line[start] == b'%' {
            return self.set(first, words, place);
        }
        let decision = Decision::named(first.text).ok_or_else(|| {
            at(&first, RuleError::UnknownDecision { suggestion: near(first.text, Decision::NAMES) })
        })?;
        let mut deprecated = None;
        let rule = if line.contains(&b':') {
            self.with_colon(decision, words, line.len())?
        } else {
            deprecated = Some(("no colon", "`decision perm=open subject : object`"));
            self.original(decision, words, line.len())?
        };
        let has_hash =
            rule.object.iter().any(|field| matches!(field, ObjectField::Text(ObjectText::Hash, _)));
        if has_hash && !line.windows(9).any(|name| name == b"filehash=") {
            deprecated = Some(("an old name of `filehash`", "`filehash=`"));
        }
        if self.builder.rules.len() >= i32::MAX as usize {
            return Err(Misplaced { column: 0, end: 0, error: RuleError::TooManyRules });
        }
        self.builder.rules.push(rule, Origin { place, because: None, deprecated });
        Ok(())
    }

    /// `%name=a,b` or `%languages+=a,b`
    fn set(&mut self, word: Word<'_>, mut rest: Words<'_>, place: Place) -> Result<(), Misplaced> {
        let (column, end) = (word.column, word.column + word.text.len());
        let Some(items) = word.items else {
            return Err(Misplaced { column, end, error: RuleError::SetWithoutValues });
        };
        if let Some(after) = rest.next()? {
            return Err(at(&after, RuleError::AfterSet));
        }
        let name = word.name.strip_prefix(b"%").unwrap_or(word.name);
        let (name, extends) = match name.strip_suffix(b"+") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (columns, values) = apart(items);
        self.builder.define(name, values, extends, place).map_err(|(index, error)| {
            let about_an_item = matches!(error, RuleError::MixedSet | RuleError::Glob { .. });
            match columns.get(index) {
                Some(&(column, end)) if about_an_item => Misplaced { column, end, error },
                _ => Misplaced { column, end, error },
            }
        })
    }

    /// `decision [perm=…] subject : object`
    fn with_colon(&self, decision: Decision, mut words: Words<'_>, end: usize) -> Result<Rule, Misplaced> {
        let mut permission = Permission::default();
        let mut subject = Vec::new();
        let mut object = Vec::new();
        let mut past_colon = false;
        let mut is_first = true;
        while let Some(word) = words.next()? {
            let first = std::mem::replace(&mut is_first, false);
            if word.text == b":" && !past_colon {
                past_colon = true;
            } else if word.name == b"perm" && word.items.is_some() {
                if !first {
                    return Err(at(&word, RuleError::MisplacedPermission));
                }
                let items = word.items.as_deref().unwrap_or_default();
                permission = match items {
                    [item] => Permission::named(&item.value),
                    _ => None,
                }
                .ok_or_else(|| at(&word, RuleError::UnknownPermission))?;
            } else if past_colon {
                let field = self.object(word)?;
                object.push(field);
            } else {
                let field = self.subject(word, false)?;
                subject.push(field);
            }
        }
        whole(decision, permission, subject, object, end)
    }

    /// `decision subject object`
    fn original(&self, decision: Decision, mut words: Words<'_>, end: usize) -> Result<Rule, Misplaced> {
        let mut subject = Vec::new();
        let mut object = Vec::new();
        while let Some(word) = words.next()? {
            if word.name == b"perm" {
                return Err(at(&word, RuleError::MisplacedPermission));
            }
            if word.text == b"all" {
                if subject.is_empty() {
                    subject.push(SubjectField::All);
                } else if object.is_empty() {
                    object.push(ObjectField::All);
                } else {
                    return Err(at(&word, RuleError::MissingEquals));
                }
            } else if ORIGINAL_SUBJECT.contains(&word.name) {
                subject.push(self.subject(word, true)?);
            } else {
                object.push(self.object(word)?);
            }
        }
        whole(decision, Permission::Open, subject, object, end)
    }

    fn subject(&self, word: Word<'_>, original: bool) -> Result<SubjectField, Misplaced> {
        let column = word.column;
        let text_end = column + word.text.len();
        let wrong = |error| Misplaced { column, end: text_end, error };
        let Some(items) = word.items else {
            return match word.text {
                b"all" => Ok(SubjectField::All),
                _ => Err(wrong(RuleError::MissingEquals)),
            };
        };
        let name = match word.name {
            b"exe_dir" if original => &b"dir"[..],
            b"exe_type" if original => b"ftype",
            name => name,
        };
        let (columns, values) = apart(items);
        let locate = |(index, error): Wrong| match columns.get(index) {
            Some(&(column, end)) => Misplaced { column, end, error },
            None => Misplaced { column, end: text_end, error },
        };
        if let Some(number) = SubjectNumber::named(name) {
            let values = self.builder.numbers(number, values).map_err(locate)?;
            return Ok(SubjectField::Number(number, values));
        }
        if let Some(text) = SubjectText::named(name) {
            let values = self.builder.texts(TextField::Subject(text), values).map_err(locate)?;
            return Ok(SubjectField::Text(text, values));
        }
        match name {
            b"trust" => trust(&values).map(SubjectField::Trust).map_err(locate),
            b"pattern" => {
                let word = single("pattern", &values).map_err(locate)?;
                let pattern = Pattern::named(word).ok_or_else(|| {
                    let suggestion = near(word, Pattern::NAMES.iter().copied());
                    locate((0, RuleError::UnknownPattern { suggestion }))
                })?;
                Ok(SubjectField::Pattern(pattern))
            }
            b"device" | b"exe_device" => Err(wrong(RuleError::DroppedField { side: "subject" })),
            _ => Err(wrong(unknown("subject", name))),
        }
    }

    fn object(&self, word: Word<'_>) -> Result<ObjectField, Misplaced> {
        let column = word.column;
        let text_end = column + word.text.len();
        let wrong = |error| Misplaced { column, end: text_end, error };
        let Some(items) = word.items else {
            return match word.text {
                b"all" => Ok(ObjectField::All),
                _ => Err(wrong(RuleError::MissingEquals)),
            };
        };
        let (columns, values) = apart(items);
        let locate = |(index, error): Wrong| match columns.get(index) {
            Some(&(column, end)) => Misplaced { column, end, error },
            None => Misplaced { column, end: text_end, error },
        };
        if let Some(text) = object_text(word.name) {
            let values = self.builder.texts(TextField::Object(text), values).map_err(locate)?;
            return Ok(ObjectField::Text(text, values));
        }
        match word.name {
            b"trust" => trust(&values).map(ObjectField::Trust).map_err(locate),
            b"mode" | b"exe_device" => Err(wrong(RuleError::DroppedField { side: "object" })),
            name => Err(wrong(unknown("object", name))),
        }
    }
}

/// The fields of a subject in the original form; all others belong to the object (`trust`, `dir` and `ftype`, too).
const ORIGINAL_SUBJECT: &[&[u8]] =
    &[b"auid", b"uid", b"sessionid", b"pid", b"pattern", b"comm", b"exe", b"exe_dir", b"exe_type"];

/// The object's field of this name. The hash has three names: fapolicyd 2.0 reads the first two and documents the last.
pub(super) fn object_text(name: &[u8]) -> Option<ObjectText> {
    match name {
        b"sha256hash" | b"FILE_HASH" | b"SHA256HASH" => Some(ObjectText::Hash),
        name => ObjectText::named(name),
    }
}

/// `0` or `1`
fn trust(values: &[Text]) -> Result<bool, Wrong> {
    match single("trust", values)? {
        b"0" => Ok(false),
        b"1" => Ok(true),
        _ => Err((0, RuleError::Trust)),
    }
}

fn single<'v>(field: &'static str, values: &'v [Text]) -> Result<&'v [u8], Wrong> {
    match values {
        [value] if !value.starts_with(b"%") => Ok(value),
        [] => Err((0, RuleError::NoValue { field })),
        _ => Err((0, RuleError::SingleValue { field })),
    }
}

/// The fields as a rule, if their number is right.
fn whole(
    decision: Decision,
    permission: Permission,
    subject: Vec<SubjectField>,
    object: Vec<ObjectField>,
    end: usize,
) -> Result<Rule, Misplaced> {
    let wrong = |error| Err(Misplaced { column: end, end, error });
    if subject.is_empty() {
        return wrong(RuleError::MissingSubject);
    }
    if object.is_empty() {
        return wrong(RuleError::MissingObject);
    }
    if subject.len().max(object.len()) > MOST_FIELDS {
        return wrong(RuleError::TooManyFields);
    }
    Ok(Rule { decision, permission, subject: subject.into(), object: object.into() })
}

/// The positions of the items, and their values.
fn apart(items: Vec<Item>) -> (Vec<(usize, usize)>, Vec<Text>) {
    items.into_iter().map(|item| ((item.column, item.column + item.value.len()), item.value)).unzip()
}

fn at(word: &Word<'_>, error: RuleError) -> Misplaced {
    Misplaced { column: word.column, end: word.column + word.text.len(), error }
}

/// The nearest of the known words.
pub(super) fn near(word: &[u8], known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    nearest(std::str::from_utf8(word).ok()?, known)
}

pub(super) fn unknown(side: &'static str, name: &[u8]) -> RuleError {
    let suggestion = if side == "subject" {
        near(
            name,
            SubjectNumber::NAMES.iter().chain(SubjectText::NAMES).chain(&["trust", "pattern"]).copied(),
        )
    } else {
        near(name, ObjectText::NAMES.iter().chain(&["trust"]).copied())
    };
    RuleError::UnknownField { side, suggestion }
}
