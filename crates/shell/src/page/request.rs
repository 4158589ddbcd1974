// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked for: as little of HTTP/1.1 (RFC 9112) as a browser needs for a page.

/// What a path names, behind the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The page.
    Page,
    /// Its style.
    Style,
    /// The numbers for Prometheus.
    Metrics,
    /// All facts as JSON.
    Facts,
}

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) wanted: Wanted,
    /// Only the head of the answer (`HEAD`).
    pub(super) head_only: bool,
}

/// Why there is no answer, as its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It isn't HTTP.
    Malformed,
    /// It is for somebody else: another host's name leads here.
    Misdirected,
    /// There is nothing of that name, or it isn't known who asks.
    NotFound,
    /// It would change something.
    Method,
}

impl Refusal {
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::Misdirected => "421 Misdirected Request",
            Self::NotFound => "404 Not Found",
            Self::Method => "405 Method Not Allowed",
        }
    }
}

/// Understands the head of a request to the server at `port`, whose secret is `token`.
pub(super) fn understand(head: &[u8], port: u16, token: &str) -> Result<Request, Refusal> {
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
    // A page elsewhere can have its name lead to this machine; it can't have its name be this machine's.
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Refusal::Malformed) };
    if !["127.0.0.1", "localhost"].iter().any(|name| host == format!("{name}:{port}")) {
        return Err(Refusal::Misdirected);
    }
    // Nothing is said to who doesn't know the secret.
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let (secret, name) =
        path.strip_prefix('/').and_then(|path| path.split_once('/')).ok_or(Refusal::NotFound)?;
    if !same(secret, token) {
        return Err(Refusal::NotFound);
    }
    let wanted = match name {
        "" => Wanted::Page,
        "style.css" => Wanted::Style,
        "metrics" => Wanted::Metrics,
        "facts.json" => Wanted::Facts,
        _ => return Err(Refusal::NotFound),
    };
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Refusal::Method),
    };
    Ok(Request { wanted, head_only })
}

/// Whether a secret is the right one, in a time that doesn't tell how much of it is.
fn same(given: &str, token: &str) -> bool {
    given.len() == token.len()
        && given.bytes().zip(token.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(head: &str) -> Result<Request, Refusal> {
        understand(head.as_bytes(), 8080, "secret")
    }

    #[test]
    fn who_knows_the_secret_is_answered() {
        let get = |wanted| Ok(Request { wanted, head_only: false });
        for (path, answer) in [
            ("/secret/", get(Wanted::Page)),
            ("/secret/?x=1", get(Wanted::Page)),
            ("/secret/style.css", get(Wanted::Style)),
            ("/secret/metrics", get(Wanted::Metrics)),
            ("/secret/facts.json", get(Wanted::Facts)),
            ("/secret", Err(Refusal::NotFound)),
            ("/secrex/", Err(Refusal::NotFound)),
            ("/secre/", Err(Refusal::NotFound)),
            ("//secret/", Err(Refusal::NotFound)),
            ("/secret/../secret/", Err(Refusal::NotFound)),
            ("/", Err(Refusal::NotFound)),
            ("http://127.0.0.1:8080/secret/", Err(Refusal::NotFound)),
        ] {
            assert_eq!(ask(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n")), answer, "{path}");
        }
        let head = ask("HEAD /secret/ HTTP/1.1\r\nhost: localhost:8080\r\n");
        assert_eq!(head, Ok(Request { wanted: Wanted::Page, head_only: true }));
    }

    #[test]
    fn others_are_not() {
        for (head, refusal) in [
            ("POST /secret/ HTTP/1.1\r\nHost: localhost:8080\r\n", Refusal::Method),
            ("POST /wrong/ HTTP/1.1\r\nHost: localhost:8080\r\n", Refusal::NotFound),
            ("GET /secret/ HTTP/1.1\r\nHost: evil.example:8080\r\n", Refusal::Misdirected),
            ("GET /secret/ HTTP/1.1\r\nHost: localhost\r\n", Refusal::Misdirected),
            ("GET /secret/ HTTP/1.1\r\n", Refusal::Malformed),
            ("GET /secret/ HTTP/1.1\r\nHost: localhost:8080\r\nHost: evil\r\n", Refusal::Malformed),
            ("GET /secret/ HTTP/2\r\nHost: localhost:8080\r\n", Refusal::Malformed),
            ("GET /secret/\r\n", Refusal::Malformed),
            ("", Refusal::Malformed),
        ] {
            assert_eq!(ask(head), Err(refusal), "{head}");
        }
    }

    #[test]
    fn any_bytes_are_understood_or_not() {
        bolero::check!().for_each(|bytes: &[u8]| {
            assert!(understand(bytes, 8080, "a secret that nobody guesses").is_err());
        });
    }
}
