// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where quotes, brackets and words end. What isn't closed goes on to the end; no byte is looked at twice.

/// The index after what closes `closer`, begun before `at`; and whether it was closed.
pub(super) fn close(text: &[u8], mut at: usize, closer: u8) -> (usize, bool) {
    let mut stack = vec![closer];
    while let (Some(&byte), Some(&top)) = (text.get(at), stack.last()) {
        let next = text.get(at + 1).copied();
        match (top, byte) {
            (_, b'\\') => at += 1,
            (b'"' | b')' | b'}' | b'`', _) if byte == top => {
                stack.pop();
            }
            (b'`', _) => {}
            (_, b'$') if next == Some(b'(') => {
                stack.push(b')');
                at += 1;
            }
            (_, b'$') if next == Some(b'{') => {
                stack.push(b'}');
                at += 1;
            }
            (_, b'`') => stack.push(b'`'),
            (b'"', _) => {}
            (_, b'$') if next == Some(b'\'') => {
                at = ansi_quote(text, at + 2).0;
                continue;
            }
            (_, b'\'') => {
                at = single_quote(text, at + 1).0;
                continue;
            }
            (_, b'"') => stack.push(b'"'),
            (b')', b'(') => stack.push(b')'),
            _ => {}
        }
        at += 1;
        if stack.is_empty() {
            return (at, true);
        }
    }
    (text.len(), false)
}

/// The index after the quote that ends `'…'`, begun before `at`.
pub(super) fn single_quote(text: &[u8], at: usize) -> (usize, bool) {
    match text.get(at..).unwrap_or_default().iter().position(|byte| *byte == b'\'') {
        Some(length) => (at + length + 1, true),
        None => (text.len(), false),
    }
}

/// The index after the quote that ends `$'…'`, begun before `at`.
pub(super) fn ansi_quote(text: &[u8], mut at: usize) -> (usize, bool) {
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\'' => return (at + 1, true),
            _ => at += 1,
        }
    }
    (text.len(), false)
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

fn ends_word(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
}

/// The index after the word that begins at `at`; and whether all in it was closed.
pub(super) fn word(text: &[u8], start: usize) -> (usize, bool) {
    let mut at = start;
    while let Some(&byte) = text.get(at) {
        let next = text.get(at + 1).copied();
        let before = if at > start { text.get(at - 1).copied() } else { None };
        let (end, closed) = match (byte, next) {
            (b'\\', _) => (at + 2, true),
            (b'\'', _) => single_quote(text, at + 1),
            (b'"', _) => close(text, at + 1, b'"'),
            (b'`', _) => close(text, at + 1, b'`'),
            (b'$', Some(b'\'')) => ansi_quote(text, at + 2),
            (b'$', Some(b'(')) => close(text, at + 2, b')'),
            (b'$', Some(b'{')) => close(text, at + 2, b'}'),
            // `<(…)` at the start of a word or within it.
            (b'<' | b'>', Some(b'(')) => close(text, at + 2, b')'),
            // `name=(…)`, `@(…|…)`.
            (b'(', _) if matches!(before, Some(b'=' | b'@' | b'?' | b'*' | b'+' | b'!')) => {
                close(text, at + 1, b')')
            }
            _ if ends_word(byte) => break,
            _ => (at + 1, true),
        };
        at = end.min(text.len());
        if !closed {
            return (at, false);
        }
    }
    (at, true)
}

/// The length of `name=` or `name+=` that a word begins with.
pub(super) fn assignment(word: &str) -> Option<(&str, usize)> {
    let bytes = word.as_bytes();
    let mut end = 0;
    while bytes.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        end += 1;
    }
    if end == 0 || bytes.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let name = word.get(..end)?;
    let rest = word.get(end..)?;
    let rest = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest,
        None => rest,
    };
    let value = rest.strip_prefix("+=").or_else(|| rest.strip_prefix('='))?;
    Some((name, word.len() - value.len()))
}

/// What braces expand to, textually; `None` without any. At most `most` results.
pub(super) fn braces(word: &str, most: usize) -> Option<Vec<String>> {
    let mut results = vec![String::new()];
    let mut expanded = false;
    let mut rest = word;
    while !rest.is_empty() {
        let Some((before, inner, after)) = group(rest) else { break };
        let mut parts = split_at_commas(inner);
        if parts.len() < 2 {
            parts = sequence(inner, most).unwrap_or_default();
        }
        if parts.is_empty() {
            let literal = rest.get(..rest.len() - after.len()).unwrap_or_default();
            results.iter_mut().for_each(|result| result.push_str(literal));
        } else {
            expanded = true;
            results = results
                .iter()
                .flat_map(|result| parts.iter().map(move |part| format!("{result}{before}{part}")))
                .take(most)
                .collect();
        }
        rest = after;
    }
    results.iter_mut().for_each(|result| result.push_str(rest));
    expanded.then_some(results)
}

/// What comes before the first unquoted `{…}`, what is in it and what comes after it.
fn group(text: &str) -> Option<(&str, &str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut open: Option<usize> = None;
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        at = match (byte, bytes.get(at + 1)) {
            (b'\\', _) => at + 2,
            (b'\'', _) => single_quote(bytes, at + 1).0,
            (b'"', _) => close(bytes, at + 1, b'"').0,
            (b'`', _) => close(bytes, at + 1, b'`').0,
            (b'$', Some(b'{')) => close(bytes, at + 2, b'}').0,
            (b'$', Some(b'(')) => close(bytes, at + 2, b')').0,
            (b'{', _) => {
                if open.is_none() {
                    open = Some(at);
                }
                depth += 1;
                at + 1
            }
            (b'}', _) if depth > 0 => {
                depth -= 1;
                if let (0, Some(open)) = (depth, open) {
                    return Some((text.get(..open)?, text.get(open + 1..at)?, text.get(at + 1..)?));
                }
                at + 1
            }
            _ => at + 1,
        };
    }
    None
}

fn split_at_commas(inner: &str) -> Vec<String> {
    let bytes = inner.as_bytes();
    let (mut at, mut start, mut depth) = (0, 0, 0_usize);
    let mut parts = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\'' => at = single_quote(bytes, at + 1).0.saturating_sub(1),
            b'"' => at = close(bytes, at + 1, b'"').0.saturating_sub(1),
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.extend(inner.get(start..at).map(str::to_owned));
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.extend(inner.get(start..).map(str::to_owned));
    parts
}

/// `a..c` and `1..5`.
fn sequence(inner: &str, most: usize) -> Option<Vec<String>> {
    let (from, to) = inner.split_once("..")?;
    if let (Ok(from), Ok(to)) = (from.parse::<i32>(), to.parse::<i32>()) {
        let numbers: Vec<String> = (from.min(to)..=from.max(to)).take(most).map(|n| n.to_string()).collect();
        return Some(numbers);
    }
    let (from, to) = (one_letter(from)?, one_letter(to)?);
    Some((from.min(to)..=from.max(to)).map(|byte| char::from(byte).to_string()).collect())
}

fn one_letter(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii_alphabetic() => Some(*byte),
        _ => None,
    }
}
