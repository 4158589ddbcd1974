// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the line in the shell's editor, and knows whether its text is certain.
//!
//! A report of the shell is trusted. Between two reports, keys are applied as the shell's editor does by default
//! (readline's emacs mode, which fish and zsh follow). Any other key makes the line uncertain until the shell's next
//! report. Nothing is done because of an uncertain line.

use crate::key::{Chord, Code, Input};
use crate::mark;

/// The longest line that is followed, in bytes.
pub const LONGEST: usize = 16 << 10;

/// Where a line came from. If its parts have several origins, the most suspicious one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Origin {
    /// Typed key by key.
    #[default]
    Typed,
    /// Pasted by the user.
    Pasted,
    /// Faster than a person types, and not as a paste.
    Machine,
}

/// The line in the shell's editor.
#[derive(Debug)]
pub struct Line {
    text: String,
    cursor: usize,
    certain: bool,
    origin: Origin,
}

impl Default for Line {
    fn default() -> Self {
        Self { text: String::with_capacity(LONGEST), cursor: 0, certain: false, origin: Origin::Typed }
    }
}

impl Line {
    /// The line's text. It has no meaning unless [`Line::is_certain`].
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text before the cursor.
    #[must_use]
    pub fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or(&self.text)
    }

    /// Whether the text is known to be the shell's.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.certain
    }

    /// Whether the cursor is behind the last character.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.cursor == self.text.len()
    }

    /// Where it came from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Adds an origin of a part of the line.
    pub fn came_from(&mut self, origin: Origin) {
        self.origin = self.origin.max(origin);
    }

    /// Begins a new line: it is empty, and this is certain.
    pub fn begin(&mut self) {
        self.clear();
        self.origin = Origin::Typed;
    }

    /// Marks the text as unknown.
    pub fn lose(&mut self) {
        self.certain = false;
    }

    /// Applies the shell's report: the cursor's index in characters, and the text as [`mark::plain`] reads it.
    pub fn told(&mut self, point: usize, sent: &str) {
        self.text.clear();
        self.certain = mark::plain(sent, &mut self.text);
        self.cursor = self.text.char_indices().nth(point).map_or(self.text.len(), |(at, _)| at);
        if self.text.is_empty() {
            self.origin = Origin::Typed;
        }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
        self.certain = true;
    }

    /// Applies a key on its way to the shell.
    pub fn apply(&mut self, input: &Input<'_>) {
        if !self.certain {
            return;
        }
        match input {
            Input::Text(character) => self.insert(*character),
            Input::Key(chord) => self.key(*chord),
            Input::PasteBegins | Input::PasteEnds => {}
            Input::Pasted(bytes) => {
                self.came_from(Origin::Pasted);
                match core::str::from_utf8(bytes) {
                    Ok(text) if !text.contains(|character: char| character.is_control()) => {
                        text.chars().for_each(|character| self.insert(character));
                    }
                    // The effect of line ends and control characters depends on the shell.
                    _ => self.lose(),
                }
            }
            Input::Mouse { .. } => {}
            Input::Other => self.lose(),
        }
    }

    fn insert(&mut self, character: char) {
        if self.text.len() + character.len_utf8() > LONGEST {
            return self.lose();
        }
        self.text.insert(self.cursor, character);
        self.cursor += character.len_utf8();
    }

    fn key(&mut self, chord: Chord) {
        let code = match (chord.code, chord.modifiers) {
            (Code::Character(letter), Chord::CTRL) => letter,
            (Code::Backspace, 0) => 'h',
            (Code::Delete, 0) => return self.delete(),
            (Code::Left, 0) => 'b',
            (Code::Right, 0) => 'f',
            (Code::Home, 0) => 'a',
            (Code::End, 0) => 'e',
            // The caller decides what Enter does.
            (Code::Enter, 0) => return,
            _ => return self.lose(),
        };
        match code {
            'a' => self.cursor = 0,
            'e' => self.cursor = self.text.len(),
            'b' => self.cursor -= self.left(),
            'f' => self.cursor += self.right(),
            'h' => {
                let width = self.left();
                self.cursor -= width;
                self.text.drain(self.cursor..self.cursor + width);
            }
            'k' => self.text.truncate(self.cursor),
            // zsh deletes the whole line, readline the text before the cursor. Both agree at the line's end.
            'u' if self.is_at_end() => {
                self.clear();
                self.origin = Origin::Typed;
            }
            'd' if !self.text.is_empty() => self.delete(),
            'd' | 'l' => {}
            // The shell begins a new line, and reports that.
            _ => self.lose(),
        }
    }

    fn delete(&mut self) {
        let width = self.right();
        self.text.drain(self.cursor..self.cursor + width);
    }

    fn left(&self) -> usize {
        self.before().chars().next_back().map_or(0, char::len_utf8)
    }

    fn right(&self) -> usize {
        self.text.get(self.cursor..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Decoder;

    fn typed(bytes: &[u8]) -> Line {
        let mut line = Line::default();
        line.begin();
        Decoder::default().read(bytes, |input, _| line.apply(&input));
        line
    }

    #[test]
    fn keys_do_what_they_do_in_readline() {
        for (bytes, before, text) in [
            (b"ls -l" as &[u8], "ls -l", "ls -l"),
            (b"ls\x01cd\x05!", "cdls!", "cdls!"),
            ("é\u{7f}e".as_bytes(), "e", "e"),
            (b"abc\x1b[D\x1b[D\x0b", "a", "a"),
            (b"abc\x02\x04d", "abd", "abd"),
            (b"abc\x01\x1b[3~", "", "bc"),
            (b"abc\x15x", "x", "x"),
            (b"a\x1b[D\x7fb", "b", "ba"),
        ] {
            let line = typed(bytes);
            assert!(line.is_certain(), "{bytes:?}");
            assert_eq!((line.before(), line.text()), (before, text), "{bytes:?}");
        }
    }

    #[test]
    fn what_the_shell_decides_is_uncertain_until_it_tells() {
        for bytes in
            [b"ls\t" as &[u8], b"\x1b[A", b"\x12", b"ab\x19", b"\x1bf", b"\xff", b"\x1b[200~a\nb\x1b[201~"]
        {
            let mut line = typed(bytes);
            assert!(!line.is_certain(), "{bytes:?}");
            line.told(1, "a\\nb");
            assert!(line.is_certain());
            assert_eq!((line.before(), line.text()), ("a", "a\nb"));
        }
    }

    #[test]
    fn a_paste_stays_one_until_the_line_is_another() {
        assert_eq!(typed(b"x\x1b[200~ab\x1b[201~c").origin(), Origin::Pasted);
        assert_eq!(typed(b"\x1b[200~ab\x1b[201~\x15c").origin(), Origin::Typed);
    }

    #[test]
    fn it_is_bounded() {
        let line = typed(&vec![b'x'; 1 << 20]);
        assert!(!line.is_certain() && line.text.capacity() == LONGEST);
    }

    #[test]
    fn no_input_takes_the_cursor_out_of_the_text() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let line = typed(bytes);
            assert!(line.text().is_char_boundary(line.cursor));
        });
    }
}
