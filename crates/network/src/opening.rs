// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recognizes a client's protocol by its first bytes.

use palisade_policy::network::Name;

use crate::hello::{self, Hello};

/// The longest first line that is waited for. hyper's parser gets a longer one, and refuses it.
const LONGEST_LINE: usize = 8 * 1024;
/// The first bytes of an HTTP/2 client without negotiation (RFC 9113, 3.4).
const HTTP2: &[u8] = b"PRI * HTTP/2";
/// The first bytes with which a proxy states its client (the PROXY protocol, versions 1 and 2). The data behind them is
/// for a server that interprets them, so it can't be judged by its look.
const PROXIED: [&[u8]; 2] = [b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"];
/// The first byte of a TLS handshake.
pub(crate) const HANDSHAKE: u8 = 0x16;
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

/// What to do with a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Not decided before there are this many bytes.
    More(usize),
    /// TLS for the right name, or a protocol that carries no name: pass it on unchanged.
    Pass,
    /// HTTP/1: its requests must be checked.
    Http,
    /// It is refused.
    Refused(String),
}

/// Judges a client's first bytes, on a connection to `name` at `port`.
pub(crate) fn judge(bytes: &[u8], name: &Name, port: u16) -> Opening {
    let refused = |why: &str| Opening::Refused(why.to_owned());
    let Some(first) = bytes.first() else { return Opening::More(1) };
    if *first == HANDSHAKE && port != 80 {
        match bytes.get(1) {
            None => return Opening::More(2),
            Some(3) => return tls(bytes, name),
            Some(_) => {}
        }
    }
    if port == 443 {
        return refused("port 443 is for TLS, but the client sends something else");
    }
    for begins in PROXIED.into_iter().chain([HTTP2]) {
        if bytes.starts_with(begins) {
            return refused(match begins {
                HTTP2 => "HTTP/2 without TLS can't be checked",
                _ => "only a proxy may send the PROXY protocol",
            });
        }
        if begins.starts_with(bytes) {
            return Opening::More(bytes.len() + 1);
        }
    }
    match request(bytes) {
        Request::Yes => Opening::Http,
        Request::No if port == 80 => refused("port 80 is for HTTP/1, but the client sends something else"),
        Request::No => Opening::Pass,
        Request::More => Opening::More(bytes.len() + 1),
    }
}

fn tls(bytes: &[u8], name: &Name) -> Opening {
    match hello::read(bytes) {
        Hello::More(wanted) => Opening::More(wanted),
        Hello::Complete(Some(server)) if server.parse().is_ok_and(|server: Name| server == *name) => {
            Opening::Pass
        }
        Hello::Complete(Some(server)) => {
            Opening::Refused(format!("the connection is to {name}, but the TLS handshake is for {server:?}"))
        }
        Hello::Complete(None) => Opening::Refused(format!("the TLS handshake to {name} has no server name")),
        Hello::Bad(why) => Opening::Refused(why.to_owned()),
    }
}

enum Request {
    Yes,
    No,
    More,
}

/// Whether bytes begin an HTTP/1 request: a known method with something behind it, or a word in a line that contains
/// `HTTP/`. Other protocols begin with words, too (`EHLO`, `NICK`, `AUTH`).
///
/// The line is read as the most lenient server reads it, so that no server sees a request where this function sees
/// none. Such a server accepts empty lines and blanks in front, any blank between two words, and any word as a method.
/// Python's `http.server` does all of that. No server accepts other control characters in a request, so a line with one
/// of them belongs to another protocol.
fn request(bytes: &[u8]) -> Request {
    let begin = bytes.iter().position(|byte| !is_blank(*byte) && *byte != b'\n');
    let Some(line) = begin.and_then(|begin| bytes.get(begin..)) else {
        return if bytes.len() < LONGEST_LINE { Request::More } else { Request::Yes };
    };
    let (line, ended) = match line.iter().position(|byte| *byte == b'\n') {
        Some(end) => (line.get(..end).unwrap_or_default(), true),
        None => (line, false),
    };
    let word = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
    let (method, rest) = line.split_at(word);
    if method.iter().any(u8::is_ascii_control) {
        return Request::No;
    }
    let goes_on = rest.iter().any(|byte| !is_blank(*byte));
    let known = METHODS.contains(&method) && goes_on;
    // A method alone in its line is a command of another protocol.
    let says_so = goes_on && rest.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"));
    if known || says_so || line.len() > LONGEST_LINE {
        return Request::Yes;
    }
    if ended { Request::No } else { Request::More }
}

/// Whether a lenient server treats a byte as space within a line: the bytes of C's `isspace`, and of Python's
/// `str.isspace`, which reads the line as Latin-1.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t' | 0x0b | 0x0c | b'\r' | 0x1c..=0x1f | b' ' | 0x85 | 0xa0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::tests::{hello, hello_with, records};

    fn at(bytes: &[u8], port: u16) -> Opening {
        judge(bytes, &"example.com".parse().unwrap(), port)
    }

    fn refused(bytes: &[u8], port: u16) {
        assert!(
            matches!(at(bytes, port), Opening::Refused(_)),
            "{:?} at {port}",
            String::from_utf8_lossy(bytes)
        );
    }

    #[test]
    fn tls_has_to_be_for_the_name() {
        for name in ["example.com", "EXAMPLE.com", "example.com."] {
            assert_eq!(at(&hello(name), 443), Opening::Pass, "{name}");
            assert_eq!(at(&hello(name), 8443), Opening::Pass, "{name}");
        }
        for name in [
            "evil.example",
            "xexample.com",
            "example.com.evil.org",
            "example.com..",
            "",
            "example.com\0",
            ".example.com",
        ] {
            refused(&hello(name), 443);
            refused(&hello(name), 5432);
        }
        refused(&hello_with(&[], 100), 443);
        refused(&hello("example.com"), 80);
        refused(&records(&[2, 0, 0, 0], 100), 8443);
    }

    #[test]
    fn ports_of_their_own() {
        refused(b"GET / HTTP/1.1\r\n", 443);
        refused(b"SSH-2.0-x\r\n", 443);
        refused(b"\x16\x02", 443);
        refused(b"SSH-2.0-x\r\n", 80);
        refused(b"EHLO x\r\n", 80);
        refused(b"\0", 80);
        assert_eq!(at(b"GET / HTTP/1.1\r\n", 80), Opening::Http);
        assert_eq!(at(b"", 80), Opening::More(1));
    }

    #[test]
    fn http_is_known_on_any_port_and_others_are_not_taken_for_it() {
        for http in [
            "GET / ",
            "\r\n\r\nPOST /x HTTP/1.1",
            "\nPURGE / HTTP/1.1\r\n",
            "FOO x http/1.0\r\n",
            "CONNECT evil.example:443 HTTP/1.1\r\n",
            "POST\t/ HTTP/1.1\r\n",
            "FOO\x0b/ HTTP/1.1\r\n",
            "GET/ x HTTP/1.1\r\n",
            "\"GET / HTTP/1.1\r\n",
            "G\u{c9}T / HTTP/1.1\r\n",
            "GET\r/ ",
        ] {
            assert_eq!(at(http.as_bytes(), 8080), Opening::Http, "{http:?}");
        }
        // Blanks in front of the line, and between its words.
        for blank in [9, 0x0b, 0x0c, b'\r', 0x1c, 0x1d, 0x1e, 0x1f, b' ', 0x85, 0xa0] {
            for method in ["GET", "ANY"] {
                let line = |front: &[u8], between: u8| {
                    [front, method.as_bytes(), &[between], b"/ HTTP/1.1\r\nHost: x\r\n\r\n"].concat()
                };
                for port in [80, 8080, 1] {
                    for http in [
                        line(&[blank], b' '),
                        line(&[blank, b'\r', b'\n', blank, blank], b' '),
                        line(&[], blank),
                        line(&[blank], blank),
                    ] {
                        assert_eq!(at(&http, port), Opening::Http, "{:?}", String::from_utf8_lossy(&http));
                    }
                }
                refused(&line(&[blank], b' '), 443);
            }
        }
        for other in [
            "SSH-2.0-OpenSSH_9.6\r\n",
            "EHLO me.example\r\n",
            "NICK someone\r\n",
            "get key\r\n",
            "PING\r\n",
            "*1\r\n$4\r\nPING\r\n",
            "\0\0\0\x08\x04\x02\x16\x2f",
            "a1 LOGIN x y\r\n",
            "\x10\x0e\0\x04MQTT",
            "\0\0\0\x4d\0\x03\0\0user\0me\0database\0it\0\0",
            "POST\r\n",
            "HEAD \r\n",
            " PING\r\n",
            "<?xml version='1.0'?><stream>\r\n",
            "{\"method\": \"GET\"}\n",
        ] {
            assert_eq!(at(other.as_bytes(), 8080), Opening::Pass, "{other:?}");
        }
        for more in ["G", "FOO / HT", "\r\n", "PRI * HT", "PROX", "\r\n\r\n\0", " ", "\t\r\n ", "GET ", "\"G"]
        {
            assert_eq!(at(more.as_bytes(), 8080), Opening::More(more.len() + 1), "{more:?}");
        }
        refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 8080);
        refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 80);
        refused(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", 8080);
        refused(b"\r\n\r\n\0\r\nQUIT\n\x21", 8080);
    }

    #[test]
    fn any_bytes_are_decided_alike_however_they_come() {
        bolero::check!().with_type::<(Vec<u8>, u16)>().for_each(|(bytes, port)| {
            let whole = at(bytes, *port);
            for count in 0..bytes.len() {
                match at(&bytes[..count], *port) {
                    Opening::More(wanted) => assert!(wanted > count),
                    decided => {
                        assert_eq!(
                            std::mem::discriminant(&decided),
                            std::mem::discriminant(&whole),
                            "after {count} of {bytes:?}"
                        );
                        break;
                    }
                }
            }
        });
    }
}
