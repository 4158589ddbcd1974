// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decodes the terminal's bytes into keys, in the old encoding of terminals and in kitty's protocol (`CSI u`).
//!
//! Nothing is changed here: each key is passed on together with its original bytes.

mod chord;
mod control;

pub use chord::{Chord, ChordError, Code};

use control::{Sequence, understood};

/// The longest sequence that the decoder waits for, in bytes.
const LONGEST: usize = 64;
/// The sequence that ends a paste.
const END: &[u8] = b"\x1b[201~";

/// One input from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// A character that is to be inserted.
    Text(char),
    /// A key that isn't a character.
    Key(Chord),
    /// A paste begins.
    PasteBegins,
    /// A piece of the pasted bytes. It may end within a character.
    Pasted(&'a [u8]),
    /// The paste ends.
    PasteEnds,
    /// A mouse button was pressed or released, at a place counted from 1.
    Mouse {
        /// Button and modifiers, as in the SGR protocol.
        button: u16,
        /// The column.
        column: u16,
        /// The row.
        row: u16,
        /// Whether the button was pressed; otherwise it was released.
        pressed: bool,
    },
    /// An answer of the terminal, or an unknown sequence.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    /// Inside a character: this many bytes are missing.
    Character(u8),
    Escape,
    /// After ESC O.
    Single,
    Control,
    /// In a string that the terminal sends. It is read to its end.
    String,
    StringEscape,
    Paste,
}

/// Decodes keys from pieces of any size.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    held: [u8; LONGEST],
    count: usize,
    /// How many bytes of [`END`] were seen.
    matched: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { state: State::Ground, held: [0; LONGEST], count: 0, matched: 0 }
    }
}

impl Decoder {
    /// Whether the decoder waits for the rest of a sequence. If nothing arrives for a while, call [`Decoder::give_up`].
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.count > 0
    }

    /// Decodes bytes. `each` gets each input with its original bytes.
    pub fn read(&mut self, bytes: &[u8], mut each: impl FnMut(Input<'_>, &[u8])) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.state == State::Paste {
                at += self.paste(bytes.get(at..).unwrap_or_default(), &mut each);
                continue;
            }
            at += 1;
            if self.state == State::Ground && (0x20..0x7f).contains(&byte) {
                each(Input::Text(char::from(byte)), &[byte]);
                continue;
            }
            self.step(byte, &mut each);
        }
    }

    /// Stops waiting for the rest: an ESC alone is the Escape key.
    pub fn give_up(&mut self, mut each: impl FnMut(Input<'_>, &[u8])) {
        let escape = self.state == State::Escape && self.count == 1;
        let input = if escape { Input::Key(Chord::plain(Code::Escape)) } else { Input::Other };
        self.end(input, &mut each);
    }

    fn end(&mut self, input: Input<'_>, each: &mut impl FnMut(Input<'_>, &[u8])) {
        let count = core::mem::take(&mut self.count);
        self.state = State::Ground;
        if let Some(bytes) = self.held.get(..count)
            && count > 0
        {
            each(input, bytes);
        }
    }

    fn hold(&mut self, byte: u8) -> bool {
        let Some(place) = self.held.get_mut(self.count) else { return false };
        *place = byte;
        self.count += 1;
        true
    }

    fn step(&mut self, byte: u8, each: &mut impl FnMut(Input<'_>, &[u8])) {
        // A byte that can't continue a character ends it, and is then decoded by itself.
        if matches!(self.state, State::Character(_)) && !(0x80..0xc0).contains(&byte) {
            self.end(Input::Other, each);
        }
        if !self.hold(byte) {
            self.end(Input::Other, each);
            let _there_is_room = self.hold(byte);
        }
        match self.state {
            State::Ground => match byte {
                0x1b => self.state = State::Escape,
                0x00..=0x1f | 0x7f => self.end(Input::Key(Chord::of_control(byte)), each),
                0x20..=0x7e => self.end(Input::Text(char::from(byte)), each),
                0xc2..=0xdf => self.state = State::Character(1),
                0xe0..=0xef => self.state = State::Character(2),
                0xf0..=0xf4 => self.state = State::Character(3),
                _ => self.end(Input::Other, each),
            },
            State::Character(1) => {
                let held = self.held.get(..self.count).unwrap_or_default();
                let character = core::str::from_utf8(held).ok().and_then(|text| text.chars().next());
                self.end(character.map_or(Input::Other, Input::Text), each);
            }
            State::Character(missing) => self.state = State::Character(missing - 1),
            State::Escape => match byte {
                b'[' => self.state = State::Control,
                b'O' => self.state = State::Single,
                b']' | b'P' | b'_' | b'^' => self.state = State::String,
                0x1b => {
                    // The first ESC is a key of its own.
                    self.count = 1;
                    self.end(Input::Key(Chord::plain(Code::Escape)), each);
                    let _there_is_room = self.hold(0x1b);
                    self.state = State::Escape;
                }
                0x00..=0x7f => self.end(Input::Key(Chord::of_byte(byte).with(Chord::ALT)), each),
                _ => self.end(Input::Other, each),
            },
            State::Single => self.end(Chord::of_letter(byte, 1).map_or(Input::Other, Input::Key), each),
            State::Control => {
                if byte == 0x1b {
                    // The string was never ended, so these bytes begin another input.
                    self.count -= 1;
                    self.end(Input::Other, each);
                    let _there_is_room = self.hold(0x1b);
                    self.state = State::Escape;
                } else if (0x40..=0x7e).contains(&byte) && !(self.count == 3 && byte == b'[') {
                    self.finish_control(each);
                }
            }
            State::String => match byte {
                0x07 => self.end(Input::Other, each),
                0x1b => self.state = State::StringEscape,
                _ => {}
            },
            State::StringEscape => self.end(Input::Other, each),
            State::Paste => {}
        }
    }

    fn finish_control(&mut self, each: &mut impl FnMut(Input<'_>, &[u8])) {
        match understood(self.held.get(2..self.count).unwrap_or_default()) {
            Sequence::Key(chord) => self.end(Input::Key(chord), each),
            Sequence::PasteBegins => {
                self.end(Input::PasteBegins, each);
                self.state = State::Paste;
                self.matched = 0;
            }
            Sequence::Mouse { button, column, row, pressed } => {
                self.end(Input::Mouse { button, column, row, pressed }, each);
            }
            Sequence::Other => self.end(Input::Other, each),
        }
    }

    /// Decodes within a paste. Returns how many bytes were taken.
    fn paste(&mut self, bytes: &[u8], each: &mut impl FnMut(Input<'_>, &[u8])) -> usize {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if END.get(self.matched) == Some(&byte) {
                self.matched += 1;
                at += 1;
                if self.matched == END.len() {
                    // The bytes of the end sequence from earlier pieces were kept back until now.
                    let pasted = bytes.get(..at.saturating_sub(END.len())).unwrap_or_default();
                    if !pasted.is_empty() {
                        each(Input::Pasted(pasted), pasted);
                    }
                    self.state = State::Ground;
                    self.matched = 0;
                    self.count = 0;
                    each(Input::PasteEnds, END);
                    return at;
                }
                continue;
            }
            if self.matched > 0 {
                let before = self.matched;
                self.matched = 0;
                // The bytes that were kept back from an earlier piece don't belong to the end sequence.
                if before > at {
                    let late = END.get(..before - at).unwrap_or_default();
                    each(Input::Pasted(late), late);
                }
                continue;
            }
            let rest = bytes.get(at..).unwrap_or_default();
            at += memchr::memchr(0x1b, rest).unwrap_or(rest.len());
        }
        let pasted = bytes.get(..at.saturating_sub(self.matched)).unwrap_or_default();
        if !pasted.is_empty() {
            each(Input::Pasted(pasted), pasted);
        }
        at
    }
}

#[cfg(test)]
mod tests;
