// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns addresses and paths in programs' output into links that the terminal lets the user click (OSC 8).
//!
//! Source of the sequence: E. Koblinger, "Hyperlinks in terminal emulators". A word that may continue in the next read
//! stays as it is. A path becomes `file://HOST/PATH`, with `#LINE` if a line number follows it, and only if the file
//! exists: each word costs one system call, and at most [`LOOKS`] words of one read are looked up.

use core::fmt::Write;
use memchr::memmem;

const SCHEMES: [&[u8]; 4] = [b"https", b"http", b"file", b"ftp"];

/// At most this many words of one read are looked up.
pub const LOOKS: usize = 64;
/// Longer paths aren't looked up, in bytes.
const LONGEST: usize = 240;

/// What is needed to recognise paths.
pub struct Paths<'a> {
    /// The base of relative paths.
    pub directory: &'a str,
    /// The home directory, for `~/`.
    pub home: &'a str,
    /// This machine's name.
    pub host: &'a str,
    /// Returns whether a file exists.
    pub is_there: &'a dyn Fn(&str) -> bool,
    /// Memory for building a link: two texts with enough capacity, so that nothing is allocated.
    pub memory: (&'a mut String, &'a mut String),
}

impl core::fmt::Debug for Paths<'_> {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("Paths")
    }
}

/// Whether a file exists. The lookup triggers no mount and asks no server.
#[must_use]
pub fn is_there(path: &str) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    statx(CWD, path, AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).is_ok()
}

/// As [`link`], and also for paths of existing files.
pub fn link_all(bytes: &[u8], paths: &mut Paths<'_>, to: &mut dyn FnMut(&[u8])) {
    if memchr::memchr2(b'/', b':', bytes).is_none() || has_texts(bytes) {
        return to(bytes);
    }
    let (mut done, mut at, mut looks) = (0, 0, 0);
    while at < bytes.len() {
        if bytes.get(at) == Some(&0x1b) {
            let Some(behind) = behind_sequence(bytes, at) else { break };
            at = behind;
            continue;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| stops(*byte)) else { break };
        let word = rest.get(..length).unwrap_or_default();
        let begun = at;
        at += length.max(1);
        if length < 2 {
            continue;
        }
        let found = match memmem::find(word, b"://") {
            Some(within) => address(bytes, begun + within).map(|(from, end)| {
                paths.memory.1.clear();
                (from, end)
            }),
            None if looks < LOOKS => path(word).and_then(|(length, line)| {
                let name = core::str::from_utf8(word.get(..length)?).ok()?;
                looks += 1;
                let end = line.map_or(length, |(_, end)| end);
                paths.find(name, line.map(|(line, _)| line)).then_some((begun, begun + end))
            }),
            None => None,
        };
        let Some((from, end)) = found.filter(|(from, end)| *from >= done && end > from) else { continue };
        let text = bytes.get(from..end).unwrap_or_default();
        to(bytes.get(done..from).unwrap_or_default());
        to(b"\x1b]8;;");
        to(if paths.memory.1.is_empty() { text } else { paths.memory.1.as_bytes() });
        to(b"\x1b\\");
        to(text);
        to(b"\x1b]8;;\x1b\\");
        done = end;
        at = at.max(end);
    }
    to(bytes.get(done..).unwrap_or_default());
}

/// Whether a byte ends a word.
fn stops(byte: u8) -> bool {
    byte <= 0x20 || byte == 0x7f || b"\"'<>`{}|\\^()[]=,;".contains(&byte)
}

/// The index behind the sequence that begins at `at`, if the sequence has ended.
fn behind_sequence(bytes: &[u8], at: usize) -> Option<usize> {
    let is_control = bytes.get(at + 1)? == &b'[';
    let from = if is_control { at + 2 } else { at + 1 };
    let ends = |byte: &u8| if is_control { (0x40..0x7f).contains(byte) } else { *byte >= 0x30 };
    bytes.get(from..)?.iter().position(ends).map(|length| from + length + 1)
}

/// How many bytes of a word may be a path. Also the line number after it, with the index where the number ends.
fn path(word: &[u8]) -> Option<(usize, Option<(u32, usize)>)> {
    let colon = memchr::memchr(b':', word).unwrap_or(word.len());
    let mut name = word.get(..colon)?;
    let number = |from: usize| {
        let digits = word.get(from..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = core::str::from_utf8(word.get(from..from + digits)?).ok()?;
        Some((text.parse::<u32>().ok()?, from + digits))
    };
    let line = number(colon + 1);
    let column = line.filter(|(_, end)| word.get(*end) == Some(&b':')).and_then(|(_, end)| number(end + 1));
    let line = line.map(|(line, end)| (line, column.map_or(end, |(_, end)| end)));
    if colon == word.len() {
        while name.last().is_some_and(|byte| b".!?*".contains(byte)) {
            name = name.get(..name.len() - 1)?;
        }
    }
    let looks_like_one = name.contains(&b'/') || (line.is_some() && name.contains(&b'.'));
    let named = name.iter().any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80);
    (looks_like_one && named && name.len() <= LONGEST).then_some((name.len(), line))
}

impl Paths<'_> {
    /// Builds the link to a file in memory, if the file exists.
    fn find(&mut self, name: &str, line: Option<u32>) -> bool {
        let (whole, link) = (&mut *self.memory.0, &mut *self.memory.1);
        whole.clear();
        link.clear();
        let (base, rest) = match name.strip_prefix("~/") {
            _ if name.starts_with('/') => ("", name),
            Some(rest) => (self.home, rest),
            None => (self.directory, name),
        };
        let is_relative = !name.starts_with('/');
        let is_known = !is_relative || base.starts_with('/');
        let base = base.strip_suffix('/').unwrap_or(base);
        if !is_known || base.len() + rest.len() > LONGEST {
            return false;
        }
        whole.push_str(base);
        if is_relative {
            whole.push('/');
        }
        whole.push_str(rest);
        if !(self.is_there)(whole) {
            return false;
        }
        let most = "file://".len() + self.host.len() + 3 * whole.len() + 12;
        if most > link.capacity() {
            return false;
        }
        write_address(self.host, whole, link);
        if let Some(line) = line {
            let _written = write!(link, "#{line}");
        }
        true
    }
}

/// Appends a path's address for terminals. It takes up to three times the path's length, plus what is before the path.
pub(crate) fn write_address(host: &str, path: &str, into: &mut String) {
    into.push_str("file://");
    into.push_str(host);
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~+@,:".contains(&byte) {
            into.push(char::from(byte));
        } else {
            let _written = write!(into, "%{byte:02X}");
        }
    }
}

/// Whether a sequence in these bytes may contain text of its own, or may continue after the bytes.
fn has_texts(bytes: &[u8]) -> bool {
    memchr::memchr_iter(0x1b, bytes)
        .any(|at| matches!(bytes.get(at + 1), None | Some(b']' | b'P' | b'_' | b'^' | b'X')))
}

/// Passes bytes on and makes their addresses links. The bytes must begin outside of sequences. If a sequence may
/// contain text of its own (ESC and `]`, `P`, `_`, `^`, `X`), all bytes stay unchanged.
pub fn link(bytes: &[u8], to: &mut dyn FnMut(&[u8])) {
    let Some(first) = memmem::find(bytes, b"://") else { return to(bytes) };
    if has_texts(bytes) {
        return to(bytes);
    }
    let mut done = 0;
    let mut next = Some(first);
    while let Some(at) = next {
        if let Some((from, end)) = address(bytes, at).filter(|(from, _)| *from >= done) {
            let address = bytes.get(from..end).unwrap_or_default();
            to(bytes.get(done..from).unwrap_or_default());
            to(b"\x1b]8;;");
            to(address);
            to(b"\x1b\\");
            to(address);
            to(b"\x1b]8;;\x1b\\");
            done = end;
        }
        let from = at + 3;
        next = bytes.get(from..).and_then(|rest| memmem::find(rest, b"://")).map(|found| from + found);
    }
    to(bytes.get(done..).unwrap_or_default());
}

/// The address around `://` at this place, if its scheme is known and the address ends within these bytes.
fn address(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let before = bytes.get(..at)?;
    let scheme = SCHEMES.iter().find(|scheme| before.ends_with(scheme))?;
    let from = at - scheme.len();
    if before.get(..from)?.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80) {
        return None;
    }
    let rest = bytes.get(at..)?;
    let stops = |byte: &u8| *byte <= 0x20 || *byte >= 0x7f || b"\"'<>`{}|\\^".contains(byte);
    let mut end = at + rest.iter().position(stops)?;
    while end > at + 3 && bytes.get(end - 1).is_some_and(|byte| b".,;:!?)]*".contains(byte)) {
        end -= 1;
    }
    (end > at + 3).then_some((from, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(text: &str) -> String {
        let mut said = Vec::new();
        link(text.as_bytes(), &mut |bytes| said.extend_from_slice(bytes));
        String::from_utf8_lossy(&said).replace("\x1b]8;;", "[").replace("\x1b\\", "]")
    }

    #[test]
    fn addresses_are_linked_and_nothing_else() {
        for (text, wanted) in [
            ("see https://a.example/x?y=1.\n", "see [https://a.example/x?y=1]https://a.example/x?y=1[].\n"),
            ("(http://a) http://b \n", "([http://a]http://a[]) [http://b]http://b[] \n"),
            ("xhttp://a b\n", "xhttp://a b\n"),
            ("https:// b\n", "https:// b\n"),
            ("may go on: https://a", "may go on: https://a"),
            ("foo://bar \n", "foo://bar \n"),
            ("no address at all", "no address at all"),
        ] {
            assert_eq!(linked(text), wanted);
        }
        let titled = "\x1b]0; http://a \x07 http://b \n";
        let mut said = Vec::new();
        link(titled.as_bytes(), &mut |bytes| said.extend_from_slice(bytes));
        assert_eq!(said, titled.as_bytes());
    }

    fn with_paths(text: &str, to: &mut dyn FnMut(&[u8])) {
        let (mut whole, mut link) = (String::with_capacity(1024), String::with_capacity(1024));
        let mut paths = Paths {
            directory: "/home/me/src",
            home: "/home/me",
            host: "here",
            is_there: &|path| !path.contains("missing"),
            memory: (&mut whole, &mut link),
        };
        link_all(text.as_bytes(), &mut paths, to);
        assert_eq!((whole.capacity(), link.capacity()), (1024, 1024));
    }

    #[test]
    fn paths_of_files_that_are_there_are_linked() {
        for (text, wanted) in [
            ("see /etc/fstab.\n", "see [file://here/etc/fstab]/etc/fstab[].\n"),
            ("a/b.rs:12:5: error\n", "[file://here/home/me/src/a/b.rs#12]a/b.rs:12:5[]: error\n"),
            ("lib.rs:7:let x = 1\n", "[file://here/home/me/src/lib.rs#7]lib.rs:7[]:let x = 1\n"),
            (
                "~/it's a/\u{e9} \n",
                "[file://here/home/me/it]~/it[]'s [file://here/home/me/src/a/%C3%A9]a/\u{e9}[] \n",
            ),
            (
                "--> x/y:3 (z/w)\n",
                "--> [file://here/home/me/src/x/y#3]x/y:3[] ([file://here/home/me/src/z/w]z/w[])\n",
            ),
            (
                "\u{1b}[1;34ma/b\u{1b}[0m/c \n",
                "\u{1b}[1;34m[file://here/home/me/src/a/b]a/b[]\u{1b}[0m[file://here/c]/c[] \n",
            ),
            ("http://a/b and a/b \n", "[http://a/b]http://a/b[] and [file://here/home/me/src/a/b]a/b[] \n"),
            (
                "a/missing b/missing:3 lib.rs / // ... 1:2 word\n",
                "a/missing b/missing:3 lib.rs / // ... 1:2 word\n",
            ),
            ("may go on: a/b", "may go on: a/b"),
            ("\u{1b}]0;a/b\u{7} c/d \n", "\u{1b}]0;a/b\u{7} c/d \n"),
        ] {
            let mut said = Vec::new();
            with_paths(text, &mut |bytes| said.extend_from_slice(bytes));
            let said = String::from_utf8_lossy(&said).replace("\x1b]8;;", "[").replace("\x1b\\", "]");
            assert_eq!(said, wanted, "{text:?}");
        }
    }

    #[test]
    fn one_read_looks_up_so_many_words_only() {
        let looked = core::cell::Cell::new(0);
        let (mut whole, mut link) = (String::with_capacity(1024), String::with_capacity(1024));
        let is_there = |_: &str| {
            looked.set(looked.get() + 1);
            false
        };
        let memory = (&mut whole, &mut link);
        let mut paths = Paths { directory: "/", home: "/", host: "", is_there: &is_there, memory };
        link_all("a/b ".repeat(1000).as_bytes(), &mut paths, &mut |_| ());
        assert_eq!(looked.get(), LOOKS);
    }

    #[test]
    fn without_the_links_to_paths_the_bytes_are_the_same() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let input = format!("a/b {} c/d ", String::from_utf8_lossy(bytes));
            let mut pieces: Vec<Vec<u8>> = Vec::new();
            with_paths(&input, &mut |bytes| pieces.push(bytes.to_vec()));
            let mut plain = Vec::new();
            let mut pieces = pieces.into_iter();
            while let Some(piece) = pieces.next() {
                if piece == b"\x1b]8;;" {
                    let (_address, _end) = (pieces.next(), pieces.next());
                } else if piece != b"\x1b]8;;\x1b\\" {
                    plain.extend(piece);
                }
            }
            assert_eq!(plain, input.as_bytes());
        });
    }

    #[test]
    fn without_the_links_the_bytes_are_the_same() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let mut input = b" http://".to_vec();
            input.extend_from_slice(bytes);
            let mut pieces: Vec<Vec<u8>> = Vec::new();
            link(&input, &mut |bytes| pieces.push(bytes.to_vec()));
            let mut plain = Vec::new();
            let mut pieces = pieces.into_iter();
            while let Some(piece) = pieces.next() {
                if piece == b"\x1b]8;;" {
                    let (_address, _end) = (pieces.next(), pieces.next());
                } else if piece != b"\x1b]8;;\x1b\\" {
                    plain.extend(piece);
                }
            }
            assert_eq!(plain, input);
        });
    }
}
