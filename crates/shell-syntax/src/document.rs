// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the lines that belong to here-documents.

use std::ops::Range;

use crate::quote;

/// Here-documents that began in the current line. Their text follows this line.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Vec<(Vec<u8>, bool)>);

impl Waiting {
    /// Adds the delimiter after `<<`. Returns the index after it.
    pub(crate) fn add(&mut self, text: &[u8], at: usize) -> usize {
        let tabs = text.get(at) == Some(&b'-');
        let mut at = at + usize::from(tabs);
        while text.get(at).copied().is_some_and(quote::is_blank) {
            at += 1;
        }
        let end = delimiter_end(text, at);
        self.0.push((delimiter(text.get(at..end).unwrap_or_default()), tabs));
        end
    }

    /// The index after the texts of these here-documents, which begin at `at`.
    pub(crate) fn skip(&mut self, text: &[u8], mut at: usize) -> usize {
        for (delimiter, tabs) in self.0.drain(..) {
            at = body(text, at, &delimiter, tabs).1;
        }
        at
    }
}

/// The index after the delimiter that begins at `at`. In a delimiter nothing is expanded.
pub(crate) fn delimiter_end(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        at = match byte {
            b'\\' => at + 2,
            b'\'' => quote::single(text, at + 1).0,
            b'"' => {
                let rest = text.get(at + 1..).unwrap_or_default();
                rest.iter().position(|byte| *byte == b'"').map_or(text.len(), |length| at + length + 2)
            }
            _ if quote::ends_word(byte) => break,
            _ => at + 1,
        };
    }
    at.min(text.len())
}

/// The delimiter without its quotes.
pub(crate) fn delimiter(raw: &[u8]) -> Vec<u8> {
    raw.iter().copied().filter(|byte| !b"'\"\\".contains(byte)).collect()
}

/// The range of the lines from `start` up to the delimiter, the index after the delimiter, and whether the delimiter
/// was found.
pub(crate) fn body(text: &[u8], start: usize, delimiter: &[u8], tabs: bool) -> (Range<usize>, usize, bool) {
    let mut at = start.min(text.len());
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        let indent = if tabs { line.iter().take_while(|byte| **byte == b'\t').count() } else { 0 };
        let after = (at + length + 1).min(text.len());
        if line.get(indent..) == Some(delimiter) {
            return (start..at, after, true);
        }
        at = after;
    }
    (start.min(text.len())..text.len(), text.len(), false)
}
