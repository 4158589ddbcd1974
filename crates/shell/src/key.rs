// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is typed: bytes of the terminal as keys, in the old way of terminals and in kitty's protocol (`CSI u`).
//!
//! Nothing is changed here: each key comes with the bytes that it was.

mod chord;
mod control;

pub use chord::{Chord, ChordError, Code};

use control::{Sequence, understood};

/// The longest sequence that is waited for, in bytes.
const LONGEST: usize = 64;
/// What ends a paste.
const END: &[u8] = b"\x1b[201~";

/// One thing that came from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// A character to be inserted.
    Text(char),
    /// A key that isn't a character.
    Key(Chord),
    /// What follows is pasted.
    PasteBegins,
    /// A piece of what is pasted, which may end amid a character.
    Pasted(&'a [u8]),
    /// That was it.
    PasteEnds,
    /// A mouse button at a place, from 1.
    Mouse {
        /// Button and modifiers, as in the SGR protocol.
        button: u16,
        /// The column.
        column: u16,
        /// The row.
        row: u16,
        /// Down, or up.
        pressed: bool,
    },
    /// What the terminal answered, or what nobody knows.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    /// In a character: so many bytes are missing.
    Character(u8),
    Escape,
    /// ESC O.
    Single,
    Control,
    /// A string that the terminal sends: it is read to its end.
    String,
    StringEscape,
    Paste,
}

/// Reads keys, in pieces of any size.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    held: [u8; LONGEST],
    count: usize,
    /// How much of [`END`] was seen.
    matched: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { state: State::Ground, held: [0; LONGEST], count: 0, matched: 0 }
    }
}

impl Decoder {
    /// Whether it waits for the rest of something: if nothing comes for a while, call [`Decoder::give_up`].
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.count > 0
    }

    /// Reads on; `each` gets what came and the bytes that it was.
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

    /// Takes what is there for all that comes: ESC alone is the key.
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
        // A byte that can't go on with a character ends it, and is looked at for itself.
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
                    // The first is a key of its own.
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
                    // It was never ended: what follows is something else.
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

    /// Reads within a paste; says how many bytes were taken.
    fn paste(&mut self, bytes: &[u8], each: &mut impl FnMut(Input<'_>, &[u8])) -> usize {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if END.get(self.matched) == Some(&byte) {
                self.matched += 1;
                at += 1;
                if self.matched == END.len() {
                    // Bytes of the end that came before were kept back until now.
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
                // What was kept back from an earlier piece is no end, after all.
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
