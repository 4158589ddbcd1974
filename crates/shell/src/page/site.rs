// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page's server: it answers processes of this machine that know the secret in the page's address.

use super::{Facts, markup, metrics};
use palisade_http::{Response, Served, Server, Site};
use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Why the page can't be served.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The port isn't available.
    #[error("can't listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The port; 0 means any.
        port: u16,
        /// The cause.
        source: io::Error,
    },
    /// No secret could be made.
    #[error("can't make a secret for the page's address: {0}")]
    Secret(#[source] io::Error),
}

/// The page's server, listening.
#[derive(Debug)]
pub struct Page {
    server: Server,
    secret: Secret,
}

/// The content for clients that know the token.
#[derive(Debug)]
struct Secret {
    token: String,
    state: PathBuf,
}

/// What a path names, after the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    Page,
    Style,
    Metrics,
    Facts,
}

impl Page {
    /// Listens on the loopback device, on any port if `port` is 0. Each answer shows the present content of the state
    /// directory.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn open(port: u16, state: &Path) -> Result<Self, PageError> {
        let server = Server::open((Ipv4Addr::LOCALHOST, port).into())
            .map_err(|source| PageError::Listen { port, source })?;
        let mut random = [0_u8; 16];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut random))
            .map_err(PageError::Secret)?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { server, secret: Secret { token, state: state.to_owned() } })
    }

    /// The page's address, with the secret in it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.server.address(), self.secret.token)
    }

    /// Answers requests until the process ends.
    pub fn serve(self) -> ! {
        self.server.serve(self.secret)
    }
}

impl Site for Secret {
    type Thing = Thing;

    fn find(&self, path: &str) -> Option<Thing> {
        let (token, name) = path.strip_prefix('/')?.split_once('/')?;
        // A client that doesn't know the secret gets no content.
        if !same(token, &self.token) {
            return None;
        }
        match name {
            "" => Some(Thing::Page),
            "style.css" => Some(Thing::Style),
            "metrics" => Some(Thing::Metrics),
            "facts.json" => Some(Thing::Facts),
            _ => None,
        }
    }

    fn answer(&self, thing: Thing, served: &Served) -> Response {
        let facts = || Facts::read(&self.state);
        let (kind, text) = match thing {
            Thing::Page => ("text/html; charset=utf-8", markup::page(&facts())),
            Thing::Style => ("text/css; charset=utf-8", markup::STYLE.to_owned()),
            Thing::Metrics => {
                ("text/plain; version=0.0.4; charset=utf-8", metrics::prometheus(&facts(), Some(served)))
            }
            Thing::Facts => {
                ("application/json", serde_json::to_string_pretty(&facts()).unwrap_or_default() + "\n")
            }
        };
        Response { status: "200 OK", kind, text }
    }
}

/// Compares a secret in constant time: the time doesn't depend on how much of it is right.
fn same(given: &str, token: &str) -> bool {
    given.len() == token.len()
        && given.bytes().zip(token.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;

    #[test]
    fn who_knows_the_secret_finds_it() {
        let secret = Secret { token: "secret".to_owned(), state: PathBuf::new() };
        for (path, thing) in [
            ("/secret/", Some(Thing::Page)),
            ("/secret/style.css", Some(Thing::Style)),
            ("/secret/metrics", Some(Thing::Metrics)),
            ("/secret/facts.json", Some(Thing::Facts)),
            ("/secret/else", None),
            ("/secret", None),
            ("/secrex/", None),
            ("/secre/", None),
            ("//secret/", None),
            ("/secret/../secret/", None),
            ("/", None),
            ("", None),
            ("http://127.0.0.1:8080/secret/", None),
        ] {
            assert_eq!(secret.find(path), thing, "{path}");
        }
    }

    #[test]
    fn the_page_is_served_on_loopback_to_who_knows_the_secret() {
        let home = tempfile::tempdir().unwrap();
        let page = Page::open(0, home.path()).unwrap();
        let (address, token) = (page.server.address(), page.secret.token.clone());
        assert!(address.ip().is_loopback());
        assert_eq!((token.len(), page.url()), (32, format!("http://{address}/{token}/")));
        std::thread::spawn(|| page.serve());
        let get = |path: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", address.port());
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = get(&format!("/{token}/?x=1"));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("<!doctype html>"), "{answer}");
        assert!(get(&format!("/{token}/metrics")).contains("palisade_shell_lines_total 0\n"));
        assert!(get(&format!("/{token}/style.css")).contains("text/css"));
        assert!(get(&format!("/{token}/facts.json")).contains("\"entries\": 0"));
        assert!(get("/").starts_with("HTTP/1.1 404 "));
        let refused = get("/00000000000000000000000000000000/metrics");
        assert!(refused.starts_with("HTTP/1.1 404 ") && !refused.contains("palisade"), "{refused}");
        let metrics = get(&format!("/{token}/metrics"));
        assert!(metrics.contains("requests_total{answer=\"given\"} 5\n"), "{metrics}");
        assert!(metrics.contains("requests_total{answer=\"refused\"} 2\n"), "{metrics}");
    }
}
