// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits a word into its parts: text, quotes, escapes, variables, substitutions.

use std::ops::Range;

use crate::bracket::{Bracket, close};
use crate::quote::{self, Closed, is_name_start};
use crate::scan;

/// A part of a word. All ranges are in the text that is split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text without a special meaning.
    Text(Range<usize>),
    /// One character after a backslash.
    Escaped(Range<usize>),
    /// The content of `'…'`.
    Single(Range<usize>),
    /// The content of `$'…'`; see [`ansi`](crate::ansi()).
    Ansi(Range<usize>),
    /// The content of `"…"`; it can be split with [`Quoting::Double`].
    Double(Range<usize>),
    /// A text in backquotes, with its backslashes.
    Backquoted(Range<usize>),
    /// A text in `$(…)`.
    Command(Range<usize>),
    /// The content of `$((…))`.
    Sum(Range<usize>),
    /// A text in `<(…)`.
    Readable(Range<usize>),
    /// A text in `>(…)`.
    Writable(Range<usize>),
    /// The content of `${…}`; see [`Parameter`](crate::Parameter).
    Parameter(Range<usize>),
    /// A name or a special character: `$name`, `$?`.
    Variable(Range<usize>),
}

/// The quotes around a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quoting {
    /// No quotes.
    Plain,
    /// `"…"`.
    Double,
    /// A here-document whose text is expanded.
    Document,
}

/// The parts of `text`.
#[must_use]
pub fn parts(text: &str, quoting: Quoting) -> Parts<'_> {
    Parts { text, quoting, at: 0 }
}

/// An iterator over the parts of a text.
#[derive(Debug, Clone)]
pub struct Parts<'t> {
    text: &'t str,
    quoting: Quoting,
    at: usize,
}

impl Parts<'_> {
    fn is_special(&self, byte: u8) -> bool {
        match self.quoting {
            Quoting::Plain => matches!(byte, b'\\' | b'$' | b'`' | b'\'' | b'"' | b'<' | b'>'),
            Quoting::Double | Quoting::Document => matches!(byte, b'\\' | b'$' | b'`'),
        }
    }

    /// Text without a special meaning, at least one character of it.
    fn text(&mut self) -> Part {
        let start = self.at;
        let rest = self.text.as_bytes().get(start + 1..).unwrap_or_default();
        let length = rest.iter().position(|byte| self.is_special(*byte)).unwrap_or(rest.len());
        self.at = self.text.ceil_char_boundary(start + 1 + length);
        Part::Text(start..self.at)
    }

    fn enclosed(&mut self, opener: usize, (end, closed): Closed, closer: usize) -> Range<usize> {
        let start = self.at + opener;
        self.at = end;
        start..(end - if closed { closer } else { 0 }).max(start)
    }
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at..).is_some_and(|rest| rest.starts_with(b"\\\n")) {
            self.at += 2;
        }
        let at = self.at;
        let byte = *bytes.get(at)?;
        let next = bytes.get(at + 1).copied();
        let plain = self.quoting == Quoting::Plain;
        Some(match (byte, next) {
            (b'\\', Some(following)) => {
                let escapes = match self.quoting {
                    Quoting::Plain => true,
                    Quoting::Double => b"$\"\\`".contains(&following),
                    Quoting::Document => b"$\\`".contains(&following),
                };
                if !escapes {
                    self.at += 1;
                    return Some(Part::Text(at..self.at));
                }
                self.at = self.text.ceil_char_boundary(at + 2);
                Part::Escaped(at + 1..self.at)
            }
            (b'\'', _) if plain => {
                let closed = quote::single(bytes, at + 1);
                Part::Single(self.enclosed(1, closed, 1))
            }
            (b'"', _) if plain => {
                let closed = close(bytes, at + 1, Bracket::Double);
                Part::Double(self.enclosed(1, closed, 1))
            }
            (b'$', Some(b'\'')) if plain => {
                let closed = quote::ansi(bytes, at + 2);
                Part::Ansi(self.enclosed(2, closed, 1))
            }
            // `$"…"` is translated text; it is treated like `"…"`.
            (b'$', Some(b'"')) if plain => {
                let closed = close(bytes, at + 2, Bracket::Double);
                Part::Double(self.enclosed(2, closed, 1))
            }
            (b'`', _) => {
                let closed = close(bytes, at + 1, Bracket::Back);
                Part::Backquoted(self.enclosed(1, closed, 1))
            }
            (b'$', Some(b'(')) => match scan::substitution(bytes, at + 2) {
                (true, closed) => Part::Sum(self.enclosed(3, closed, 2)),
                (false, closed) => Part::Command(self.enclosed(2, closed, 1)),
            },
            (b'<' | b'>', Some(b'(')) if plain => {
                let closed = close(bytes, at + 2, Bracket::Commands);
                let inner = self.enclosed(2, closed, 1);
                if byte == b'<' { Part::Readable(inner) } else { Part::Writable(inner) }
            }
            (b'$', Some(b'{')) => {
                let closed = close(bytes, at + 2, Bracket::Parameter);
                Part::Parameter(self.enclosed(2, closed, 1))
            }
            (b'$', Some(following)) if is_name_start(following) => {
                let rest = bytes.get(at + 1..).unwrap_or_default();
                self.at = at + 1 + quote::name_length(rest);
                Part::Variable(at + 1..self.at)
            }
            (b'$', Some(following)) if following.is_ascii_digit() || b"@*#?$!-".contains(&following) => {
                self.at = at + 2;
                Part::Variable(at + 1..self.at)
            }
            _ => self.text(),
        })
    }
}
