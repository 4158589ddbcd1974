// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Expands a word: resolves its quotes, escapes, variables and substitutions as far as they are constant.

use std::ops::Range;

use palisade_shell_syntax::{Parameter, Part, Quoting, ansi, braces, parts};

use super::command::{Doubt, Inside, UNKNOWN, Word};
use super::reading::{Base, Draft, MOST_TEXT, Reader};

/// Braces are expanded only in words of at most this many bytes.
const MOST_BRACES: usize = 1024;

/// A word while it is built.
#[derive(Default)]
struct Field {
    text: String,
    dynamic: bool,
    quoted: bool,
    /// The number of expansions and escapes in it.
    seams: u32,
    /// The field exists, even if it is empty: `""`.
    begun: bool,
    globbed: bool,
}

impl Field {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.begun = true;
    }
}

/// A value, and whether all of it is known.
struct Value {
    text: String,
    known: bool,
}

impl Value {
    fn known(text: impl Into<String>) -> Self {
        Self { text: text.into(), known: true }
    }

    fn unknown() -> Self {
        Self { text: UNKNOWN.to_string(), known: false }
    }
}

impl Reader {
    /// The words that `raw` expands to. `base` says where `raw` is in the line.
    pub(super) fn expand(&mut self, raw: &str, base: &Base, draft: &mut Draft, depth: usize) -> Vec<Word> {
        let span = base.span(0..raw.len());
        // The expansion of a longer word would grow with the square of its length.
        if raw.len() <= MOST_BRACES
            && raw.contains('{')
            && let Some(parts) = braces(raw, 64)
        {
            let whole = Base::Fixed(span.clone());
            let mut words = Vec::new();
            for part in &parts {
                for mut word in self.fields(part, &whole, draft, depth) {
                    // `{curl,-s}` is a way to hide a command; `a.{c,h}` is not.
                    word.broken |= raw.starts_with('{') && words.is_empty();
                    words.push(word);
                }
            }
            return words;
        }
        self.fields(raw, base, draft, depth)
    }

    /// The value of `raw` as one word: an assignment's value, a redirection's target, or a here-string.
    pub(super) fn expand_one(&mut self, raw: &str, base: &Base, draft: &mut Draft, depth: usize) -> Word {
        let span = base.span(0..raw.len());
        let mut words = self.fields(raw, base, draft, depth).into_iter();
        let Some(mut first) = words.next() else { return Word { span, ..Word::default() } };
        for word in words {
            first.value.push(' ');
            first.value.push_str(&word.value);
            first.dynamic |= word.dynamic;
        }
        first
    }

    fn fields(&mut self, raw: &str, base: &Base, draft: &mut Draft, depth: usize) -> Vec<Word> {
        let span = base.span(0..raw.len());
        let mut fields = vec![Field::default()];
        self.pieces(raw, base, draft, depth, Quoting::Plain, &mut fields);
        let opens_plainly = raw.starts_with(['\'', '"']);
        fields
            .into_iter()
            .filter(|field| field.begun)
            .map(|field| {
                let plain = !field.text.is_empty()
                    && field
                        .text
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"./_-+:".contains(&byte));
                // `'git'` and `\ls` are normal spellings.
                let ordinary = field.seams <= 1
                    && (opens_plainly && raw.len() == field.text.len() + 2
                        || raw.starts_with('\\') && raw.len() == field.text.len() + 1);
                Word {
                    broken: plain && field.seams > 0 && !field.dynamic && !ordinary,
                    value: field.text,
                    span: span.clone(),
                    dynamic: field.dynamic,
                    quoted: field.quoted,
                    globbed: field.globbed,
                }
            })
            .collect()
    }

    /// The value of `raw` as one word, if it stands in quotes that aren't part of it.
    pub(super) fn expand_quoted(
        &mut self,
        raw: &str,
        base: &Base,
        quoting: Quoting,
        draft: &mut Draft,
        depth: usize,
    ) -> Word {
        let mut fields = vec![Field::default()];
        self.pieces(raw, base, draft, depth, quoting, &mut fields);
        let field = fields.pop().unwrap_or_default();
        let span = base.span(0..raw.len());
        Word { value: field.text, span, dynamic: field.dynamic, quoted: true, ..Word::default() }
    }

    /// Adds the expansion of `raw` to the fields.
    fn pieces(
        &mut self,
        raw: &str,
        base: &Base,
        draft: &mut Draft,
        depth: usize,
        quoting: Quoting,
        fields: &mut Vec<Field>,
    ) {
        let quoted = quoting != Quoting::Plain;
        let slice = |range: &Range<usize>| raw.get(range.clone()).unwrap_or_default();
        for part in parts(raw, quoting) {
            let Some(field) = fields.last_mut() else { return };
            match part {
                Part::Text(range) => {
                    let text = slice(&range);
                    field.globbed |= !quoted && text.contains(['*', '?', '[']);
                    field.push(text);
                }
                Part::Escaped(range) => {
                    let text = slice(&range);
                    field.push(text);
                    field.seams +=
                        u32::from(!quoted && text.starts_with(|c: char| c.is_ascii_alphanumeric()));
                    field.quoted |= !quoted;
                }
                Part::Single(range) => {
                    field.push(slice(&range));
                    field.quoted = true;
                    field.seams += 1;
                }
                Part::Double(range) => {
                    field.quoted = true;
                    field.begun = true;
                    field.seams += 1;
                    let text = slice(&range);
                    self.pieces(text, &base.inner(range), draft, depth, Quoting::Double, fields);
                }
                Part::Ansi(range) => {
                    let inner = slice(&range);
                    field.push(&ansi(inner));
                    field.seams += 1 + u32::from(inner.contains('\\'));
                    field.quoted = true;
                }
                Part::Backquoted(range) => {
                    let text = slice(&range).replace("\\`", "`");
                    let place = base.inner(range);
                    let value = self.substitution(&text, &place, draft, Inside::Substitution, depth);
                    splice(fields, value, quoted);
                }
                Part::Command(range) => {
                    let text = slice(&range);
                    let place = base.inner(range);
                    let value = self.substitution(text, &place, draft, Inside::Substitution, depth);
                    splice(fields, value, quoted);
                }
                Part::Sum(range) => {
                    let text = slice(&range);
                    if text.contains(['$', '`']) && depth <= super::reading::DEEPEST {
                        let place = base.inner(range);
                        self.expand_quoted(text, &place, Quoting::Double, draft, depth + 1);
                    }
                    splice(fields, arithmetic(text), quoted);
                }
                Part::Readable(range) | Part::Writable(range) => {
                    let reads =
                        range.start.checked_sub(2).and_then(|at| raw.as_bytes().get(at)) == Some(&b'<');
                    let kind = if reads { Inside::Readable } else { Inside::Writable };
                    let text = slice(&range);
                    self.substitution(text, &base.inner(range), draft, kind, depth);
                    splice(fields, Value { text: format!("/dev/fd/{UNKNOWN}"), known: false }, true);
                }
                Part::Parameter(range) => {
                    let text = slice(&range);
                    let value = self.parameter(text, &base.inner(range), draft, depth);
                    splice(fields, value, quoted);
                }
                Part::Variable(range) => splice(fields, self.variable(slice(&range)), quoted),
            }
            self.spend(fields);
        }
    }

    /// Cuts a field that grows beyond the limit.
    fn spend(&mut self, fields: &mut [Field]) {
        if let Some(field) = fields.last_mut()
            && field.text.len() > MOST_TEXT
        {
            let end = (0..=MOST_TEXT).rev().find(|end| field.text.is_char_boundary(*end));
            field.text.truncate(end.unwrap_or_default());
            field.dynamic = true;
            self.doubt(Doubt::Long);
        }
    }

    fn substitution(
        &mut self,
        text: &str,
        base: &Base,
        draft: &mut Draft,
        kind: Inside,
        depth: usize,
    ) -> Value {
        let start = self.commands();
        self.read(text, base, draft.way, depth + 1);
        let range = start..self.commands();
        draft.children.push((range.clone(), kind));
        match self.output_of(range) {
            Some(text) => Value::known(text.trim_end_matches('\n')),
            None => Value::unknown(),
        }
    }

    pub(super) fn value_of(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).or(match name {
            "HOME" => Some("~"),
            "PWD" => Some("."),
            "IFS" => Some(" "),
            "SHELL" | "BASH" => Some("/bin/bash"),
            "PATH" => Some("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            "TMPDIR" => Some("/tmp"),
            "?" | "#" | "!" => Some("0"),
            "$" | "PPID" => Some("1000"),
            _ => None,
        })
    }

    fn variable(&self, name: &str) -> Value {
        match (self.value_of(name), name) {
            (Some(value), _) => Value::known(value),
            // Empty at the prompt, but set in a function or script.
            (None, "@" | "*" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "-" | "_") => {
                Value { text: String::new(), known: false }
            }
            _ => Value::unknown(),
        }
    }

    /// Expands the text between the braces of `${…}`.
    fn parameter(&mut self, body: &str, base: &Base, draft: &mut Draft, depth: usize) -> Value {
        if depth > super::reading::DEEPEST {
            self.doubt(Doubt::Deep);
            return Value::unknown();
        }
        let Parameter { is_indirect, name, operation } = Parameter::of(body);
        let name =
            if is_indirect { self.value_of(name).unwrap_or_default().to_owned() } else { name.to_owned() };
        let value = self.variable(&name);
        let set = self.value_of(&name).is_some_and(|value| !value.is_empty());
        let mut one = |reader: &mut Self, text: &str| {
            let word = reader.expand_one(text, &Base::Fixed(base.span(0..body.len())), draft, depth + 1);
            Value { text: word.value, known: !word.dynamic }
        };
        let bare = operation.strip_prefix(':').unwrap_or(operation);
        match (operation.bytes().next(), bare.bytes().next()) {
            (None, _) => value,
            (_, Some(b'-' | b'=')) if !set => {
                let mut default = one(self, bare.get(1..).unwrap_or_default());
                // The variable may be set in the shell that runs the line.
                if !matches!(name.as_str(), "@" | "*" | "_") && default.text.is_empty() {
                    default = Value::unknown();
                }
                default
            }
            (_, Some(b'+')) if !set => Value { text: String::new(), known: false },
            (_, Some(b'+')) => one(self, bare.get(1..).unwrap_or_default()),
            (_, Some(b'-' | b'=' | b'?')) => value,
            _ if !value.known => Value::unknown(),
            (Some(b':'), _) => match substring(&value.text, bare) {
                Some(part) => Value::known(part),
                None => Value::unknown(),
            },
            (Some(b'^'), _) => Value::known(cased(&value.text, operation == "^", char::to_ascii_uppercase)),
            (Some(b','), _) => Value::known(cased(&value.text, operation == ",", char::to_ascii_lowercase)),
            (Some(b'/'), _) => {
                let everywhere = operation.starts_with("//");
                let body = operation.trim_start_matches('/');
                let (from, to) = body.split_once('/').unwrap_or((body, ""));
                if from.is_empty() || from.contains(['*', '?', '[']) {
                    return Value::unknown();
                }
                let (from, to) = (one(self, from).text, one(self, to).text);
                let count = if everywhere { usize::MAX } else { 1 };
                Value::known(value.text.replacen(&from, &to, count.min(4096)))
            }
            (Some(b'#'), _) => strip(&value.text, operation.trim_start_matches('#'), true),
            (Some(b'%'), _) => strip(&value.text, operation.trim_start_matches('%'), false),
            (Some(b'@'), _) => Value::known(ansi(&value.text)),
            _ => Value::unknown(),
        }
    }
}

fn strip(value: &str, pattern: &str, front: bool) -> Value {
    let pattern = pattern.trim_matches(['\'', '"']);
    if pattern.contains(['*', '?', '[', '$']) {
        return Value::unknown();
    }
    let stripped = if front { value.strip_prefix(pattern) } else { value.strip_suffix(pattern) };
    Value::known(stripped.unwrap_or(value))
}

fn cased(value: &str, first_only: bool, to: fn(&char) -> char) -> String {
    let change = |(at, letter): (usize, char)| if at == 0 || !first_only { to(&letter) } else { letter };
    value.chars().enumerate().map(change).collect()
}

/// `offset:length` applied to a value.
fn substring(value: &str, range: &str) -> Option<String> {
    let (offset, length) = match range.split_once(':') {
        Some((offset, length)) => (offset, Some(length)),
        None => (range, None),
    };
    let number = |text: &str| text.trim().trim_matches(['(', ')', ' ']).parse::<i64>().ok();
    let count = i64::try_from(value.chars().count()).ok()?;
    let offset = number(offset)?;
    let from = if offset < 0 { count + offset } else { offset };
    let until = match length.map(number) {
        None => count,
        Some(length) => {
            let length = length?;
            if length < 0 { count + length } else { from + length }
        }
    };
    let (from, until) = (usize::try_from(from).ok()?, usize::try_from(until).ok()?);
    Some(value.chars().skip(from).take(until.saturating_sub(from)).collect())
}

/// A plain number is known. Any other sum is known only when the line runs.
fn arithmetic(sum: &str) -> Value {
    match sum.trim().parse::<i64>() {
        Ok(number) => Value::known(number.to_string()),
        Err(_) => Value::unknown(),
    }
}

/// Adds a value. If it is unquoted, it is split at blanks.
fn splice(fields: &mut Vec<Field>, value: Value, quoted: bool) {
    let Some(field) = fields.last_mut() else { return };
    field.seams += 1;
    field.dynamic |= !value.known;
    if quoted || !value.text.contains(char::is_whitespace) {
        if quoted || !value.text.is_empty() {
            field.push(&value.text);
        }
        if !quoted {
            field.globbed |= value.text.contains(['*', '?']);
        }
        return;
    }
    let leads = value.text.starts_with(char::is_whitespace);
    let trails = value.text.ends_with(char::is_whitespace);
    for (at, part) in value.text.split_whitespace().enumerate() {
        if at > 0 || leads && fields.last().is_some_and(|field| field.begun) {
            fields.push(Field { dynamic: !value.known, seams: 1, ..Field::default() });
        }
        if let Some(field) = fields.last_mut() {
            field.push(part);
        }
    }
    if trails || value.text.trim().is_empty() {
        fields.push(Field { seams: 1, ..Field::default() });
    }
}

/// Where a part of an inner text is in the line.
impl Base {
    pub(super) fn span(&self, range: Range<usize>) -> Range<usize> {
        match self {
            Self::At(offset) => range.start + offset..range.end + offset,
            Self::Fixed(span) => span.clone(),
        }
    }

    pub(super) fn inner(&self, range: Range<usize>) -> Self {
        match self {
            Self::At(offset) => Self::At(offset + range.start),
            Self::Fixed(span) => Self::Fixed(span.clone()),
        }
    }
}
