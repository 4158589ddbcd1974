// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows untrusted text within our own text.

use crate::is_hidden;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter, Write};
use std::os::unix::ffi::OsStrExt;

/// Untrusted text, shown in one line. A character for which [`is_hidden`] is true is written as in a Rust string (`\n`,
/// `\u{202e}`), and a byte that is not UTF-8 as `\xNN`. Width, alignment and precision of a format apply.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'t> {
    bytes: &'t [u8],
    lines: bool,
    most: usize,
}

/// Shows an untrusted text, name or path.
pub fn shown<T: AsRef<OsStr> + ?Sized>(text: &T) -> Shown<'_> {
    bytes(text.as_ref().as_bytes())
}

/// Types that can be shown: `path.shown()` replaces `path.display()`.
pub trait Show {
    /// As [`shown`] does it.
    fn shown(&self) -> Shown<'_>;
}

impl<T: AsRef<OsStr> + ?Sized> Show for T {
    fn shown(&self) -> Shown<'_> {
        shown(self)
    }
}

/// Shows untrusted bytes.
#[must_use]
pub const fn bytes(bytes: &[u8]) -> Shown<'_> {
    Shown { bytes, lines: false, most: usize::MAX }
}

/// An untrusted text as a string in one line.
#[must_use]
pub fn harmless(text: &str) -> String {
    shown(text).to_string()
}

/// An untrusted text that may have several lines, as a string.
#[must_use]
pub fn harmless_lines(text: &str) -> String {
    shown(text).lines().to_string()
}

impl Shown<'_> {
    /// The same with its line feeds and tabs kept. The author of the text can begin a line with anything, so it must
    /// not be printed among lines of our own.
    #[must_use]
    pub const fn lines(mut self) -> Self {
        self.lines = true;
        self
    }

    /// At most so many characters, escapes included. If something is left out, the last character is `…`.
    #[must_use]
    pub const fn at_most(mut self, characters: usize) -> Self {
        self.most = characters;
        self
    }

    fn write(&self, to: &mut impl Write) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            let mut rest = chunk.valid();
            while let Some(at) = rest.find(|c| is_hidden(c) && !(self.lines && matches!(c, '\n' | '\t'))) {
                let (plain, behind) = rest.split_at(at);
                to.write_str(plain)?;
                let mut characters = behind.chars();
                if let Some(hidden) = characters.next() {
                    write!(to, "{}", hidden.escape_default())?;
                }
                rest = characters.as_str();
            }
            to.write_str(rest)?;
            for byte in chunk.invalid() {
                write!(to, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.most == usize::MAX && f.width().is_none() && f.precision().is_none() {
            return self.write(f);
        }
        let mut limited = Limited { text: String::new(), room: self.most, held: None };
        // An error says that there is no more room.
        let whole = self.write(&mut limited).is_ok();
        if let Some(last) = limited.held {
            limited.text.push(if whole { last } else { '…' });
        }
        f.pad(&limited.text)
    }
}

/// Accepts a limited number of characters. It holds the last one back, because `…` may have to replace it.
struct Limited {
    text: String,
    room: usize,
    held: Option<char>,
}

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| self.write_char(character))
    }

    fn write_char(&mut self, character: char) -> fmt::Result {
        self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
        self.text.extend(self.held.replace(character));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HOSTILE: &str =
        "a\nb\r\x1b[2J\u{9b}1m\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041}\u{ad}\0\x7f\tz";

    #[test]
    fn one_line_without_anything_hidden() {
        assert_eq!(
            harmless(HOSTILE),
            r"a\nb\r\u{1b}[2J\u{9b}1m\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041}\u{ad}\u{0}\u{7f}\tz"
        );
        assert_eq!(harmless("naïve 日本 👍🏽 C:\\x"), "naïve 日本 👍🏽 C:\\x");
        // A joiner between emoji is seen.
        assert_eq!(harmless("👩\u{200d}💻"), r"👩\u{200d}💻");
        assert_eq!(harmless(&harmless(HOSTILE)), harmless(HOSTILE));
    }

    #[test]
    fn lines_are_kept_where_they_are_wanted() {
        assert_eq!(harmless_lines("a\n\tb\r\nc\u{2028}\u{85}\x0b"), "a\n\tb\\r\nc\\u{2028}\\u{85}\\u{b}");
    }

    #[test]
    fn what_is_no_text_is_told_apart() {
        assert_eq!(bytes(b"a\xff\xc3(\x1b\xe2\x80").to_string(), r"a\xff\xc3(\u{1b}\xe2\x80");
        assert_eq!(shown(OsStr::from_bytes(b"\xfe")).to_string(), r"\xfe");
        assert_eq!(shown(Path::new("/a\n")).to_string(), r"/a\n");
        assert_eq!(shown(&String::from("x")).to_string(), "x");
        // A surrogate and a control character of C1 by its byte alone.
        assert_eq!(bytes(b"\xed\xa0\x80\x9b").to_string(), r"\xed\xa0\x80\x9b");
    }

    #[test]
    fn so_much_at_most() {
        assert_eq!(shown("abcdef").at_most(6).to_string(), "abcdef");
        assert_eq!(shown("abcdefg").at_most(6).to_string(), "abcde…");
        assert_eq!(shown("日本語日本語").at_most(3).to_string(), "日本…");
        assert_eq!(shown("a\nbc").at_most(4).to_string(), "a\\n…");
        assert_eq!(shown("a\nb").lines().at_most(2).to_string(), "a…");
        assert_eq!(shown("abc").at_most(0).to_string(), "");
        assert_eq!(shown("").at_most(0).to_string(), "");
        assert_eq!(shown("abc").at_most(1).to_string(), "…");
    }

    #[test]
    fn columns() {
        assert_eq!(format!("[{:<6}]", shown("a\n")), "[a\\n   ]");
        assert_eq!(format!("[{:>4}]", shown("ä").at_most(3)), "[   ä]");
    }

    #[test]
    fn every_character_is_as_it_is_or_an_escape_of_its_own() {
        let mut seen = std::collections::HashSet::new();
        for character in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let shown = harmless(character.encode_utf8(&mut [0; 4]));
            assert_eq!(shown.chars().eq([character]), !is_hidden(character), "{character:?}");
            assert!(!shown.contains(is_hidden), "{character:?}");
            assert!(seen.insert(shown), "{character:?}");
        }
    }
}
