// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits one line into words.
//!
//! Words are separated by spaces (and tabs, which fapolicyd takes as part of the word). A double quote that begins an
//! item, right after `=` or `,`, may contain spaces; `\"` and `\\` in it are the characters themselves. So is `\,`,
//! which only Palisade has: fapolicyd has no way to write a path with a comma.

use super::Text;
use super::error::RuleError;

/// One word, and its position.
#[derive(Debug)]
pub(super) struct Word<'a> {
    /// From zero.
    pub(super) column: usize,
    /// The whole word.
    pub(super) text: &'a [u8],
    /// The text before the first `=`, or the whole word.
    pub(super) name: &'a [u8],
    /// The items after the `=`, without the empty ones, as in fapolicyd.
    pub(super) items: Option<Vec<Item>>,
}

/// One item of a list.
#[derive(Debug)]
pub(super) struct Item {
    /// From zero.
    pub(super) column: usize,
    /// The value, without quotes.
    pub(super) value: Text,
}

/// The remaining words of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

/// A mistake and its position in the line.
#[derive(Debug)]
pub(super) struct Misplaced {
    /// From zero.
    pub(super) column: usize,
    /// The end of the wrong text.
    pub(super) end: usize,
    /// The mistake.
    pub(super) error: RuleError,
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

impl<'a> Words<'a> {
    /// All words of a line without its end.
    pub(super) fn of(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The next word, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Word<'a>>, Misplaced> {
        let line = self.line;
        while line.get(self.at).is_some_and(|&byte| is_blank(byte)) {
            self.at += 1;
        }
        let column = self.at;
        if column == line.len() {
            return Ok(None);
        }
        let plain = line[column..]
            .iter()
            .position(|&byte| is_blank(byte) || byte == b'=')
            .unwrap_or(line.len() - column);
        let equals = column + plain;
        if line.get(equals) != Some(&b'=') {
            self.at = equals;
            let text = &line[column..equals];
            return Ok(Some(Word { column, text, name: text, items: None }));
        }
        let mut items = Vec::new();
        self.at = equals;
        while self.at == equals || line.get(self.at) == Some(&b',') {
            self.at += 1;
            let start = self.at;
            let value = self.item()?;
            if !value.is_empty() {
                items.push(Item { column: start, value: value.into() });
            }
        }
        Ok(Some(Word {
            column,
            text: &line[column..self.at],
            name: &line[column..equals],
            items: Some(items),
        }))
    }

    /// One item, up to a comma, a blank or the end.
    fn item(&mut self) -> Result<Vec<u8>, Misplaced> {
        let line = self.line;
        let start = self.at;
        let mut value = Vec::new();
        while let Some(&byte) = line.get(self.at) {
            if is_blank(byte) || byte == b',' {
                break;
            }
            // fapolicyd looks only at the byte before: `a="b c"` within a value also begins a quote.
            if byte == b'"' && matches!(line[self.at - 1], b'=' | b',') {
                self.at += 1;
                self.quoted(start, &mut value)?;
                match line.get(self.at) {
                    None | Some(b' ' | b'\t' | b',') => break,
                    Some(_) => {
                        return Err(Misplaced {
                            column: start,
                            end: self.at + 1,
                            error: RuleError::AfterQuote,
                        });
                    }
                }
            }
            value.push(byte);
            self.at += 1;
        }
        Ok(value)
    }

    /// Reads the rest of a quote, and moves past its end.
    fn quoted(&mut self, start: usize, value: &mut Vec<u8>) -> Result<(), Misplaced> {
        let line = self.line;
        loop {
            match line.get(self.at) {
                None => {
                    return Err(Misplaced { column: start, end: line.len(), error: RuleError::OpenQuote });
                }
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') if matches!(line.get(self.at + 1), Some(b'"' | b'\\' | b',')) => {
                    value.push(line[self.at + 1]);
                    self.at += 2;
                }
                Some(b',') => {
                    return Err(Misplaced {
                        column: start,
                        end: self.at + 1,
                        error: RuleError::CommaInQuote,
                    });
                }
                Some(&byte) => {
                    value.push(byte);
                    self.at += 1;
                }
            }
        }
    }
}
