// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognises words that assign a value to a variable.

use std::ops::Range;

use crate::bracket::{Bracket, close};
use crate::{quote, scan};

/// `name=value`, `name+=value`, `name[index]=value`, `name=(…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment<'t> {
    /// The variable's name.
    pub name: &'t str,
    /// The text in `[…]`, if there is one.
    pub index: Option<&'t str>,
    /// `+=`
    pub appends: bool,
    /// Where the value is in the word.
    pub value: Range<usize>,
    /// The value is an array `(…)`; `value` is the range between its brackets.
    pub is_array: bool,
}

impl<'t> Assignment<'t> {
    /// The assignment in a word; `None` if the word assigns nothing.
    #[must_use]
    pub fn of(word: &'t str) -> Option<Self> {
        let bytes = word.as_bytes();
        let length = quote::name_length(bytes);
        if length == 0 {
            return None;
        }
        let name = word.get(..length)?;
        let after = index_end(bytes, 0).max(length);
        let index = if after > length { word.get(length + 1..after - 1) } else { None };
        let appends = bytes.get(after) == Some(&b'+');
        let value = after + usize::from(appends) + 1;
        if bytes.get(value - 1) != Some(&b'=') {
            return None;
        }
        let is_array = bytes.get(value) == Some(&b'(');
        let end = if is_array && bytes.last() == Some(&b')') { bytes.len() - 1 } else { bytes.len() };
        let start = value + usize::from(is_array);
        Some(Self { name, index, appends, value: start..end.max(start), is_array })
    }
}

/// The index after `name[…]`, if a word that assigns an array's element begins at `start`; otherwise `start`.
pub(crate) fn index_end(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let length = quote::name_length(rest);
    if length == 0 || rest.get(length) != Some(&b'[') {
        return start;
    }
    // An index is short, so the search for its end is limited.
    let reach = rest.get(..rest.len().min(length + LONGEST_INDEX)).unwrap_or_default();
    match close(reach, length + 1, Bracket::Index) {
        (end, true) if rest.get(end) == Some(&b'=') => start + end,
        (end, true) if rest.get(end) == Some(&b'+') && rest.get(end + 1) == Some(&b'=') => start + end,
        _ => start,
    }
}

/// The length up to which an index is searched for, in bytes.
const LONGEST_INDEX: usize = 128;

/// The ranges of an array's elements in the text between its brackets.
pub fn elements(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let byte = *bytes.get(at)?;
            if byte == b'#' {
                let rest = bytes.get(at..).unwrap_or_default();
                at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            } else if byte == b'\\' && bytes.get(at + 1) == Some(&b'\n') {
                at += 2;
            } else {
                let start = at;
                let end = scan::word(bytes, at).0;
                at = end.max(at + 1);
                if end > start {
                    return Some(start..end);
                }
            }
        }
    })
}
