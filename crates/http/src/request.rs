// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses requests: the small part of HTTP/1.1 (RFC 9112) that a browser needs for a page.

/// The default port, which clients leave out of `Host`.
const HTTP: u16 = 80;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    /// The path, without a `?` and the text after it.
    pub(crate) path: &'a str,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Send the content.
    Get,
    /// Send only the head of the answer.
    Head,
    /// Any other method, which could change something.
    Other,
}

/// Why a request is refused, as a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It isn't HTTP.
    Malformed,
    /// The request is for another host, whose name leads to this machine.
    Misdirected,
    /// Nothing has that path, or the client didn't prove who it is.
    NotFound,
    /// The method could change something.
    Method,
}

impl Refusal {
    /// The number and its name, as in an answer.
    #[must_use]
    pub const fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::Misdirected => "421 Misdirected Request",
            Self::NotFound => "404 Not Found",
            Self::Method => "405 Method Not Allowed",
        }
    }
}

/// Parses the head of a request to the server at `port`.
pub(crate) fn understand(head: &[u8], port: u16) -> Result<Request<'_>, Refusal> {
    let text = core::str::from_utf8(head).map_err(|_| Refusal::Malformed)?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Malformed);
    };
    let mut hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    // A page elsewhere can make its own name lead to this machine, but its name can't be one of these.
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Refusal::Malformed) };
    let is_own = |name: &&str| host == format!("{name}:{port}") || port == HTTP && host == *name;
    if !["127.0.0.1", "[::1]", "localhost"].iter().any(is_own) {
        return Err(Refusal::Misdirected);
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => Method::Other,
    };
    Ok(Request { method, path: target.split(['?', '#']).next().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_this_machine_is_understood() {
        for (head, method, path) in [
            ("GET /a/b HTTP/1.1\r\nHost: 127.0.0.1:8080", Method::Get, "/a/b"),
            ("GET /a/b?x=1 HTTP/1.1\r\nAccept: */*\r\nhost: localhost:8080\r\n", Method::Get, "/a/b"),
            ("HEAD / HTTP/1.0\r\nHost: [::1]:8080", Method::Head, "/"),
            ("POST /a#b HTTP/1.1\r\nHOST:localhost:8080", Method::Other, "/a"),
        ] {
            assert_eq!(understand(head.as_bytes(), 8080), Ok(Request { method, path }), "{head}");
        }
    }

    #[test]
    fn the_usual_port_need_not_be_named() {
        for host in ["localhost", "localhost:80", "127.0.0.1", "[::1]"] {
            let head = format!("GET / HTTP/1.1\r\nHost: {host}");
            assert!(understand(head.as_bytes(), 80).is_ok(), "{host}");
        }
        assert_eq!(understand(b"GET / HTTP/1.1\r\nHost: evil", 80), Err(Refusal::Misdirected));
    }

    #[test]
    fn others_are_not() {
        for (head, refusal) in [
            ("GET / HTTP/1.1\r\nHost: evil.example:8080\r\n", Refusal::Misdirected),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n", Refusal::Misdirected),
            ("GET / HTTP/1.1\r\nHost: localhost:8081\r\n", Refusal::Misdirected),
            ("GET / HTTP/1.1\r\n", Refusal::Malformed),
            ("GET / HTTP/1.1\r\nHost: localhost:8080\r\nHost: evil\r\n", Refusal::Malformed),
            ("GET / HTTP/2\r\nHost: localhost:8080\r\n", Refusal::Malformed),
            ("GET /\r\n", Refusal::Malformed),
            ("", Refusal::Malformed),
        ] {
            assert_eq!(understand(head.as_bytes(), 8080), Err(refusal), "{head}");
        }
    }

    #[test]
    fn any_bytes_are_understood_or_not() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Ok(request) = understand(bytes, 8080) {
                assert!(!request.path.contains([' ', '?', '#', '\r']));
            }
        });
    }
}
