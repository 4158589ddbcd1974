// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is answered: processes of this machine that know the secret in the page's address.
//!
//! A thread a connection, so many at most, each with so much time. A connection whose request hasn't come yet gives way
//! to a new one when there are too many of them, the oldest first: idle connections keep nobody out.

use super::request::{self, Refusal, Wanted};
use super::{Facts, markup, metrics};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No request has a longer head, in bytes.
const HEAD: usize = 8 << 10;
/// So many connections may be idle at a time.
const IDLE: usize = 16;
/// So many threads there are at most: for idle connections, for those that are being closed, and for answers.
const AT_ONCE: usize = 4 * IDLE;
/// So long a request may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The port can't be had.
    #[error("can't listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// Which; 0: any.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// There is no secret.
    #[error("can't make a secret for the page's address: {0}")]
    Secret(#[source] io::Error),
}

/// How many requests there were.
#[derive(Debug, Default)]
pub struct Served {
    given: AtomicU64,
    refused: AtomicU64,
}

impl Served {
    /// Those that were answered, and those that were refused.
    #[must_use]
    pub fn numbers(&self) -> (u64, u64) {
        (self.given.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

/// The page, listening.
#[derive(Debug)]
pub struct Page {
    listener: TcpListener,
    desk: Arc<Desk>,
}

/// What each thread needs.
#[derive(Debug)]
struct Desk {
    port: u16,
    token: String,
    state: PathBuf,
    served: Served,
    busy: AtomicUsize,
    /// Connections whose request hasn't come yet, the oldest first.
    idle: Mutex<VecDeque<Arc<TcpStream>>>,
}

/// One is answered; dropped, one fewer is.
struct Seat(Arc<Desk>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Page {
    /// Listens on the loopback device; on any port if it is 0. What is said is what is in the state directory then.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn open(port: u16, state: &Path) -> Result<Self, PageError> {
        let failed = |source| PageError::Listen { port, source };
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let mut random = [0_u8; 16];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut random))
            .map_err(PageError::Secret)?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let desk = Desk {
            port,
            token,
            state: state.to_owned(),
            served: Served::default(),
            busy: AtomicUsize::new(0),
            idle: Mutex::default(),
        };
        Ok(Self { listener, desk: Arc::new(desk) })
    }

    /// The address, with the secret in it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.desk.port, self.desk.token)
    }

    /// Answers for as long as the process lives.
    pub fn serve(&self) {
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                // No descriptors, say: some are closed soon.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            // Those that were closed for newer ones end in a moment.
            while self.desk.busy.load(Ordering::Acquire) >= AT_ONCE {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.desk.busy.fetch_add(1, Ordering::AcqRel);
            let seat = Seat(Arc::clone(&self.desk));
            let stream = Arc::new(stream);
            self.desk.wait_for(&stream);
            // Where there is no thread for it the connection is closed.
            let attended = Arc::clone(&stream);
            let attend = move || seat.0.attend(&attended);
            if std::thread::Builder::new().name("page".to_owned()).spawn(attend).is_err() {
                self.desk.no_longer_idle(&stream);
            }
        }
    }
}

impl Desk {
    /// A request is to come here. The connection that has kept one waiting longest is closed if there are too many.
    fn wait_for(&self, stream: &Arc<TcpStream>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_back(Arc::clone(stream));
        if idle.len() > IDLE
            && let Some(oldest) = idle.pop_front()
        {
            // Its thread reads the end, and goes.
            let _closed_already = oldest.shutdown(Shutdown::Both);
        }
    }

    /// A request has come, or none will.
    fn no_longer_idle(&self, stream: &Arc<TcpStream>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// Answers one request. Who goes away in the middle isn't missed.
    fn attend(&self, stream: &Arc<TcpStream>) {
        let head = read_head(stream);
        self.no_longer_idle(stream);
        let Some(head) = head else {
            self.served.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let answer = self.answer(&head);
        let _gone = stream
            .set_write_timeout(Some(PATIENCE))
            .and_then(|()| {
                let mut stream: &TcpStream = stream;
                stream.write_all(&answer)
            })
            .and_then(|()| stream.shutdown(Shutdown::Write));
    }

    /// The whole answer to a request's head.
    fn answer(&self, head: &[u8]) -> Vec<u8> {
        match request::understand(head, self.port, &self.token) {
            Ok(request) => {
                self.served.given.fetch_add(1, Ordering::Relaxed);
                let (kind, body) = self.body(request.wanted);
                write_out("200 OK", kind, &body, request.head_only)
            }
            Err(refusal) => {
                self.served.refused.fetch_add(1, Ordering::Relaxed);
                let allow = if refusal == Refusal::Method { "\r\nAllow: GET, HEAD" } else { "" };
                let kind = format!("text/plain; charset=utf-8{allow}");
                write_out(refusal.status(), &kind, &format!("{}\n", refusal.status()), false)
            }
        }
    }

    fn body(&self, wanted: Wanted) -> (&'static str, String) {
        let facts = || Facts::read(&self.state);
        match wanted {
            Wanted::Page => ("text/html; charset=utf-8", markup::page(&facts())),
            Wanted::Style => ("text/css; charset=utf-8", markup::STYLE.to_owned()),
            Wanted::Metrics => (
                "text/plain; version=0.0.4; charset=utf-8",
                metrics::prometheus(&facts(), Some(&self.served)),
            ),
            Wanted::Facts => {
                ("application/json", serde_json::to_string_pretty(&facts()).unwrap_or_default() + "\n")
            }
        }
    }
}

/// A request's head, without the empty line at its end; `None` if none comes.
fn read_head(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::with_capacity(1024);
    let mut buffer = [0; 1024];
    loop {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        let count = match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        head.extend_from_slice(buffer.get(..count)?);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            head.truncate(end);
            return Some(head);
        }
        if head.len() > HEAD {
            return None;
        }
    }
}

fn write_out(status: &str, kind: &str, body: &str, head_only: bool) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if !head_only {
        answer.extend_from_slice(body.as_bytes());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(page: &Page, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", page.desk.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn page(state: &Path) -> &'static Page {
        let page: &'static Page = Box::leak(Box::new(Page::open(0, state).unwrap()));
        std::thread::spawn(|| page.serve());
        page
    }

    #[test]
    fn the_page_is_served_on_loopback_to_who_knows_the_secret() {
        let home = tempfile::tempdir().unwrap();
        let page = page(home.path());
        let (port, token) = (page.desk.port, &page.desk.token);
        assert!(page.listener.local_addr().unwrap().ip().is_loopback());
        assert_eq!((token.len(), page.url()), (32, format!("http://127.0.0.1:{port}/{token}/")));
        let get = |path: &str| ask(page, &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
        let answer = get(&format!("/{token}/"));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("<!doctype html>"), "{answer}");
        for header in ["default-src 'none'", "no-store", "nosniff", "frame-ancestors 'none'"] {
            assert!(answer.contains(header), "{header}: {answer}");
        }
        assert!(get(&format!("/{token}/metrics")).contains("palisade_shell_lines_total 0\n"));
        assert!(get(&format!("/{token}/style.css")).contains("text/css"));
        assert!(get(&format!("/{token}/facts.json")).contains("\"entries\": 0"));
        assert!(get("/").starts_with("HTTP/1.1 404 "));
        let refused = get("/00000000000000000000000000000000/metrics");
        assert!(refused.starts_with("HTTP/1.1 404 ") && !refused.contains("palisade"), "{refused}");
        let head = ask(page, &format!("HEAD /{token}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        let changed = ask(page, &format!("POST /{token}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
        assert!(
            changed.starts_with("HTTP/1.1 405 ") && changed.contains("Allow: GET, HEAD\r\n"),
            "{changed}"
        );
        let metrics = get(&format!("/{token}/metrics"));
        assert!(metrics.contains("requests_total{answer=\"given\"} 6\n"), "{metrics}");
        assert!(metrics.contains("requests_total{answer=\"refused\"} 3\n"), "{metrics}");
    }

    #[test]
    fn a_head_without_end_is_not_read_to_its_end() {
        let home = tempfile::tempdir().unwrap();
        let page = page(home.path());
        let mut stream = TcpStream::connect(("127.0.0.1", page.desk.port)).unwrap();
        // It is closed while this is still being written, or then.
        let junk = vec![b'x'; 1 << 20];
        let _closed = stream.write_all(&junk);
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }

    /// More of them than are kept, in one go and after each other, some of which have begun a request.
    #[test]
    fn idle_connections_keep_nobody_out() {
        let home = tempfile::tempdir().unwrap();
        let page = page(home.path());
        let (port, token) = (page.desk.port, &page.desk.token);
        let request = format!("GET /{token}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
        let mut silent = Vec::new();
        for round in 0..3 {
            for number in 0..2 * IDLE {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                if number % 2 == 0 {
                    // It may be closed already.
                    let _closed = stream.write_all(b"GET / HTTP");
                }
                silent.push(stream);
            }
            let answer = ask(page, &request);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{round}: {answer}");
        }
        // The oldest was closed for a newer one.
        let mut byte = [0];
        let closed = silent.first_mut().unwrap().read(&mut byte);
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
        assert!(page.desk.idle.lock().unwrap().len() <= IDLE);
    }
}
