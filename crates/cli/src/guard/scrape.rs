// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard metrics --serve`: the counters over HTTP, for a Prometheus on this machine.
//!
//! A process of its own, of any user: palisaded has no network, and nothing here needs rights.

use super::{Answer, GuardError};
use crate::answer::Failure;
use crate::output;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Requests that are answered at the same time.
const AT_ONCE: usize = 16;
/// So long a request may take to come, and an answer to go.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest request, in bytes.
const LONGEST: usize = 8 << 10;

/// An address of this machine's own: the answers say what happens on the host.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_not_one| "not an address with a port".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("only addresses of the loopback interface, such as 127.0.0.1:9750".to_owned())
    }
}

/// Answers until it is ended; `text` is what `/metrics` says, or why there is nothing to say.
pub(super) fn serve(address: SocketAddr, text: impl Fn() -> Result<String, Failure> + Sync) -> Answer {
    let failed = |source| GuardError::Serve { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    output::note(&format_args!("answers at http://{address}/metrics"));
    let busy = AtomicUsize::new(0);
    let result = std::thread::scope(|scope| {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _who)) => stream,
                // Whoever connected has gone, or descriptors are used up, for now.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return error,
            };
            if busy.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
                busy.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (text, busy) = (&text, &busy);
            scope.spawn(move || {
                let _who_asks_has_gone = answer(stream, text);
                busy.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Err(failed(result).into())
}

fn answer(mut stream: TcpStream, text: impl Fn() -> Result<String, Failure>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = request(&mut stream)?;
    let (status, body) = match wanted(&request) {
        Wanted::Metrics => match text() {
            Ok(text) => ("200 OK", text),
            Err(failure) => ("503 Service Unavailable", format!("{failure}\n")),
        },
        Wanted::Elsewhere => ("404 Not Found", "it is at /metrics\n".to_owned()),
        Wanted::Otherwise => ("405 Method Not Allowed", "only GET is answered\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// All up to the empty line. A body belongs to what isn't answered.
fn request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|part| part == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > LONGEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => request.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(request)
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Metrics,
    Elsewhere,
    Otherwise,
}

fn wanted(request: &[u8]) -> Wanted {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(path)) => match path.split(|byte| *byte == b'?').next() {
            Some(b"/metrics") => Wanted::Metrics,
            _ => Wanted::Elsewhere,
        },
        _ => Wanted::Otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_answered() {
        assert_eq!(address("127.0.0.1:9750"), Ok(([127, 0, 0, 1], 9750).into()));
        assert!(address("[::1]:0").is_ok());
        for other in ["0.0.0.0:9750", "[::]:9750", "192.0.2.1:9750", "127.0.0.1", "localhost:9750", ""] {
            assert!(address(other).is_err(), "{other}");
        }
    }

    #[test]
    fn one_page_is_there() {
        assert_eq!(wanted(b"GET /metrics HTTP/1.1\r\n\r\n"), Wanted::Metrics);
        assert_eq!(wanted(b"GET /metrics?x=y HTTP/1.1\r\n\r\n"), Wanted::Metrics);
        assert_eq!(wanted(b"GET / HTTP/1.1\r\n\r\n"), Wanted::Elsewhere);
        assert_eq!(wanted(b"GET /metrics/x HTTP/1.1\r\n\r\n"), Wanted::Elsewhere);
        assert_eq!(wanted(b"POST /metrics HTTP/1.1\r\n\r\n"), Wanted::Otherwise);
        assert_eq!(wanted(b"\r\n\r\n"), Wanted::Otherwise);
    }
}
