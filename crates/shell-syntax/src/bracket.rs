// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the ends of quotes and brackets that can contain nested ones. No byte is examined twice. Nesting uses a list
//! and not the stack.

use crate::document::Waiting;
use crate::quote::{self, Closed, is_blank};

/// The kind of quote or bracket to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bracket {
    /// `"…"`
    Double,
    /// Backquotes.
    Back,
    /// `${…}`. As in bash, `'` is a quote in it, also within `"…"`.
    Parameter,
    /// `(…)` with commands: `$(…)`, `<(…)`, and groups in these.
    Commands,
    /// `(…)` with words: elements of an array, patterns.
    Words,
    /// `(…)` with sums.
    Sum,
    /// `[…]` of an array's element.
    Index,
}

impl Bracket {
    fn closer(self) -> u8 {
        match self {
            Self::Double => b'"',
            Self::Back => b'`',
            Self::Parameter => b'}',
            Self::Commands | Self::Words | Self::Sum => b')',
            Self::Index => b']',
        }
    }
}

struct Level {
    bracket: Bracket,
    /// The number of open `case`: in their patterns, `)` ends the pattern.
    cases: u32,
    /// A command's name may come next.
    fresh: bool,
    /// Here-documents that begin after this line.
    waiting: Waiting,
}

impl Level {
    fn new(bracket: Bracket) -> Self {
        Self { bracket, cases: 0, fresh: true, waiting: Waiting::default() }
    }
}

/// The index after the end of `bracket`. Its content begins at `at`.
pub(crate) fn close(text: &[u8], at: usize, bracket: Bracket) -> Closed {
    let mut closing = Closing { text, at, levels: vec![Level::new(bracket)] };
    while closing.at < text.len() {
        closing.step();
        if closing.levels.is_empty() {
            return (closing.at.min(text.len()), true);
        }
    }
    (text.len(), false)
}

struct Closing<'t> {
    text: &'t [u8],
    at: usize,
    levels: Vec<Level>,
}

impl Closing<'_> {
    fn push(&mut self, bracket: Bracket, length: usize) {
        self.levels.push(Level::new(bracket));
        self.at += length;
    }

    fn step(&mut self) {
        let (text, at) = (self.text, self.at);
        let (Some(&byte), Some(level)) = (text.get(at), self.levels.last_mut()) else { return };
        let next = text.get(at + 1).copied();
        let bracket = level.bracket;
        match (byte, next) {
            (b'\\', _) => {
                level.fresh &= next == Some(b'\n');
                self.at += 2;
            }
            _ if byte == bracket.closer() => self.closer(byte),
            _ if bracket == Bracket::Back => self.at += 1,
            (b'$', Some(b'(')) if text.get(at + 2) == Some(&b'(') => {
                level.fresh = false;
                self.push(Bracket::Sum, 2);
            }
            (b'$', Some(b'(')) => {
                level.fresh = false;
                self.push(Bracket::Commands, 2);
            }
            (b'$', Some(b'{')) => {
                level.fresh = false;
                self.push(Bracket::Parameter, 2);
            }
            (b'`', _) => {
                level.fresh = false;
                self.push(Bracket::Back, 1);
            }
            _ if bracket == Bracket::Double => self.at += 1,
            (b'"', _) => {
                level.fresh = false;
                self.push(Bracket::Double, 1);
            }
            (b'\'', _) => {
                level.fresh = false;
                self.at = quote::single(text, at + 1).0;
            }
            (b'$', Some(b'\'')) => {
                level.fresh = false;
                self.at = quote::ansi(text, at + 2).0;
            }
            _ if bracket == Bracket::Commands => self.in_commands(byte, next),
            (b'#', _) if bracket == Bracket::Words && self.begins_word() => self.skip_comment(),
            (b'(', _) if matches!(bracket, Bracket::Words | Bracket::Sum) => self.push(bracket, 1),
            (b'[', _) if bracket == Bracket::Index => self.push(bracket, 1),
            _ => self.at += 1,
        }
    }

    fn closer(&mut self, byte: u8) {
        self.at += 1;
        if let Some(level) = self.levels.last_mut()
            && byte == b')'
            && level.cases > 0
        {
            // This `)` ends a pattern of `case`.
            level.fresh = true;
            return;
        }
        self.levels.pop();
    }

    fn begins_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|before| self.text.get(before));
        before.is_none_or(|before| quote::ends_word(*before) || *before == b'`')
    }

    fn skip_comment(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    fn in_commands(&mut self, byte: u8, next: Option<u8>) {
        let begins_word = self.begins_word();
        let (text, at) = (self.text, self.at);
        let Some(level) = self.levels.last_mut() else { return };
        match (byte, next) {
            (b'#', _) if begins_word => self.skip_comment(),
            (b'(', _) => {
                level.fresh = false;
                self.push(Bracket::Commands, 1);
            }
            (b'<', Some(b'<')) if text.get(at + 2) != Some(&b'<') => {
                self.at = level.waiting.add(text, at + 2);
            }
            (b'<', Some(b'<')) => self.at += 3,
            (b'\n', _) => {
                level.fresh = true;
                self.at = level.waiting.skip(text, at + 1);
            }
            (b';' | b'&' | b'|', _) => {
                level.fresh = true;
                self.at += 1;
            }
            (b'a'..=b'z', _) if begins_word => {
                let rest = text.get(at..).unwrap_or_default();
                let length = quote::name_length(rest);
                let whole = rest.get(length).is_none_or(|byte| quote::ends_word(*byte));
                level.fresh = match rest.get(..length).unwrap_or_default() {
                    b"case" if whole && level.fresh => {
                        level.cases += 1;
                        false
                    }
                    b"esac" if whole && level.fresh => {
                        level.cases = level.cases.saturating_sub(1);
                        false
                    }
                    b"in" => whole && level.cases > 0,
                    b"if" | b"then" | b"elif" | b"else" | b"while" | b"until" | b"do" | b"time" => {
                        whole && level.fresh
                    }
                    _ => false,
                };
                self.at += length;
            }
            _ => {
                level.fresh &= is_blank(byte) || matches!(byte, b'!' | b'{' | b'}');
                self.at += 1;
            }
        }
    }
}
