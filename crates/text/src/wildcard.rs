// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wildcards: the search that all grammars of patterns share. What stands for one byte is each grammar's own.

/// Whether all of `text` matches `pattern`.
///
/// - A `*` takes any number of bytes, each of which `takes` must allow.
/// - `step` gets the rest of the pattern, which begins with something else, and the next byte of the text. It returns how
///   many bytes of the pattern stand for this byte, or nothing if they don't.
///
/// Only the last `*` is tried again, so the time is at most the product of the two lengths.
pub fn wildcard(
    pattern: &[u8],
    text: &[u8],
    step: impl Fn(&[u8], u8) -> Option<usize>,
    takes: impl Fn(u8) -> bool,
) -> bool {
    let (mut at, mut reached) = (0, 0);
    // Behind the last star, and the byte that it takes next.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = pattern.get(at..).unwrap_or_default();
        if rest.first() == Some(&b'*') {
            at += 1;
            star = Some((at, reached));
            continue;
        }
        match text.get(reached) {
            None if rest.is_empty() => return true,
            Some(byte) => {
                if let Some(used) = step(rest, *byte) {
                    at += used;
                    reached += 1;
                    continue;
                }
            }
            None => {}
        }
        match star {
            Some((behind, next)) if text.get(next).is_some_and(|byte| takes(*byte)) => {
                star = Some((behind, next + 1));
                (at, reached) = (behind, next + 1);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(rest: &[u8], byte: u8) -> Option<usize> {
        match rest {
            [b'\\', next, ..] => (*next == byte).then_some(2),
            [first, ..] => (*first == byte).then_some(1),
            [] => None,
        }
    }

    #[test]
    fn stars_take_what_they_may() {
        let any =
            |pattern: &str, text: &str| wildcard(pattern.as_bytes(), text.as_bytes(), literal, |_| true);
        let part = |pattern: &str, text: &str| {
            wildcard(pattern.as_bytes(), text.as_bytes(), literal, |byte| byte != b'/')
        };
        for (pattern, text, all, one) in [
            ("", "", true, true),
            ("", "a", false, false),
            ("*", "", true, true),
            ("*", "a/b", true, false),
            ("a*/c", "ab/c", true, true),
            ("a*c", "a/c", true, false),
            ("a**c", "abc", true, true),
            ("a*b*c", "aXbXc", true, true),
            ("a*b*c", "aXbX", false, false),
            ("*ab", "aab", true, true),
            (r"\*", "*", true, true),
            (r"\*", "a", false, false),
        ] {
            assert_eq!((any(pattern, text), part(pattern, text)), (all, one), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let (pattern, text) = ("*a".repeat(120), "a".repeat(254) + "b");
        assert!(!wildcard(pattern.as_bytes(), text.as_bytes(), literal, |_| true));
    }
}
