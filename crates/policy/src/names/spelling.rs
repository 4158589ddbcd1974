// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts a path to its plain spelling: a file system may open an ASCII name by other characters.
//!
//! The case folding of Linux (`fs/unicode`, NFDICF: ext4, f2fs, tmpfs), HFS+ and APFS ignores invisible characters
//! and maps two others to ASCII letters: `.gi\u{200c}t` opens `.git`, and `.vſcode` opens `.vscode`. git refuses the
//! first for this reason (CVE-2014-9390). vfat and exfat ignore trailing dots: `.vscode.` opens `.vscode`.

/// Paths longer than the kernel's `PATH_MAX` arise only from deep relative paths.
const USUAL: usize = 4096;

/// Calls `then` with the path in its plain spelling. The number of components stays the same.
pub(super) fn folded<T>(path: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    if is_plain(path) {
        return then(path);
    }
    let mut small = [0_u8; USUAL];
    let mut large = Vec::new();
    let out: &mut [u8] = if path.len() <= USUAL {
        &mut small
    } else {
        large.resize(path.len(), 0);
        &mut large
    };
    let mut length = 0;
    for (nth, component) in path.split(|byte| *byte == b'/').enumerate() {
        if nth > 0 {
            length = push(out, length, b"/");
        }
        let start = length;
        length = fold(component, out, length);
        while length > start && out.get(length - 1) == Some(&b'.') {
            length -= 1;
        }
        // A name of only invisible characters and dots stays a name.
        if length == start {
            length = push(out, length, component);
        }
    }
    then(out.get(..length).unwrap_or(path))
}

/// Whether no file system opens the path by another spelling.
pub(super) fn is_plain(path: &[u8]) -> bool {
    let dotted = path.ends_with(b".") || path.windows(2).any(|pair| pair == b"./");
    !dotted && (path.is_ascii() || !path.iter().any(|byte| may_begin(*byte)))
}

/// A name without its trailing dots, which some file systems ignore.
pub(super) const fn without_dots(mut name: &[u8]) -> &[u8] {
    while let [rest @ .., b'.'] = name {
        name = rest;
    }
    name
}

/// Whether a character that is handled here may begin with this byte.
const fn may_begin(byte: u8) -> bool {
    matches!(byte, 0xc2 | 0xc5 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf0 | 0xf3)
}

fn push(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    // The result is never longer than the path, so there is room.
    match out.get_mut(at..at + bytes.len()) {
        Some(room) => {
            room.copy_from_slice(bytes);
            at + bytes.len()
        }
        None => at,
    }
}

fn fold(component: &[u8], out: &mut [u8], mut at: usize) -> usize {
    for chunk in component.utf8_chunks() {
        let mut bytes = [0; 4];
        for character in chunk.valid().chars() {
            match character {
                // The long s, and the kelvin sign.
                '\u{17f}' => at = push(out, at, b"s"),
                '\u{212a}' => at = push(out, at, b"k"),
                unseen if is_ignored(unseen) => {}
                other => at = push(out, at, other.encode_utf8(&mut bytes).as_bytes()),
            }
        }
        at = push(out, at, chunk.invalid());
    }
    at
}

/// `Default_Ignorable_Code_Point` of the Unicode Character Database, version 15.
const fn is_ignored(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(path: &str) -> String {
        folded(path.as_bytes(), |path| String::from_utf8_lossy(path).into_owned())
    }

    #[test]
    fn what_file_systems_overlook_is_overlooked() {
        assert_eq!(plain("/a/.gi\u{200c}t/hoo\u{212a}\u{17f}"), "/a/.git/hooks");
        assert_eq!(plain("/\u{feff}a/\u{200c}/\u{e9}"), "/a/\u{200c}/\u{e9}");
        assert_eq!(plain("/a./.git./hooks..."), "/a/.git/hooks");
        assert_eq!(plain("/..../.\u{200c}/.a"), "/..../.\u{200c}/.a");
        let long = format!("/{}\u{200c}", "x".repeat(USUAL));
        assert_eq!(plain(&long).len(), USUAL + 1);
    }

    #[test]
    fn every_character_of_interest_begins_with_a_byte_of_interest() {
        for character in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let mut bytes = [0; 4];
            let first = character.encode_utf8(&mut bytes).as_bytes()[0];
            let matters = is_ignored(character) || matches!(character, '\u{17f}' | '\u{212a}');
            assert!(!matters || may_begin(first), "{character:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        folded(b"/a\xff/\xe2\x80\x8cb", |path| assert_eq!(path, b"/a\xff/b"));
    }
}
