// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matches `glob:` patterns: fnmatch(3) with `FNM_PATHNAME` and `FNM_PERIOD`, on bytes.
//!
//! `*`, `?` and `[…]` never match a slash, nor a period that begins a component. Matching uses bytes, as in the C
//! locale: a policy must not change its meaning when the daemon's locale changes, which fapolicyd's manual warns about.

/// Does the whole path match the pattern (without its `glob:`)?
#[must_use]
pub fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let mut patterns = components(pattern);
    let mut names = path.split(|&byte| byte == b'/');
    loop {
        match (patterns.next(), names.next()) {
            (None, None) => return true,
            (Some(pattern), Some(name)) if component_matches(pattern, name) => {}
            _ => return false,
        }
    }
}

/// The text before the first special character. Every match begins with it.
#[must_use]
pub fn literal_head(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

/// The last component with its slash, if it has no special character. Every match ends with it.
#[must_use]
pub fn literal_tail(pattern: &[u8]) -> Option<&[u8]> {
    let last = components(pattern).last()?;
    let start = (pattern.len() - last.len()).checked_sub(1)?;
    (!last.iter().any(|byte| b"*?[\\".contains(byte))).then(|| &pattern[start..])
}

/// Is the pattern one that C libraries interpret differently: with a backslash at its end, a `[` without its `]`, or a
/// collating element (`[[.` or `[[=`)?
#[must_use]
pub fn is_malformed(pattern: &[u8]) -> bool {
    let mut at = 0;
    while at < pattern.len() {
        at += match pattern[at] {
            b'\\' => 2,
            b'[' => match bracket(&pattern[at..], 0) {
                Some((_, length)) if !has_collating_element(&pattern[at + 1..at + length]) => length,
                _ => return true,
            },
            _ => 1,
        };
    }
    at > pattern.len()
}

fn has_collating_element(bracket: &[u8]) -> bool {
    bracket.windows(2).any(|pair| matches!(pair, b"[." | b"[="))
}

/// The pattern's components. An escaped slash separates as well, and its backslash is dropped. A slash in brackets
/// doesn't separate, and matches nothing.
fn components(pattern: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(pattern);
    std::iter::from_fn(move || {
        let whole = rest?;
        let mut at = 0;
        while at < whole.len() {
            match whole[at] {
                b'/' => {
                    rest = Some(&whole[at + 1..]);
                    return Some(&whole[..at]);
                }
                b'\\' if whole.get(at + 1) == Some(&b'/') => {
                    rest = Some(&whole[at + 2..]);
                    return Some(&whole[..at]);
                }
                b'\\' => at += 2,
                b'[' => at += bracket(&whole[at..], 0).map_or(1, |(_, length)| length),
                _ => at += 1,
            }
        }
        rest = None;
        Some(whole)
    })
}

fn component_matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && matches!(pattern.first(), Some(b'*' | b'?' | b'[')) {
        // A `[` without its `]` is an ordinary character, and isn't a period.
        return false;
    }
    // Where to continue after a mismatch: behind the last `*`, which then matches one byte more.
    let mut retry: Option<(usize, usize)> = None;
    let (mut at, mut byte) = (0, 0);
    loop {
        let stepped = match pattern.get(at) {
            None => (byte == name.len()).then_some(None),
            Some(b'*') => {
                retry = Some((at + 1, byte));
                at += 1;
                continue;
            }
            Some(_) => name.get(byte).and_then(|&found| one(&pattern[at..], found)).map(Some),
        };
        match stepped {
            Some(None) => return true,
            Some(Some(length)) => {
                at += length;
                byte += 1;
            }
            None => match retry {
                Some((pattern_at, name_at)) if name_at < name.len() => {
                    retry = Some((pattern_at, name_at + 1));
                    (at, byte) = (pattern_at, name_at + 1);
                }
                _ => return false,
            },
        }
    }
}

/// The length of the pattern's first element, if it matches the byte.
fn one(pattern: &[u8], found: u8) -> Option<usize> {
    match pattern[0] {
        b'?' => Some(1),
        b'\\' => (*pattern.get(1)? == found).then_some(2),
        b'[' => match bracket(pattern, found) {
            Some((true, length)) => Some(length),
            Some((false, _)) => None,
            None => (found == b'[').then_some(1),
        },
        literal => (literal == found).then_some(1),
    }
}

/// Is the byte in the bracket expression, and how long is the expression? `None` if no `]` closes it.
fn bracket(pattern: &[u8], found: u8) -> Option<(bool, usize)> {
    let mut at = 1;
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let first = at;
    let mut hit = false;
    loop {
        match *pattern.get(at)? {
            b']' if at > first => return Some((hit != negated, at + 1)),
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let name = &pattern[at + 2..];
                let length = name.windows(2).position(|pair| pair == b":]")?;
                hit |= class_has(&name[..length], found);
                at += length + 4;
            }
            _ => {
                let (low, next) = endpoint(pattern, at)?;
                at = next;
                let high = match (pattern.get(at), pattern.get(at + 1)) {
                    (Some(b'-'), Some(&after)) if after != b']' => {
                        let (high, next) = endpoint(pattern, at + 1)?;
                        at = next;
                        high
                    }
                    _ => low,
                };
                hit |= (low..=high).contains(&found);
            }
        }
    }
}

/// One end of a range, and the position behind it.
fn endpoint(pattern: &[u8], at: usize) -> Option<(u8, usize)> {
    match *pattern.get(at)? {
        b'\\' => Some((*pattern.get(at + 1)?, at + 2)),
        byte => Some((byte, at + 1)),
    }
}

fn class_has(class: &[u8], byte: u8) -> bool {
    match class {
        b"alpha" => byte.is_ascii_alphabetic(),
        b"digit" => byte.is_ascii_digit(),
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"upper" => byte.is_ascii_uppercase(),
        b"lower" => byte.is_ascii_lowercase(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"blank" => byte == b' ' || byte == b'\t',
        b"punct" => byte.is_ascii_punctuation(),
        b"print" => byte == b' ' || byte.is_ascii_graphic(),
        b"graph" => byte.is_ascii_graphic(),
        b"cntrl" => byte.is_ascii_control(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stay_within_their_component() {
        for (pattern, path, expected) in [
            ("/home/*/bin/tool", "/home/alice/bin/tool", true),
            ("/home/*/bin/tool", "/home/alice/project/bin/tool", false),
            ("/home/*/bin/tool", "/home/.admin/bin/tool", false),
            ("/home/.*/bin/tool", "/home/.admin/bin/tool", true),
            ("/a/?", "/a/b", true),
            ("/a/?", "/a/.", false),
            ("/a/?", "/a/", false),
            ("/a/*", "/a/", true),
            ("/a/*", "/a", false),
            ("/a*b*c", "/aXbXbc", true),
            ("/a*b*c", "/aXbXb", false),
            ("/n[0-9]", "/n7", true),
            ("/n[!0-9]", "/n7", false),
            ("/n[^0-9]", "/nx", true),
            ("/n[]x]", "/n]", true),
            ("/n[[:alpha:]_]", "/n_", true),
            ("/n[[:alpha:]_]", "/n1", false),
            ("/n[a-]", "/n-", true),
            ("/n[a", "/n[a", true),
            ("/n[a/b]", "/n[a/b]", false),
            ("/n[a/b]", "/na", true),
            (r"/n\*", "/n*", true),
            (r"/n\*", "/nx", false),
            (r"/n\", r"/n\", false),
            (r"/a\/b", "/a/b", true),
            ("/**", "/a/b", false),
            ("/[.]a", "/.a", false),
            ("/a[/]b", "/a/b", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), expected, "{pattern} against {path}");
        }
    }

    #[test]
    fn what_is_literal_is_found() {
        assert_eq!(literal_head(b"/home/*/x"), b"/home/");
        assert_eq!(literal_tail(b"/home/*/x"), Some(&b"/x"[..]));
        assert_eq!(literal_tail(b"/home/*"), None);
        assert_eq!(literal_tail(b"/a[b/x]"), None);
        assert_eq!(literal_tail(b"/a[b/x]/y"), Some(&b"/y"[..]));
        for (pattern, expected) in [
            (r"/a\", true),
            (r"/a\\", false),
            ("/[a", true),
            (r"/\[a", false),
            ("/[[.a.]]", true),
            ("/[]a/]x", false),
        ] {
            assert_eq!(is_malformed(pattern.as_bytes()), expected, "{pattern}");
        }
    }
}
