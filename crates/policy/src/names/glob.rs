// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One component against one part of a pattern, byte by byte, without regard to ASCII case.
//!
//! As in the patterns of paths: `*`, `?`, `[…]`, and a backslash that makes the next of
//! `* ? [ ] { } = $ ~ \` ordinary. Nothing is compiled: nearly every question ends at a literal.

use crate::pattern::SPECIAL;

/// Whether a part stands for nothing but itself.
pub(super) fn is_literal(part: &[u8]) -> bool {
    !part.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// One step of a pattern, and how many bytes it takes.
enum One<'p> {
    Star,
    Any,
    Set { negated: bool, members: &'p [u8] },
    Byte(u8),
}

fn one(pattern: &[u8]) -> Option<(One<'_>, usize)> {
    let (&first, rest) = pattern.split_first()?;
    Some(match first {
        b'*' => (One::Star, 1),
        b'?' => (One::Any, 1),
        b'[' => {
            let negated = matches!(rest.first(), Some(b'!' | b'^'));
            let members = rest.get(usize::from(negated)..)?;
            match members.iter().position(|byte| *byte == b']') {
                // Patterns are checked when they are made; what is none stands for itself.
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
            Self::Star => false,
            Self::Any => true,
            Self::Byte(one) => one.eq_ignore_ascii_case(&byte),
            // What a set leaves out is left out in that case only: protecting more is the safe reading.
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

/// Whether `name` matches `part`. Only the last star is ever retried, so the time is at most the
/// product of the two lengths.
pub(super) fn matches(part: &[u8], name: &[u8]) -> bool {
    let (mut at, mut reached) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (part.get(at..).and_then(one), name.get(reached)) {
            (Some((One::Star, used)), _) => {
                at += used;
                retry = Some((at, reached));
                continue;
            }
            (Some((step, used)), Some(&byte)) if step.is(byte) => {
                at += used;
                reached += 1;
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        match retry {
            Some((after, from)) if from < name.len() => {
                retry = Some((after, from + 1));
                (at, reached) = (after, from + 1);
            }
            _ => return false,
        }
    }
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
