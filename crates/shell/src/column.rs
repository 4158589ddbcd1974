// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the cursor's column from what the shell writes since a prompt began.
//!
//! Rows aren't tracked. Where the column can't be computed, it is unknown until the next carriage return.

use crate::vt::Control;
use unicode_width::UnicodeWidthChar;

/// The column, from 0. If it equals the width, the cursor is behind the last column, and the next character wraps.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    at: Option<usize>,
    saved: Option<usize>,
    width: usize,
    /// The bytes of a character that isn't complete yet.
    partial: [u8; 4],
    have: usize,
}

impl Column {
    /// An unknown column on a screen of that width.
    #[must_use]
    pub const fn of_width(width: usize) -> Self {
        Self { at: None, saved: None, width, partial: [0; 4], have: 0 }
    }

    /// The column, if it is known.
    #[must_use]
    pub fn get(&self) -> Option<usize> {
        self.at
    }

    /// Sets the column.
    pub fn set(&mut self, at: Option<usize>) {
        self.at = at;
    }

    /// The screen has another width. The terminal has wrapped the lines again, so the column is unknown.
    pub fn resize(&mut self, width: usize) {
        *self = Self::of_width(width);
    }

    /// Counts printed text without control sequences.
    pub fn print(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                0x20..=0x7e => self.advance(1),
                b'\r' => self.at = Some(0),
                0x08 => {
                    // From behind the last column, a backspace moves to the column before the last one.
                    self.at = self.at.map(|at| at.min(self.width.saturating_sub(1)).saturating_sub(1));
                }
                b'\t' => self.at = self.at.map(|at| ((at / 8 + 1) * 8).min(self.width.saturating_sub(1))),
                0x00..=0x1f | 0x7f => {}
                0x80.. => self.partial(byte),
            }
        }
    }

    fn partial(&mut self, byte: u8) {
        if byte >= 0xc0 {
            self.have = 0;
        }
        let Some(place) = self.partial.get_mut(self.have) else {
            self.at = None;
            return;
        };
        *place = byte;
        self.have += 1;
        let bytes = self.partial.get(..self.have).unwrap_or_default();
        if let Ok(text) = core::str::from_utf8(bytes)
            && let Some(character) = text.chars().next()
        {
            self.have = 0;
            self.advance(character.width().unwrap_or(0));
        }
    }

    fn advance(&mut self, by: usize) {
        self.at = self.at.map(|at| if by > 0 && at + by > self.width { by } else { at + by });
    }

    /// Applies a control sequence.
    pub fn control(&mut self, control: &Control) {
        let count = usize::from(control.parameter(0).max(1));
        let last = self.width.saturating_sub(1);
        let to = |column: u16| Some(usize::from(column.max(1) - 1).min(last));
        match (control.private, control.intermediate, control.last) {
            (0, 0, b'C' | b'a') => self.at = self.at.map(|at| (at + count).min(last)),
            (0, 0, b'D') => self.at = self.at.map(|at| at.min(last).saturating_sub(count)),
            (0, 0, b'E' | b'F') => self.at = Some(0),
            (0, 0, b'G' | b'`') => self.at = to(control.parameter(0)),
            (0, 0, b'H' | b'f') => self.at = to(control.parameter(1)),
            (0, 0, b's') => self.saved = self.at,
            (0, 0, b'u') => self.at = self.saved,
            // Erasing, scrolling, inserting, colours and modes don't move the cursor.
            (
                0,
                0,
                b'A' | b'B' | b'J' | b'K' | b'L' | b'M' | b'P' | b'S' | b'T' | b'X' | b'@' | b'd' | b'm'
                | b'n' | b'c',
            )
            | (b'?' | b'>' | b'<' | b'=', ..)
            | (0, 0, b'h' | b'l' | b't')
            | (0, b' ', b'q') => {}
            _ => self.at = None,
        }
    }

    /// Applies ESC and one byte.
    pub fn escape(&mut self, byte: u8) {
        match byte {
            b'7' => self.saved = self.at,
            b'8' => self.at = self.saved,
            b'E' => self.at = Some(0),
            b'c' => self.at = None,
            _ => {}
        }
    }
}

/// How many columns a text takes, if each of its characters takes any.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// Whether a character is visible, has no meaning to a terminal, and doesn't change how other characters are shown.
#[must_use]
pub fn is_plain(character: char) -> bool {
    !palisade_text::is_hidden(character) && character.width().is_some_and(|width| width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vt::{Found, Scanner};

    /// The column after these bytes as computed here, and the column on a terminal that shows them.
    fn both(bytes: &[u8]) -> (Option<usize>, usize) {
        let mut screen = vt100::Parser::new(10, 20, 0);
        screen.process(bytes);
        let mut column = Column::of_width(20);
        column.set(Some(0));
        let mut from = 0;
        Scanner::new().read(bytes, |found, begun, behind| {
            column.print(&bytes[from..begun.unwrap()]);
            from = behind;
            match found {
                Found::Control(control) => column.control(control),
                Found::Escape(byte) => column.escape(byte),
                Found::Command(_) => {}
            }
        });
        column.print(&bytes[from..]);
        (column.get(), usize::from(screen.screen().cursor_position().1))
    }

    #[test]
    fn it_is_where_the_screen_says() {
        for bytes in [
            b"$ ls" as &[u8],
            b"\x1b[1;32muser@host\x1b[0m:~$ ",
            b"a very long prompt that wraps around > ",
            "日本語 é ".as_bytes(),
            b"abc\x08\x08d",
            b"abc\r\x1b[5Cx",
            b"a\tb",
            b"abc\x1b[2Dx\x1b[K",
            b"abc\x1b7defg\x1b8",
            b"abc\x1b[12Gx\x1b[3;4H",
            b"exactly 20 columns..x",
        ] {
            let (ours, screen) = both(bytes);
            assert_eq!(ours, Some(screen), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn unknown_sequences_make_it_unknown_until_a_carriage_return() {
        let mut column = Column::of_width(20);
        column.set(Some(3));
        Scanner::new().read(b"\x1b[3$z", |found, _, _| {
            if let Found::Control(control) = found {
                column.control(control);
            }
        });
        assert_eq!(column.get(), None);
        column.print(b"abc\rd");
        assert_eq!(column.get(), Some(1));
    }
}
