// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the matches with those of the crate `globset`.

use super::*;
use crate::pattern::PathPattern;
use globset::{GlobBuilder, GlobMatcher};
use proptest::prelude::*;
use proptest::sample::select;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The tokens of a relative pattern. `None` if it is invalid.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let tokens = PathPattern::new(text).ok()?.tokens();
    let replaced = tokens.iter().any(|token| matches!(token, Token::Home | Token::Variable(_)));
    (!replaced).then_some(tokens)
}

/// The same pattern in globset's syntax.
fn oracle(tokens: &[Token]) -> Option<GlobMatcher> {
    let mut parts = Vec::new();
    for part in tokens.split(|token| *token == Token::Separator) {
        let mut text: Vec<u8> = Vec::new();
        for token in part {
            match token {
                Token::Byte(byte) => {
                    if br"*?[]{}\!^-,".contains(byte) {
                        text.push(b'\\');
                    }
                    text.push(*byte);
                }
                Token::Star => text.push(b'*'),
                Token::DoubleStar => text.extend(b"**"),
                Token::AnyOne => text.push(b'?'),
                Token::Class(negated, members) => {
                    text.push(b'[');
                    let mut members = members.as_str();
                    if *negated {
                        text.push(b'!');
                        // A leading hyphen must stay first, or it would form a range.
                        if let Some(rest) = members.strip_prefix('-') {
                            text.push(b'-');
                            members = rest;
                            // Otherwise the separator and the hyphen would form a range.
                            if members.starts_with('-') {
                                return None;
                            }
                        }
                        // Without the separator, globset's negated set would match one.
                        text.push(b'/');
                    }
                    text.extend(members.as_bytes());
                    text.push(b']');
                }
                Token::Separator | Token::Home | Token::Variable(_) => return None,
            }
        }
        if !text.is_empty() && text != b"." {
            parts.push(String::from_utf8(text).ok()?);
        }
    }
    let text = parts.join("/");
    let glob = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build();
    Some(glob.unwrap_or_else(|error| panic!("{text}: {error}")).compile_matcher())
}

fn piece() -> impl Strategy<Value = String> {
    let members =
        prop::collection::vec(select(vec!["a", "b", "c", "z", "-", "-", ".", "é", "!", "^", "["]), 1..5);
    prop_oneof![
        6 => select(vec!["a", "b", "c", ".", "-", ",", "{", "}", "!", "^", "é", r"\*", r"\[", r"\?", r"\{", r"\\", "\n"])
            .prop_map(str::to_owned),
        4 => select(vec!["*", "?", "?*", "*?"]).prop_map(str::to_owned),
        2 => (any::<bool>(), members).prop_map(|(negated, members)| {
            format!("[{}{}]", if negated { "!" } else { "" }, members.concat())
        }),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    let name = prop::collection::vec(piece(), 0..5).prop_map(|pieces| pieces.concat());
    let part = prop_oneof![3 => name, 2 => Just("**".to_owned())];
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.join("/"))
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::collection::vec(select(b"aabbcz.-,{}!^*[?\\\n\xc3\xa9\xff".to_vec()), 0..5);
    prop::collection::vec(name, 1..6).prop_map(|names| names.join(&b'/'))
}

/// A path that a pattern is likely to match: its own text without the special characters.
fn near(pattern: &str, filler: &str) -> Vec<u8> {
    let mut near = String::new();
    for part in pattern.split('/') {
        let part = part.replace("**", filler).replace(['*', '?'], "b").replace(['\\', '[', ']'], "");
        near = if near.is_empty() { part } else { format!("{near}/{part}") };
    }
    near.into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn it_matches_what_globset_matches(
        pattern in pattern(),
        paths in prop::collection::vec(path(), 8),
        filler in select(vec!["a", "a/b", "", "a/a/c"]),
    ) {
        let Some(tokens) = tokens(&pattern) else { return Ok(()) };
        let Some(oracle) = oracle(&tokens) else { return Ok(()) };
        let glob = Glob::new(&tokens);
        if glob.parts.is_empty() {
            return Ok(());
        }
        for path in paths.into_iter().chain([near(&pattern, filler)]) {
            let expected = oracle.is_match(OsStr::from_bytes(&path));
            prop_assert_eq!(glob.matches(&path), expected, "{} {}", pattern, path.escape_ascii());
        }
    }
}

#[test]
fn many_stars_take_no_time() {
    // Retrying every star, and not only the last one, would take far too long.
    for (pattern, path) in [("*a", "a"), ("**/a/", "a/")] {
        let glob = Glob::new(&tokens(&format!("{}b", pattern.repeat(40))).unwrap());
        assert!(!glob.matches(path.repeat(2000).as_bytes()), "{pattern}");
    }
}

#[test]
fn a_set_takes_bytes_of_characters() {
    let matches = |pattern: &str, path: &[u8]| Glob::new(&tokens(pattern).unwrap()).matches(path);
    assert!(matches("[é]", b"\xc3") && matches("[é]", b"\xa9") && !matches("[é]", "é".as_bytes()));
    assert!(matches("[!é]", b"\xff") && !matches("[!é]", b"\xa9"));
    // In globset's syntax such a range was reversed, because a separator had to be inserted.
    assert!(matches("[!--.]", b"a") && !matches("[!--.]", b"-") && !matches("[!--.]", b"."));
}

#[test]
fn the_names_that_make_a_match_are_counted_from_its_end() {
    for (pattern, path, decisive) in [
        ("*.key", "x.key", 1),
        ("a/*.key", "a/x.key", 2),
        ("*/b/key", "a/b/key", 3),
        ("**/key", "a/b/key", 1),
        ("**/key", "key", 1),
        ("**/b/key", "a/b/key", 2),
        ("**/b/**/key", "b/a/b/c/key", 3),
        ("a/**/key", "a/b/c/key", 4),
        ("**", "a/b", 2),
        ("**/b/**", "a/b/c", 2),
    ] {
        let glob = Glob::new(&tokens(pattern).unwrap());
        assert!(glob.matches(path.as_bytes()), "{pattern} {path}");
        assert_eq!(glob.decisive(path.as_bytes()), decisive, "{pattern} {path}");
    }
}
