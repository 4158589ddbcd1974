// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server: which connections are answered, and when.
//!
//! Each connection has a thread, and the number of threads and the time for each are limited. When there are too many
//! connections whose request hasn't come yet, the oldest one is closed for a new one, so that idle connections can't
//! block new ones.

use crate::request::{self, Method, Refusal};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest head of a request, in bytes.
const HEAD: usize = 8 << 10;
/// How many connections may be idle at a time.
const IDLE: usize = 16;
/// The most threads: for idle connections, for those that are being closed, and for answers.
const AT_ONCE: usize = 4 * IDLE;
/// How long a request may take to arrive, and an answer to be received.
const PATIENCE: Duration = Duration::from_secs(10);

/// The content of a server.
pub trait Site: Send + Sync + 'static {
    /// One part of the content.
    type Thing;

    /// The content that `path` names. Nothing else reveals whether there is content, because a path may hold a secret.
    fn find(&self, path: &str) -> Option<Self::Thing>;

    /// The answer for it now. `served` counts the earlier requests and this one.
    fn answer(&self, thing: Self::Thing, served: &Served) -> Response;
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The number and its name: `200 OK`.
    pub status: &'static str,
    /// The value of `Content-Type`.
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

/// How many requests there were.
#[derive(Debug, Default)]
pub struct Served {
    given: AtomicU64,
    refused: AtomicU64,
}

impl Served {
    /// How many requests were answered, and how many were refused.
    #[must_use]
    pub fn numbers(&self) -> (u64, u64) {
        (self.given.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

/// A socket that listens on the loopback device.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

/// The state that all threads share.
struct Desk<S> {
    port: u16,
    site: S,
    served: Served,
    busy: AtomicUsize,
    /// Connections whose request hasn't come yet, the oldest first.
    idle: Mutex<VecDeque<Arc<TcpStream>>>,
}

/// Counts a busy thread. Dropping it counts one fewer.
struct Seat<S>(Arc<Desk<S>>);

impl<S> Drop for Seat<S> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Server {
    /// Listens at a loopback address. With port 0 it takes any free port.
    ///
    /// # Errors
    /// As `bind(2)`, and [`io::ErrorKind::InvalidInput`] if other machines could reach the address.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address that it listens at, with the port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the process ends.
    pub fn serve<S: Site>(&self, site: S) -> ! {
        let port = self.address.port();
        let (served, busy, idle) = (Served::default(), AtomicUsize::new(0), Mutex::default());
        let desk = Arc::new(Desk { port, site, served, busy, idle });
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                // For example, there are no descriptors: some are closed soon.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            // Connections that were closed for newer ones end in a moment.
            while desk.busy.load(Ordering::Acquire) >= AT_ONCE {
                std::thread::sleep(Duration::from_millis(1));
            }
            desk.busy.fetch_add(1, Ordering::AcqRel);
            let seat = Seat(Arc::clone(&desk));
            let stream = Arc::new(stream);
            desk.wait_for(&stream);
            // If no thread can be started, the connection is closed.
            let attended = Arc::clone(&stream);
            let attend = move || seat.0.attend(&attended);
            if std::thread::Builder::new().name("http".to_owned()).spawn(attend).is_err() {
                desk.no_longer_idle(&stream);
            }
        }
    }
}

impl<S: Site> Desk<S> {
    /// Adds a connection whose request hasn't come yet. If there are too many, the oldest one is closed.
    fn wait_for(&self, stream: &Arc<TcpStream>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_back(Arc::clone(stream));
        if idle.len() > IDLE
            && let Some(oldest) = idle.pop_front()
        {
            // Its thread reads the end, and ends.
            let _closed_already = oldest.shutdown(Shutdown::Both);
        }
    }

    /// A request has come, or none will come.
    fn no_longer_idle(&self, stream: &Arc<TcpStream>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// Answers one request. It is no error if the client closes early.
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
        let asked = request::understand(head, self.port).and_then(|request| {
            let thing = self.site.find(request.path).ok_or(Refusal::NotFound)?;
            if request.method == Method::Other { Err(Refusal::Method) } else { Ok((thing, request.method)) }
        });
        match asked {
            Ok((thing, method)) => {
                self.served.given.fetch_add(1, Ordering::Relaxed);
                let Response { status, kind, text } = self.site.answer(thing, &self.served);
                write_out(status, kind, &text, method == Method::Head)
            }
            Err(refusal) => {
                self.served.refused.fetch_add(1, Ordering::Relaxed);
                let allow = if refusal == Refusal::Method { "\r\nAllow: GET, HEAD" } else { "" };
                let kind = format!("text/plain; charset=utf-8{allow}");
                write_out(refusal.status(), &kind, &format!("{}\n", refusal.status()), false)
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
    use std::net::Ipv4Addr;

    /// A site with one page, `/it`, that counts.
    struct One;

    impl Site for One {
        type Thing = ();

        fn find(&self, path: &str) -> Option<()> {
            (path == "/it").then_some(())
        }

        fn answer(&self, (): (), served: &Served) -> Response {
            Response { status: "200 OK", kind: "text/plain", text: format!("{:?}", served.numbers()) }
        }
    }

    fn server() -> u16 {
        let server = Server::open((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = server.address().port();
        std::thread::spawn(move || server.serve(One));
        port
    }

    fn ask(port: u16, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn what_is_there_is_given_and_nothing_is_changed() {
        let port = server();
        let answer = ask(port, "GET", "/it");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n(1, 0)"), "{answer}");
        for header in ["default-src 'none'", "no-store", "nosniff", "frame-ancestors 'none'"] {
            assert!(answer.contains(header), "{header}: {answer}");
        }
        assert!(ask(port, "GET", "/else").starts_with("HTTP/1.1 404 "));
        assert!(ask(port, "DELETE", "/else").starts_with("HTTP/1.1 404 "));
        let changed = ask(port, "DELETE", "/it");
        assert!(
            changed.starts_with("HTTP/1.1 405 ") && changed.contains("Allow: GET, HEAD\r\n"),
            "{changed}"
        );
        let head = ask(port, "HEAD", "/it");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(port, "GET", "/it").ends_with("(3, 3)"));
    }

    #[test]
    fn other_machines_are_not_listened_to() {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let error = Server::open(address.parse().unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{address}");
        }
    }

    #[test]
    fn a_head_without_end_is_not_read_to_its_end() {
        let mut stream = TcpStream::connect(("127.0.0.1", server())).unwrap();
        // The server closes the connection while this is being written, or afterwards.
        let junk = vec![b'x'; 1 << 20];
        let _closed = stream.write_all(&junk);
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }

    /// More idle connections than are kept, at once and one after the other. Some of them have begun a request.
    #[test]
    fn idle_connections_keep_nobody_out() {
        let port = server();
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
            let answer = ask(port, "GET", "/it");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{round}: {answer}");
        }
        // The oldest connection was closed for a newer one.
        let mut byte = [0];
        let closed = silent.first_mut().unwrap().read(&mut byte);
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    }
}
