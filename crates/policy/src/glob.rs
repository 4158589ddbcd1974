// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matches a path, byte for byte, against the glob part of a pattern.
//!
//! The path is compared component by component, so only `**` ever matches a separator. The tests compare each result
//! with the crate `globset`, which this module replaced: `globset` compiles every pattern with a regular expression
//! engine, which took longer to build than this whole crate.

use crate::pattern::Token;

/// A compiled glob: one part for each component of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    parts: Vec<Part>,
}

/// What one component, or any number of components, must be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`: any number of components; at the end of a pattern at least one.
    Names,
    /// One component.
    Name(Vec<Piece>),
}

/// A piece of a component's pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    /// `?`: any byte.
    AnyByte,
    /// `*`: any bytes.
    AnyBytes,
    /// `[…]`: one byte of a set.
    Set(Box<ByteSet>),
}

/// A set of bytes, one bit for each.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    /// The set of these characters' bytes. A set contains bytes, not characters: `[é]` matches either of the two
    /// bytes of `é`. A range of characters goes from the last byte of its lower end to the first byte of its upper
    /// end.
    fn new(negated: bool, ranges: &[(char, char)]) -> Self {
        let mut set = Self([0; 4]);
        let (mut low_buffer, mut high_buffer) = ([0; 4], [0; 4]);
        for (low, high) in ranges {
            let lows = low.encode_utf8(&mut low_buffer).as_bytes();
            let highs = high.encode_utf8(&mut high_buffer).as_bytes();
            lows.iter().chain(highs).for_each(|byte| set.insert(*byte));
            if let (true, Some(low), Some(high)) = (low != high, lows.last(), highs.first()) {
                (*low..=*high).for_each(|byte| set.insert(byte));
            }
        }
        if negated {
            set.0 = set.0.map(|word| !word);
        }
        set
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

/// The characters and ranges between the brackets of a set. `None` if a range is reversed.
///
/// A hyphen at the beginning or at the end stands for itself. After a range it moves the end of that range.
pub(crate) fn ranges(members: &str) -> Option<Vec<(char, char)>> {
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut in_range = false;
    for character in members.chars() {
        match ranges.last_mut() {
            Some((low, high)) if in_range => {
                if character < *low {
                    return None;
                }
                *high = character;
                in_range = false;
            }
            Some(_) if character == '-' => in_range = true,
            _ => ranges.push((character, character)),
        }
    }
    if in_range {
        ranges.push(('-', '-'));
    }
    Some(ranges)
}

impl Glob {
    /// Compiles the tokens of a pattern. Leaves out empty components and `.`, as in a plain path.
    pub(crate) fn new(tokens: &[Token]) -> Self {
        let mut parts = Vec::new();
        for part in tokens.split(|token| *token == Token::Separator) {
            match part {
                [] | [Token::Byte(b'.')] => {}
                // Several `**` in a row mean the same as one.
                [Token::DoubleStar] if parts.last() == Some(&Part::Names) => {}
                [Token::DoubleStar] => parts.push(Part::Names),
                name => parts.push(Part::Name(name.iter().filter_map(Piece::new).collect())),
            }
        }
        Self { parts }
    }

    /// How many components a match has. `None`: any number.
    pub(crate) fn depth(&self) -> Option<usize> {
        (!self.parts.contains(&Part::Names)).then_some(self.parts.len())
    }

    /// How many components at the end of a matching path decide that it matches. If the pattern begins with `**`, any
    /// others may precede them.
    pub(crate) fn decisive(&self, path: &[u8]) -> usize {
        let all = path.split(|byte| *byte == b'/').count();
        let Some((Part::Names, rest)) = self.parts.split_first() else { return all };
        let rest = Self { parts: rest.to_vec() };
        let ends = (0..path.len()).rev().filter(|at| *at == 0 || path[at - 1] == b'/').map(|at| &path[at..]);
        ends.enumerate().find(|(_, end)| rest.matches(end)).map_or(all, |(before, _)| before + 1)
    }

    /// Whether a path relative to the base matches.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        // Components are compared from the left. After a mismatch, the last `**` takes one more component, and the
        // part behind it is compared again. Earlier `**` never need to be retried.
        let mut rest = Some(path);
        let mut at = 0;
        let mut again: Option<(usize, &[u8])> = None;
        loop {
            match (self.parts.get(at), rest) {
                (None, None) => return true,
                (Some(Part::Names), Some(names)) => {
                    at += 1;
                    if at == self.parts.len() {
                        return true;
                    }
                    again = Some((at, names));
                    continue;
                }
                (Some(Part::Name(pieces)), Some(names)) => {
                    let (name, after) = first_name(names);
                    if name_matches(pieces, name) {
                        at += 1;
                        rest = after;
                        continue;
                    }
                }
                (None, Some(_)) | (Some(_), None) => {}
            }
            let Some((part, names)) = again else { return false };
            let (_taken, Some(after)) = first_name(names) else { return false };
            again = Some((part, after));
            (at, rest) = (part, Some(after));
        }
    }
}

/// The first component of a path, and the rest behind its separator, if there is one.
fn first_name(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|byte| *byte == b'/') {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    }
}

impl Piece {
    fn new(token: &Token) -> Option<Self> {
        Some(match token {
            Token::Byte(byte) => Self::Byte(*byte),
            Token::AnyOne => Self::AnyByte,
            Token::Star => Self::AnyBytes,
            Token::Class(negated, members) => {
                // The range was checked when the pattern was made.
                Self::Set(Box::new(ByteSet::new(*negated, &ranges(members).unwrap_or_default())))
            }
            // `**` stands alone between separators; the other tokens were replaced before.
            Token::DoubleStar | Token::Separator | Token::Home | Token::Variable(_) => return None,
        })
    }
}

/// Whether a component matches. Retries like `Glob::matches`, at the last `*`.
fn name_matches(pieces: &[Piece], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        let fits = match (pieces.get(at), name.get(place)) {
            (None, None) => return true,
            (Some(Piece::AnyBytes), _) => {
                at += 1;
                again = Some((at, place));
                continue;
            }
            (Some(Piece::Byte(wanted)), Some(byte)) => wanted == byte,
            (Some(Piece::AnyByte), Some(_)) => true,
            (Some(Piece::Set(set)), Some(byte)) => set.contains(*byte),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if fits {
            (at, place) = (at + 1, place + 1);
            continue;
        }
        match again {
            Some((piece, taken)) if taken < name.len() => {
                again = Some((piece, taken + 1));
                (at, place) = (piece, taken + 1);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests;
