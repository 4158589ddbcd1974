// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the same rules as TOML: `[guard]`.
//!
//! ```toml
//! [guard.sets]
//! python = ["/usr/bin/python3.12", "/usr/bin/python3.13"]
//!
//! [[guard.rule]]
//! deny = "execute"
//! log = "audit"
//! subject = { uid = ["alice", 1001] }
//! object = { trust = false, dir = ["/tmp/", "/var/tmp/"] }
//! because = "what is downloaded is read, not run"
//! ```
//!
//! `allow` or `deny` is the permission: open, execute or any. Without `subject` or `object` the rule applies to all
//! subjects or objects. A value is one item or a list; `"%name"` is a set. What fapolicyd keeps only for old rules
//! isn't supported here: `untrusted` is `trust = false`. Sets are read before the rules that name them, wherever they
//! are written.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::build::{Builder, TextField, Wrong};
use super::error::RuleError;
use super::parse::{Parser, near, object_text};
use super::{
    Decision, ObjectField, Origin, Pattern, Permission, Place, Rule, SubjectField, SubjectNumber,
    SubjectText, Text, UNTRUSTED, Values,
};

type At = Range<usize>;
type Failed = (At, RuleError);
type Entry<'t> = Spanned<DeValue<'t>>;

/// The keys of `[guard]` that are rules.
const KEYS: [&str; 2] = ["sets", "rule"];

const RULE_KEYS: &[&str] = &["allow", "deny", "log", "subject", "object", "because"];

impl Parser<'_> {
    /// Reads the `[guard]` table of a TOML file. Other code reads the other tables of the file, and the settings in
    /// this one ([`crate::settings`]). [`Parser::finish`] reports the mistakes.
    pub fn toml(&mut self, name: &Path, content: &[u8]) {
        let (content, invalid) = match std::str::from_utf8(content) {
            Ok(content) => (content, None),
            Err(error) => ("", Some(error)),
        };
        let mut reader = Reader {
            file: self.builder.begin(name),
            content,
            lines: std::iter::once(0).chain(content.match_indices('\n').map(|(at, _)| at + 1)).collect(),
            builder: &mut self.builder,
        };
        if let Some(invalid) = invalid {
            return reader.complain(0..0, RuleError::Toml { message: invalid.to_string() });
        }
        match DeTable::parse(content) {
            Ok(table) => reader.guard(table.get_ref()),
            Err(error) => {
                let at = error.span().unwrap_or_default();
                reader.complain(at, RuleError::Toml { message: error.message().to_owned() });
            }
        }
    }
}

struct Reader<'p, 'a, 't> {
    file: u32,
    content: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
    builder: &'p mut Builder<'a>,
}

impl<'t> Reader<'_, '_, 't> {
    fn guard(&mut self, document: &DeTable<'t>) {
        let Some(guard) = document.get("guard") else { return };
        let Some(guard) = self.table("guard", guard) else { return };
        let known = || KEYS.into_iter().chain(crate::settings::KEYS);
        for key in guard.keys().filter(|key| !known().any(|name| name == key.get_ref().as_ref())) {
            let suggestion = near(key.get_ref().as_bytes(), known());
            self.complain(key.span(), RuleError::UnknownKey { suggestion });
        }
        if let Some(sets) = guard.get("sets").and_then(|sets| self.table("guard.sets", sets)) {
            for (name, values) in sorted(sets) {
                if let Err((at, error)) = self.set(name.get_ref(), name.span(), values) {
                    self.complain(at, error);
                }
            }
        }
        let Some(rules) = guard.get("rule") else { return };
        let Some(list) = rules.get_ref().as_array() else {
            return self.complain(rules.span(), wrong_type("rule", "tables, as [[guard.rule]]"));
        };
        for rule in list.iter() {
            let Some(table) = self.table("rule", rule) else { continue };
            match self.rule(table, rule.span()) {
                Ok((read, because)) => {
                    let place = Place { file: self.file, line: self.line(rule.span().start).0 };
                    self.builder.rules.push(read, Origin { place, because, deprecated: None });
                }
                Err((at, error)) => self.complain(at, error),
            }
        }
    }

    fn set(&mut self, name: &str, at: At, values: &Entry<'t>) -> Result<(), Failed> {
        let (spans, items) = items(name, values)?;
        let place = Place { file: self.file, line: self.line(at.start).0 };
        self.builder.define(name.as_bytes(), items, false, place).map_err(|(index, error)| {
            let about_an_item = matches!(error, RuleError::MixedSet);
            (spans.get(index).filter(|_| about_an_item).cloned().unwrap_or(at), error)
        })
    }

    fn rule(&mut self, rule: &DeTable<'t>, at: At) -> Result<(Rule, Option<Box<str>>), Failed> {
        let mut decision: Option<(bool, Permission)> = None;
        let (mut audit, mut syslog, mut because) = (false, false, None);
        let mut subject: Vec<SubjectField> = Vec::new();
        let mut object: Vec<ObjectField> = Vec::new();
        for (key, value) in rule {
            match key.get_ref().as_ref() {
                word @ ("allow" | "deny") => {
                    let permission = Permission::named(text(word, value)?.as_bytes())
                        .ok_or_else(|| (value.span(), RuleError::UnknownPermission))?;
                    if decision.replace((word == "allow", permission)).is_some() {
                        return Err((key.span(), RuleError::AllowOrDeny));
                    }
                }
                "log" => {
                    (audit, syslog) = match text("log", value)? {
                        "audit" => (true, false),
                        "syslog" => (false, true),
                        "both" => (true, true),
                        _ => return Err((value.span(), wrong_type("log", "audit, syslog or both"))),
                    };
                }
                "subject" => subject = self.subject(value)?,
                "object" => object = self.object(value)?,
                "because" => because = Some(text("because", value)?.into()),
                other => {
                    let suggestion = near(other.as_bytes(), RULE_KEYS.iter().copied());
                    return Err((key.span(), RuleError::UnknownKey { suggestion }));
                }
            }
        }
        let Some((allow, permission)) = decision else { return Err((at, RuleError::AllowOrDeny)) };
        if subject.is_empty() {
            subject.push(SubjectField::All);
        }
        if object.is_empty() {
            object.push(ObjectField::All);
        }
        let decision = Decision { allow, audit, syslog };
        Ok((Rule { decision, permission, subject: subject.into(), object: object.into() }, because))
    }

    fn subject(&mut self, value: &Entry<'t>) -> Result<Vec<SubjectField>, Failed> {
        let table =
            value.get_ref().as_table().ok_or_else(|| (value.span(), wrong_type("subject", "a table")))?;
        let mut fields = Vec::new();
        for (key, value) in sorted(table) {
            let name = key.get_ref().as_ref();
            let field = if let Some(number) = SubjectNumber::named(name.as_bytes()) {
                let (spans, items) = items(name, value)?;
                let values =
                    self.builder.numbers(number, items).map_err(|wrong| located(wrong, &spans, value))?;
                SubjectField::Number(number, values)
            } else if let Some(field) = SubjectText::named(name.as_bytes()) {
                SubjectField::Text(field, self.texts(TextField::Subject(field), name, value)?)
            } else {
                match name {
                    "trust" => SubjectField::Trust(trust(value)?),
                    "pattern" => {
                        let word = text("pattern", value)?.as_bytes();
                        let suggestion = near(word, Pattern::NAMES.iter().copied());
                        SubjectField::Pattern(
                            Pattern::named(word)
                                .ok_or_else(|| (value.span(), RuleError::UnknownPattern { suggestion }))?,
                        )
                    }
                    _ => return Err((key.span(), super::parse::unknown("subject", name.as_bytes()))),
                }
            };
            fields.push(field);
        }
        Ok(fields)
    }

    fn object(&mut self, value: &Entry<'t>) -> Result<Vec<ObjectField>, Failed> {
        let table =
            value.get_ref().as_table().ok_or_else(|| (value.span(), wrong_type("object", "a table")))?;
        let mut fields = Vec::new();
        for (key, value) in sorted(table) {
            let name = key.get_ref().as_ref();
            let field = if let Some(field) = object_text(name.as_bytes()) {
                ObjectField::Text(field, self.texts(TextField::Object(field), name, value)?)
            } else if name == "trust" {
                ObjectField::Trust(trust(value)?)
            } else {
                return Err((key.span(), super::parse::unknown("object", name.as_bytes())));
            };
            fields.push(field);
        }
        Ok(fields)
    }

    fn texts(&self, field: TextField, name: &str, value: &Entry<'t>) -> Result<Values<Text>, Failed> {
        let (spans, items) = items(name, value)?;
        let values = self.builder.texts(field, items).map_err(|wrong| located(wrong, &spans, value))?;
        let knows_word = matches!(name, "exe" | "dir" | "path");
        if knows_word && self.builder.rules.lists(&values, UNTRUSTED) {
            return Err((value.span(), RuleError::UntrustedWord));
        }
        Ok(values)
    }

    fn table<'v>(&mut self, key: &str, value: &'v Entry<'t>) -> Option<&'v DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.complain(value.span(), wrong_type(key, "a table"));
        }
        table
    }

    fn complain(&mut self, at: At, error: RuleError) {
        let (line, column) = self.line(at.start);
        let text = self.content.get(at).unwrap_or("").lines().next().unwrap_or("");
        self.builder.complain(Place { file: self.file, line }, column, text.as_bytes(), error);
    }

    /// Line from one and column from zero.
    fn line(&self, offset: usize) -> (u32, usize) {
        let line = self.lines.partition_point(|&start| start <= offset);
        (u32::try_from(line).unwrap_or(u32::MAX), offset - self.lines[line - 1])
    }
}

/// A table's entries in the order in which they were written.
fn sorted<'v, 't>(table: &'v DeTable<'t>) -> Vec<(&'v Spanned<std::borrow::Cow<'t, str>>, &'v Entry<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// One item or a list, as a rule file would have them, and the position of each.
fn items(key: &str, value: &Entry<'_>) -> Result<(Vec<At>, Vec<Text>), Failed> {
    let each = match value.get_ref() {
        DeValue::Array(list) => list.iter().map(|entry| item(key, entry)).collect::<Result<Vec<_>, _>>()?,
        _ => vec![item(key, value)?],
    };
    Ok(each.into_iter().unzip())
}

fn item(key: &str, value: &Entry<'_>) -> Result<(At, Text), Failed> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.as_bytes().into(),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => number.to_string().into_bytes().into(),
            Err(_) => return Err((value.span(), wrong_type(key, "numbers of 64 bits"))),
        },
        _ => return Err((value.span(), wrong_type(key, "texts, numbers, or a list of them"))),
    };
    let text: Text = text;
    match text.contains(&0) {
        true => Err((value.span(), RuleError::Nul)),
        false => Ok((value.span(), text)),
    }
}

fn text<'v>(key: &str, value: &'v Entry<'_>) -> Result<&'v str, Failed> {
    value.get_ref().as_str().ok_or_else(|| (value.span(), wrong_type(key, "a text")))
}

fn trust(value: &Entry<'_>) -> Result<bool, Failed> {
    value.get_ref().as_bool().ok_or_else(|| (value.span(), wrong_type("trust", "true or false")))
}

fn located((index, error): Wrong, spans: &[At], value: &Entry<'_>) -> Failed {
    (spans.get(index).cloned().unwrap_or_else(|| value.span()), error)
}

fn wrong_type(key: &str, expected: &'static str) -> RuleError {
    RuleError::WrongType { key: key.to_owned(), expected }
}
