// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a word comes to: quotes, escapes, variables, substitutions, as far as they are constant.

use std::ops::Range;

use super::command::{Doubt, Inside, UNKNOWN, Word};
use super::lexer;
use super::reading::{Base, Draft, MOST_TEXT, Reader};

/// Longer words' braces aren't expanded, in bytes.
const MOST_BRACES: usize = 1024;

/// A word that is being put together.
#[derive(Default)]
struct Field {
    text: String,
    dynamic: bool,
    quoted: bool,
    /// Expansions and escapes within it.
    seams: u32,
    /// There is something, even if it's empty: `""`.
    begun: bool,
    globbed: bool,
}

impl Field {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.begun = true;
    }
}

/// A value, and whether it is all of it.
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
    /// The words that `raw`, at `at` in its text, comes to.
    pub(super) fn expand(&mut self, raw: &str, base: &Base, draft: &mut Draft, depth: usize) -> Vec<Word> {
        let span = base.span(0..raw.len());
        // What longer ones expand to grows with the square of their length.
        if raw.len() <= MOST_BRACES
            && raw.contains('{')
            && let Some(parts) = lexer::braces(raw, 64)
        {
            let whole = Base::Fixed(span.clone());
            let mut words = Vec::new();
            for part in &parts {
                for mut word in self.fields(part, &whole, draft, depth) {
                    // `{curl,-s}` is a spelling; `a.{c,h}` is not.
                    word.broken |= raw.starts_with('{') && words.is_empty();
                    words.push(word);
                }
            }
            return words;
        }
        self.fields(raw, base, draft, depth)
    }

    /// The value of `raw` as one word: of an assignment, a redirection's target, a here-string.
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
        self.pieces(raw, base, draft, depth, false, &mut fields);
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
                // `'git'` and `\ls` are nothing out of the ordinary.
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

    /// Adds what `raw` comes to; `quoted`: within `"…"`.
    fn pieces(
        &mut self,
        raw: &str,
        base: &Base,
        draft: &mut Draft,
        depth: usize,
        quoted: bool,
        fields: &mut Vec<Field>,
    ) {
        let bytes = raw.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let next = bytes.get(at + 1).copied();
            let Some(field) = fields.last_mut() else { return };
            match (byte, next) {
                (b'\\', Some(b'\n')) => at += 2,
                (b'\\', Some(following)) if quoted && !b"$\"\\`".contains(&following) => {
                    field.push("\\");
                    at += 1;
                }
                (b'\\', Some(_)) => {
                    let end = character_end(raw, at + 1);
                    field.push(raw.get(at + 1..end).unwrap_or_default());
                    field.seams +=
                        u32::from(!quoted && next.is_some_and(|byte| byte.is_ascii_alphanumeric()));
                    field.quoted |= !quoted;
                    at = end;
                }
                (b'\'', _) if !quoted => {
                    let (end, closed) = lexer::single_quote(bytes, at + 1);
                    field.push(raw.get(at + 1..end - usize::from(closed)).unwrap_or_default());
                    field.quoted = true;
                    field.seams += 1;
                    at = end;
                }
                (b'"', _) if !quoted => {
                    let (end, closed) = lexer::close(bytes, at + 1, b'"');
                    let inner = at + 1..end - usize::from(closed);
                    field.quoted = true;
                    field.begun = true;
                    field.seams += 1;
                    let text = raw.get(inner.clone()).unwrap_or_default();
                    self.pieces(text, &base.inner(inner), draft, depth, true, fields);
                    at = end;
                }
                (b'$', Some(b'\'')) if !quoted => {
                    let (end, closed) = lexer::ansi_quote(bytes, at + 2);
                    let inner = raw.get(at + 2..end - usize::from(closed)).unwrap_or_default();
                    field.push(&ansi(inner));
                    field.seams += 1 + u32::from(inner.contains('\\'));
                    field.quoted = true;
                    at = end;
                }
                (b'$', Some(b'"')) if !quoted => at += 1,
                (b'`', _) => {
                    let (end, closed) = lexer::close(bytes, at + 1, b'`');
                    let inner = at + 1..end - usize::from(closed);
                    let text = raw.get(inner.clone()).unwrap_or_default().replace("\\`", "`");
                    let value =
                        self.substitution(&text, &base.inner(inner), draft, Inside::Substitution, depth);
                    splice(fields, value, quoted);
                    at = end;
                }
                (b'$', Some(b'(')) => {
                    let (end, closed) = lexer::close(bytes, at + 2, b')');
                    let inner = at + 2..end - usize::from(closed);
                    let text = raw.get(inner.clone()).unwrap_or_default();
                    let value = match text.strip_prefix('(') {
                        Some(sum) => arithmetic(sum.trim_end_matches(')')),
                        None => {
                            self.substitution(text, &base.inner(inner), draft, Inside::Substitution, depth)
                        }
                    };
                    splice(fields, value, quoted);
                    at = end;
                }
                (b'<' | b'>', Some(b'(')) if !quoted => {
                    let (end, closed) = lexer::close(bytes, at + 2, b')');
                    let inner = at + 2..end - usize::from(closed);
                    let text = raw.get(inner.clone()).unwrap_or_default();
                    let kind = if byte == b'<' { Inside::Readable } else { Inside::Writable };
                    self.substitution(text, &base.inner(inner), draft, kind, depth);
                    splice(fields, Value { text: format!("/dev/fd/{UNKNOWN}"), known: false }, true);
                    at = end;
                }
                (b'$', Some(b'{')) => {
                    let (end, closed) = lexer::close(bytes, at + 2, b'}');
                    let inner = at + 2..end - usize::from(closed);
                    let text = raw.get(inner.clone()).unwrap_or_default();
                    let value = self.parameter(text, &base.inner(inner), draft, depth);
                    splice(fields, value, quoted);
                    at = end;
                }
                (b'$', Some(following)) if is_name_start(following) || is_special(following) => {
                    let mut end = at + 2;
                    while is_name_start(following)
                        && bytes.get(end).is_some_and(|byte| is_name_start(*byte) || byte.is_ascii_digit())
                    {
                        end += 1;
                    }
                    let value = self.variable(raw.get(at + 1..end).unwrap_or_default());
                    splice(fields, value, quoted);
                    at = end;
                }
                _ => {
                    let end = plain_end(raw, at, quoted);
                    let text = raw.get(at..end).unwrap_or_default();
                    field.globbed |= !quoted && text.contains(['*', '?', '[']);
                    field.push(text);
                    at = end;
                }
            }
            self.spend(fields);
        }
    }

    /// Cuts what grows without end.
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
            // Nothing at the prompt; something in a function or script.
            (None, "@" | "*" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "-" | "_") => {
                Value { text: String::new(), known: false }
            }
            _ => Value::unknown(),
        }
    }

    /// `${…}` without the braces.
    fn parameter(&mut self, body: &str, base: &Base, draft: &mut Draft, depth: usize) -> Value {
        if depth > super::reading::DEEPEST {
            self.doubt(Doubt::Deep);
            return Value::unknown();
        }
        let (indirect, rest) = match body.strip_prefix('!') {
            Some(rest) if !rest.is_empty() => (true, rest),
            _ => (false, body),
        };
        let length = rest.bytes().take_while(|byte| is_name_start(*byte) || byte.is_ascii_digit()).count();
        let length = if length == 0 { rest.len().min(1) } else { length };
        let (Some(name), Some(operation)) = (rest.get(..length), rest.get(length..)) else {
            return Value::unknown();
        };
        let name =
            if indirect { self.value_of(name).unwrap_or_default().to_owned() } else { name.to_owned() };
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
                // The variable may be set where the line runs.
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

/// `offset:length` of a value.
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

/// Numbers as they are; sums only running would tell.
fn arithmetic(sum: &str) -> Value {
    match sum.trim().parse::<i64>() {
        Ok(number) => Value::known(number.to_string()),
        Err(_) => Value::unknown(),
    }
}

/// Adds a value; unquoted it falls apart at blanks.
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

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_special(byte: u8) -> bool {
    byte.is_ascii_digit() || b"@*#?$!-".contains(&byte)
}

fn character_end(text: &str, at: usize) -> usize {
    (at + 1..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len())
}

/// The end of the text from `at` on that means itself. At least one character.
fn plain_end(text: &str, at: usize, quoted: bool) -> usize {
    let special: &[u8] = if quoted { b"\\$`" } else { b"\\$`'\"<>" };
    let rest = text.as_bytes().get(at + 1..).unwrap_or_default();
    let length = rest.iter().position(|byte| special.contains(byte)).unwrap_or(rest.len());
    (at + 1 + length..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len())
}

/// What `$'…'` comes to.
pub(super) fn ansi(text: &str) -> String {
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(rest.get(..at).unwrap_or_default().as_bytes());
        let after = rest.get(at + 1..).unwrap_or_default();
        let Some(letter) = after.chars().next() else {
            bytes.push(b'\\');
            rest = "";
            break;
        };
        let tail = after.get(letter.len_utf8()..).unwrap_or_default();
        let (value, used) = match letter {
            'x' => number(tail, 16, 2),
            'u' => number(tail, 16, 4),
            'U' => number(tail, 16, 8),
            '0'..='7' => number(after, 8, if letter == '0' { 4 } else { 3 }),
            _ => (None, 0),
        };
        rest = match (letter, value) {
            ('u' | 'U', Some(value)) => {
                let mut buffer = [0; 4];
                let letter = char::from_u32(value).unwrap_or('\u{FFFD}');
                bytes.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
                tail.get(used..).unwrap_or_default()
            }
            ('x', Some(value)) => {
                bytes.push(u8::try_from(value & 0xFF).unwrap_or_default());
                tail.get(used..).unwrap_or_default()
            }
            ('0'..='7', Some(value)) => {
                bytes.push(u8::try_from(value & 0xFF).unwrap_or_default());
                after.get(used..).unwrap_or_default()
            }
            _ => {
                match letter {
                    'n' => bytes.push(b'\n'),
                    't' => bytes.push(b'\t'),
                    'r' => bytes.push(b'\r'),
                    'a' => bytes.push(7),
                    'b' => bytes.push(8),
                    'e' | 'E' => bytes.push(27),
                    'f' => bytes.push(12),
                    'v' => bytes.push(11),
                    '\\' | '\'' | '"' | '?' => bytes.push(u8::try_from(u32::from(letter)).unwrap_or(b'?')),
                    _ => {
                        bytes.push(b'\\');
                        let mut buffer = [0; 4];
                        bytes.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
                    }
                }
                tail
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number of at most `most` digits that a text begins with, and how many there are.
fn number(text: &str, radix: u32, most: usize) -> (Option<u32>, usize) {
    let digits = text.bytes().take(most).take_while(|byte| char::from(*byte).is_digit(radix)).count();
    (u32::from_str_radix(text.get(..digits).unwrap_or_default(), radix).ok(), digits)
}

/// Where something of an inner text is in the line.
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
