// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matches one component against one part of a pattern, byte by byte, ignoring ASCII case.
//!
//! The syntax is that of path patterns: `*`, `?`, `[…]`, and a backslash that makes the next of
//! `* ? [ ] { } = $ ~ \` ordinary. No pattern is compiled: nearly every comparison ends at a literal.

use crate::pattern::SPECIAL;

/// Whether a part matches only its own text.
pub(super) fn is_literal(part: &[u8]) -> bool {
    !part.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// One step of a pattern.
enum One<'p> {
    Any,
    Set { negated: bool, members: &'p [u8] },
    Byte(u8),
}

fn one(pattern: &[u8]) -> Option<(One<'_>, usize)> {
    let (&first, rest) = pattern.split_first()?;
    Some(match first {
        b'?' => (One::Any, 1),
        b'[' => {
            let negated = matches!(rest.first(), Some(b'!' | b'^'));
            let members = rest.get(usize::from(negated)..)?;
            match members.iter().position(|byte| *byte == b']') {
                // Patterns are checked when they are made. An invalid set stands for itself.
                None | Some(0) => (One::Byte(b'['), 1),
                Some(end) => {
                    let members = members.get(..end)?;
                    (One::Set { negated, members }, 2 + usize::from(negated) + end)
                }
            }
        }
        b'\\' => match rest.first() {
            Some(&next) if SPECIAL.contains(&next) => (One::Byte(next), 2),
            _ => (One::Byte(b'\\'), 1),
        },
        other => (One::Byte(other), 1),
    })
}

impl One<'_> {
    fn is(&self, byte: u8) -> bool {
        match self {
            Self::Any => true,
            Self::Byte(one) => one.eq_ignore_ascii_case(&byte),
            // A negated set excludes only the stated case: protecting more names is the safe choice.
            Self::Set { negated: true, members } => !holds(members, byte),
            Self::Set { negated: false, members } => {
                holds(members, byte.to_ascii_lowercase()) || holds(members, byte.to_ascii_uppercase())
            }
        }
    }
}

fn holds(members: &[u8], byte: u8) -> bool {
    let mut rest = members;
    while let Some((&low, after)) = rest.split_first() {
        let (high, next) = match after {
            [b'-', high, next @ ..] => (*high, next),
            _ => (low, after),
        };
        if (low..=high).contains(&byte) {
            return true;
        }
        rest = next;
    }
    false
}

/// Whether `name` matches `part`.
pub(super) fn matches(part: &[u8], name: &[u8]) -> bool {
    let step = |rest: &[u8], byte| one(rest).filter(|(one, _used)| one.is(byte)).map(|(_one, used)| used);
    palisade_text::wildcard(part, name, step, |_byte| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_match_as_in_patterns_of_paths() {
        for (part, name, expected) in [
            ("*", "", true),
            ("*.lock", "config.LOCK", true),
            ("*.lock", "config.lock2", false),
            ("a*b*c", "aXbXc", true),
            ("a*b*c", "aXbX", false),
            ("a**c", "ac", true),
            ("?x", "ax", true),
            ("?x", "x", false),
            ("[a-c]x", "Bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[!b]x", "cx", true),
            ("[!b]x", "bx", false),
            ("[!B]x", "bx", true),
            ("[-a]", "-", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            (r"a\b", r"a\b", true),
            (r"\\", r"\", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(part.as_bytes(), name.as_bytes()), expected, "{part} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let (part, name) = ("*a".repeat(120), "a".repeat(254) + "b");
        assert!(!matches(part.as_bytes(), name.as_bytes()));
    }
}
