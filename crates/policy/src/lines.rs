// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts a byte offset in a text to line and column.

use std::ops::Range;

/// The distance in bytes between two offsets whose character counts are stored.
const STEP: usize = 64;

/// The start of each line, and the number of characters before every 64th byte. Without these, a line of a megabyte
/// would take a count over the whole line for each value in it.
pub(crate) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
    counted: Vec<usize>,
}

/// In UTF-8 every byte except a continuation byte begins a character.
const fn begins_character(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut starts = vec![0];
        let mut counted = Vec::with_capacity(text.len() / STEP + 1);
        let mut characters = 0;
        for (at, byte) in text.bytes().enumerate() {
            if at % STEP == 0 {
                counted.push(characters);
            }
            characters += usize::from(begins_character(byte));
            if byte == b'\n' {
                starts.push(at + 1);
            }
        }
        Self { text, starts, counted }
    }

    fn characters_before(&self, at: usize) -> usize {
        let step = (at / STEP).min(self.counted.len().saturating_sub(1));
        let known = self.counted.get(step).copied().unwrap_or(0);
        let rest = &self.text.as_bytes()[(step * STEP).min(at)..at];
        known + rest.iter().filter(|byte| begins_character(**byte)).count()
    }

    /// The line and column of a byte, both from 1.
    pub(crate) fn place(&self, at: usize) -> (u32, u32) {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let column = self.characters_before(at) - self.characters_before(start) + 1;
        // The text has at most one mebibyte.
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }

    /// A span, limited to the text and extended to whole characters.
    pub(crate) fn within(&self, span: Range<usize>) -> Range<usize> {
        let floor = |mut at: usize| {
            at = at.min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(span.start);
        start..floor(span.end).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_in_characters() {
        let text = format!("a\nbéc\n{}x\n", "ü".repeat(100));
        let lines = Lines::new(&text);
        let at = |needle| lines.place(text.find(needle).unwrap());
        assert_eq!(at("a"), (1, 1));
        assert_eq!(at("b"), (2, 1));
        assert_eq!(at("c"), (2, 3));
        assert_eq!(at("x"), (3, 101));
        assert_eq!(lines.place(text.len()), (4, 1));
        assert_eq!(lines.place(usize::MAX), (4, 1));
        assert_eq!(Lines::new("").place(0), (1, 1));
        assert_eq!(lines.within(4..999), 3..text.len());
    }
}
