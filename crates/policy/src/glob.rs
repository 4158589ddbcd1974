// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matching a path, byte for byte, against what follows the plain beginning of a pattern.
//!
//! The path is compared name by name, so nothing but `**` ever matches a separator. The tests compare
//! each decision with the crate `globset`, which was used here before: it compiles every pattern with a
//! regular expression engine, whose build took longer than that of this whole crate.

use crate::pattern::Token;

/// A compiled pattern: the names of a path, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    parts: Vec<Part>,
}

/// What one name of a path, or any number of them, must be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`: any number of names; at the end of a pattern at least one.
    Names,
    /// One name.
    Name(Vec<Piece>),
}

/// A piece of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    /// `?`: any byte.
    AnyByte,
    /// `*`: any bytes.
    AnyBytes,
    /// `[…]`: a byte of a set.
    Set(Box<ByteSet>),
}

/// A set of bytes, one bit for each.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    /// The bytes of these characters. A set holds bytes, not characters: `[é]` matches either of the two bytes
    /// of `é`. A range of characters goes from the last byte of its lower end to the first of its upper end.
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

/// The characters and ranges between the brackets of a set; none if one runs backwards.
///
/// A hyphen stands for itself at the beginning and at the end; after a range it moves that range's end.
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
    /// Compiles the pieces of a pattern. Empty names and `.` are left out, as in a plain path.
    pub(crate) fn new(tokens: &[Token]) -> Self {
        let mut parts = Vec::new();
        for part in tokens.split(|token| *token == Token::Separator) {
            match part {
                [] | [Token::Byte(b'.')] => {}
                // Several in a row say what one says.
                [Token::DoubleStar] if parts.last() == Some(&Part::Names) => {}
                [Token::DoubleStar] => parts.push(Part::Names),
                name => parts.push(Part::Name(name.iter().filter_map(Piece::new).collect())),
            }
        }
        Self { parts }
    }

    /// How many names a match has; none if any number.
    pub(crate) fn depth(&self) -> Option<usize> {
        (!self.parts.contains(&Part::Names)).then_some(self.parts.len())
    }

    /// How many names at the end of a match make it one. Before them, where the pattern begins with `**`, there may be any
    /// others.
    pub(crate) fn decisive(&self, path: &[u8]) -> usize {
        let all = path.split(|byte| *byte == b'/').count();
        let Some((Part::Names, rest)) = self.parts.split_first() else { return all };
        let rest = Self { parts: rest.to_vec() };
        let ends = (0..path.len()).rev().filter(|at| *at == 0 || path[at - 1] == b'/').map(|at| &path[at..]);
        ends.enumerate().find(|(_, end)| rest.matches(end)).map_or(all, |(before, _)| before + 1)
    }

    /// Whether a path, relative to where the pattern begins, matches.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        // Names are compared from the left. The last `**` may have taken too few names: then it takes one
        // more, and what follows it is compared again. Those before it never need to.
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

/// The first name of a path, and what follows its separator if there is one.
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
                // Checked when the pattern was made.
                Self::Set(Box::new(ByteSet::new(*negated, &ranges(members).unwrap_or_default())))
            }
            // `**` stands alone between separators; the others were replaced before.
            Token::DoubleStar | Token::Separator | Token::Home | Token::Variable(_) => return None,
        })
    }
}

/// Whether a name matches, with the same way back as above: to the last `*`.
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
