// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses in what programs print, as links that terminals let people click (OSC 8).
//!
//! Source of the sequence: E. Koblinger, "Hyperlinks in terminal emulators". An address that may go on in the next read
//! stays as it is.

use memchr::memmem;

const SCHEMES: [&[u8]; 4] = [b"https", b"http", b"file", b"ftp"];

/// Passes bytes on with their addresses made links. The bytes begin outside of sequences; where one may carry a text of
/// its own (ESC and `]`, `P`, `_`, `^`, `X`), all stay as they are.
pub fn link(bytes: &[u8], to: &mut dyn FnMut(&[u8])) {
    let Some(first) = memmem::find(bytes, b"://") else { return to(bytes) };
    let texts = memchr::memchr_iter(0x1b, bytes)
        .any(|at| matches!(bytes.get(at + 1), None | Some(b']' | b'P' | b'_' | b'^' | b'X')));
    if texts {
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

/// The address around `://` at a place, if it is a known kind's and ends here.
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
