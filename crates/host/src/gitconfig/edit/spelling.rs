// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the form of new lines.
//!
//! The readers of git's syntax differ, from each other and over time, in these points: lines that continue after a
//! backslash, quotes in the middle of a value, tabs (a blank until git 2.45), carriage returns (written so that they
//! were lost when read, CVE-2025-48384), `[a.b]`. Git writes none of them. Old lines may stay unchanged.

use std::collections::HashSet;

/// Finds the first line that `old` doesn't have and git wouldn't write.
///
/// # Errors
/// The line's number, from 1.
pub(super) fn judge(old: &[u8], new: &[u8]) -> Result<(), u32> {
    let known: HashSet<&[u8]> = old.split(|byte| *byte == b'\n').collect();
    // Git's programs handle a key before any section in different ways.
    let mut in_section = false;
    for (line, number) in new.split(|byte| *byte == b'\n').zip(1_u32..) {
        in_section |= line.trim_ascii_start().starts_with(b"[") || line.starts_with(b"\xef\xbb\xbf[");
        if !known.contains(line) && !is_plain(line, in_section) {
            return Err(number);
        }
    }
    Ok(())
}

/// An empty line, a comment, a header or `key = value`.
fn is_plain(line: &[u8], in_section: bool) -> bool {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    let line = &line[start..end];
    if line.iter().any(u8::is_ascii_control) {
        return false;
    }
    match line.first() {
        None => true,
        // A reader might treat the next line as a part of this comment.
        Some(b'#' | b';') => !line.ends_with(b"\\"),
        Some(b'[') => is_header(&line[1..]),
        Some(first) => in_section && first.is_ascii_alphabetic() && is_assignment(line),
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// `section]` or `section "subsection"]`.
fn is_header(rest: &[u8]) -> bool {
    let name = rest.iter().position(|byte| !is_name_byte(*byte)).unwrap_or(rest.len());
    if name == 0 {
        return false;
    }
    match &rest[name..] {
        b"]" => true,
        [b' ', b'"', subsection @ .., b'"', b']'] => is_escaped(subsection, b"\"\\"),
        _ => false,
    }
}

/// `key`, `key =`, `key = value` or `key = "value"`.
fn is_assignment(line: &[u8]) -> bool {
    let key = line.iter().position(|byte| !is_name_byte(*byte)).unwrap_or(line.len());
    match line[key..].trim_ascii_start() {
        [] => true,
        [b'=', value @ ..] => match value.trim_ascii_start() {
            [b'"', quoted @ .., b'"'] => is_escaped(quoted, b"\"\\nt"),
            value => !value.iter().any(|byte| matches!(byte, b'#' | b';')) && is_escaped(value, b"\"\\nt"),
        },
        _ => false,
    }
}

/// Whether quotes and backslashes are always escaped, and apart from them only `escapes` are escaped.
fn is_escaped(text: &[u8], escapes: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let fine = match byte {
            b'"' => false,
            b'\\' => bytes.next().is_some_and(|escaped| escapes.contains(escaped)),
            _ => true,
        };
        if !fine {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes() {
        let text = r#"# comment
[core]
	repositoryformatversion = 0
	bare

[branch "a/b\"c\\d"]
	description = "x;y # \"z\""
	description = two\nlines \\ and a \" quote
	merge = refs/heads/ä
	empty = 
[core] 
"#;
        assert_eq!(judge(b"", text.as_bytes()), Ok(()));
    }

    #[test]
    fn what_git_does_not_write() {
        for line in [
            "a = b \\",
            "a = b\\\\\\",
            "a = \"b\" c",
            "a = b \"c\"",
            "a = b # comment",
            "a = \"b",
            "a = \"",
            "a = b\tc",
            "a = b\r",
            "a = b\\q",
            "a = \\b",
            "a b",
            "a # comment",
            "1 = 2",
            "# comment \\",
            "[a.b]",
            "[a \"b\" ]",
            "[a  \"b\"]",
            "[a\t\"b\"]",
            "[a \"b\\c\"]",
            "[a \"b\"] c = d",
            "[a] c = d",
            "[a",
            "[]",
            "[a \"]",
            "\u{feff}[a]",
            "a = b\u{b}",
            "\r",
            "\u{7f}",
            "# \u{1b}[2J",
        ] {
            let text = format!("[s]\n{line}\n");
            assert_eq!(judge(b"", text.as_bytes()), Err(2), "{line:?}");
            assert_eq!(judge(line.as_bytes(), text.as_bytes()), Ok(()), "{line:?} was there");
        }
    }

    #[test]
    fn a_key_needs_a_section() {
        assert_eq!(judge(b"", b"# x\na = b\n[s]\n"), Err(2));
        assert_eq!(judge(b"\xef\xbb\xbf[s]\n", b"\xef\xbb\xbf[s]\na = b\n"), Ok(()));
    }
}
