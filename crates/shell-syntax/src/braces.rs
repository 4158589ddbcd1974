// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Expands the braces in a word.

use crate::bracket::{Bracket, close};
use crate::quote;
use crate::scan;

/// The texts that a word's braces expand to, at most `most`; `None` if the word has no braces.
#[must_use]
pub fn braces(word: &str, most: usize) -> Option<Vec<String>> {
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

/// The text before the first unquoted `{…}`, the text in it, and the text after it.
fn group(text: &str) -> Option<(&str, &str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut open: Option<usize> = None;
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        at = match (byte, bytes.get(at + 1)) {
            (b'\\', _) => at + 2,
            (b'\'', _) => quote::single(bytes, at + 1).0,
            (b'"', _) => close(bytes, at + 1, Bracket::Double).0,
            (b'`', _) => close(bytes, at + 1, Bracket::Back).0,
            (b'$', Some(b'{')) => close(bytes, at + 2, Bracket::Parameter).0,
            (b'$', Some(b'(')) => scan::substitution(bytes, at + 2).1.0,
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
            b'\'' => at = quote::single(bytes, at + 1).0.saturating_sub(1),
            b'"' => at = close(bytes, at + 1, Bracket::Double).0.saturating_sub(1),
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
