// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matches and translates shell patterns of one name.

use crate::text;

/// Names for sets of characters, and the characters that matter in file names.
const CLASSES: [(&str, &str); 6] = [
    ("[:xdigit:]", "0-9a-fA-F"),
    ("[:digit:]", "0-9"),
    ("[:lower:]", "a-z"),
    ("[:upper:]", "A-Z"),
    ("[:alpha:]", "a-zA-Z"),
    ("[:alnum:]", "0-9a-zA-Z"),
];

/// A pattern in which the named sets are expanded.
pub(crate) fn with_sets(text: &str) -> String {
    let mut text = text.to_owned();
    if text.contains("[:") {
        for (class, members) in CLASSES {
            text = text.replace(class, members);
        }
    }
    text
}

/// A shell pattern of one name in the form of Palisade's patterns. With `widen`, a set that can't be expressed becomes
/// any character.
pub(crate) fn said(written: &str, widen: bool) -> Option<String> {
    let mut out = String::new();
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            // Two stars would match directories, too.
            '*' if out.ends_with('*') => {}
            '*' | '?' => out.push(c),
            '[' => match set(rest) {
                Some((members, after)) if sayable(members) => {
                    out.push_str(&format!(
                        "[{}]",
                        members.replacen('^', "!", usize::from(members.starts_with('^')))
                    ));
                    rest = after;
                }
                Some((_members, after)) if widen => {
                    out.push('?');
                    rest = after;
                }
                Some(_) => return None,
                None => out.push_str("\\["),
            },
            c => out.push_str(&text::exact(&c.to_string())),
        }
    }
    Some(out)
}

/// The text between the brackets, and the text after them.
fn set(rest: &str) -> Option<(&str, &str)> {
    let skipped = usize::from(rest.starts_with(['!', '^']));
    // A bracket in the first position is a member of the set.
    let from = skipped + usize::from(rest[skipped..].starts_with(']'));
    let end = from + rest[from..].find(']')?;
    Some((&rest[..end], &rest[end + 1..]))
}

fn sayable(members: &str) -> bool {
    let plain = members.trim_start_matches(['!', '^']);
    !plain.is_empty()
        && plain.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
}

/// One step of a shell pattern.
enum Step<'p> {
    Star,
    Any,
    Set(&'p str),
    Plain(char),
}

fn steps(pattern: &str) -> Vec<Step<'_>> {
    let mut out = Vec::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        out.push(match (c, set(rest)) {
            ('*', _) => Step::Star,
            ('?', _) => Step::Any,
            ('[', Some((members, after))) => {
                rest = after;
                Step::Set(members)
            }
            _ => Step::Plain(c),
        });
    }
    out
}

/// Whether a name matches a shell pattern. A set that isn't understood matches any character.
///
/// Only the last star is ever tried again, so every pattern ends quickly.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (steps, name): (Vec<Step<'_>>, Vec<char>) = (steps(pattern), name.chars().collect());
    let fits = |step: &Step<'_>, c: char| match step {
        Step::Star => false,
        Step::Any => true,
        Step::Set(members) => !sayable(members) || is_member(members, c),
        Step::Plain(plain) => *plain == c,
    };
    let (mut at, mut of) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while of < name.len() {
        if let Some(Step::Star) = steps.get(at) {
            again = Some((at + 1, of));
            at += 1;
        } else if steps.get(at).is_some_and(|step| fits(step, name[of])) {
            at += 1;
            of += 1;
        } else if let Some((after, from)) = again {
            again = Some((after, from + 1));
            at = after;
            of = from + 1;
        } else {
            return false;
        }
    }
    steps[at..].iter().all(|step| matches!(step, Step::Star))
}

fn is_member(members: &str, c: char) -> bool {
    let (negated, members) = match members.strip_prefix(['!', '^']) {
        Some(members) => (true, members),
        None => (false, members),
    };
    let characters: Vec<char> = members.chars().collect();
    let mut at = 0;
    let mut found = false;
    while at < characters.len() {
        if characters.get(at + 1) == Some(&'-') && at + 2 < characters.len() {
            found |= (characters[at]..=characters[at + 2]).contains(&c);
            at += 3;
        } else {
            found |= characters[at] == c;
            at += 1;
        }
    }
    found != negated
}

/// Whether two patterns may match the same name, judged by their plain beginnings and ends.
pub(crate) fn ends_agree(a: &str, b: &str) -> bool {
    const SIGNS: [char; 4] = ['*', '?', '[', ']'];
    let beginning = |text: &str| text[..text.find(SIGNS).unwrap_or(text.len())].to_owned();
    let end = |text: &str| text[text.rfind(SIGNS).map_or(0, |at| at + 1)..].to_owned();
    let (first, second) = (beginning(a), beginning(b));
    let (last, other) = (end(a), end(b));
    (first.starts_with(&second) || second.starts_with(&first))
        && (last.ends_with(&other) || other.ends_with(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("a*b", "aXXb", true),
            ("a*b", "ab", true),
            ("a*b", "abc", false),
            ("?", "ä", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[x", "[x", true),
            ("python3*", "python3.11", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        assert!(!matches(&"*a".repeat(500), &"a".repeat(499)), "and soon");
        assert!(ends_agree("*-gcc*", "python*") && !ends_agree("*-gcc", "*-ld") && !ends_agree("a*", "b*"));
        assert_eq!(said(&with_sets("x[[:digit:]]**"), false).as_deref(), Some("x[0-9]*"));
    }
}
