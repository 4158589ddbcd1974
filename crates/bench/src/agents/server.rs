// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The servers that sandboxes connect to. They run in the bench, on loopback ports, until the process ends.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::names;

/// No client that is measured is silent for so long.
const PATIENCE: Duration = Duration::from_secs(20);
const CHUNK: usize = 256 << 10;
/// This is longer than any request of curl.
const MAX_REQUEST: usize = 16 << 10;

/// The first byte of a client. No HTTP method begins with it, so a proxy that inspects the first bytes need not wait for
/// more.
pub(crate) const HELLO: u8 = 0;
/// The first connection of a client that holds many begins with this byte. The server then drops the earlier client's
/// connections.
pub(crate) const FIRST: u8 = 1;
/// The answer to the first byte.
pub(crate) const WELCOME: u8 = b'!';
/// The last byte of a bulk transfer; all others are zero.
pub(crate) const LAST: u8 = 0xe5;

/// The addresses of the servers.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    /// Answers HTTP with [`Servers::body`].
    pub(crate) http: SocketAddr,
    pub(crate) body: String,
    /// Answers one byte with one byte, and closes.
    pub(crate) echo: SocketAddr,
    /// Answers one byte with one byte, and holds the connection until the client closes it.
    pub(crate) hold: SocketAddr,
    /// Sends as many bytes as the client asks for.
    pub(crate) bulk: SocketAddr,
    /// A name server.
    pub(crate) names: SocketAddr,
}

impl Servers {
    /// Starts the servers. `nonce` is in the served text, so that no other server can be mistaken for this one.
    pub(crate) fn start(nonce: u64) -> io::Result<Self> {
        let body = format!("bench {nonce:016x}\n");
        let text = body.clone();
        Ok(Self {
            http: serve(move |stream| page(stream, &text))?,
            body,
            echo: serve(|mut stream| welcome(&mut stream))?,
            hold: hold()?,
            bulk: serve(bulk)?,
            names: names::serve()?,
        })
    }
}

/// Passes connections to `handle`, each in a separate thread.
fn serve(handle: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            thread::spawn(move || {
                // The client notices and counts a broken connection.
                let _ = patient(&stream).and_then(|()| handle(stream));
            });
        }
    });
    Ok(address)
}

fn patient(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn welcome(stream: &mut TcpStream) -> io::Result<()> {
    hello(stream)?;
    stream.write_all(&[WELCOME])
}

fn hello(stream: &mut TcpStream) -> io::Result<u8> {
    let mut hello = [0];
    stream.read_exact(&mut hello)?;
    Ok(hello[0])
}

/// One thread serves all connections: ten thousand threads would affect the measurement.
fn hold() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let mut held: Vec<TcpStream> = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let Ok(said) = patient(&stream).and_then(|()| hello(&mut stream)) else { continue };
            if said == FIRST {
                held.retain(|stream| !closed(stream));
            }
            if stream.write_all(&[WELCOME]).and_then(|()| stream.set_nonblocking(true)).is_ok() {
                held.push(stream);
            }
        }
    });
    Ok(address)
}

fn closed(stream: &TcpStream) -> bool {
    !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Eight bytes give the number of bytes to send.
fn bulk(mut stream: TcpStream) -> io::Result<()> {
    let mut wanted = [0; 8];
    // The first byte of every connection.
    stream.read_exact(&mut wanted[..1])?;
    stream.read_exact(&mut wanted)?;
    let Some(mut left) = usize::try_from(u64::from_be_bytes(wanted)).ok().and_then(|all| all.checked_sub(1))
    else {
        return Ok(());
    };
    let chunk = vec![0; CHUNK];
    while left > 0 {
        let part = left.min(chunk.len());
        stream.write_all(&chunk[..part])?;
        left -= part;
    }
    stream.write_all(&[LAST])
}

fn page(mut stream: TcpStream, body: &str) -> io::Result<()> {
    let mut request: Vec<u8> = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => request.extend(&part[..length]),
        }
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_number_of_this_run() {
        let servers = Servers::start(7).unwrap();
        let mut stream = TcpStream::connect(servers.http).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nbench 0000000000000007\n"), "{answer}");
    }

    #[test]
    fn closed_connections_are_let_go() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        assert!(!closed(&server));
        drop(client);
        thread::sleep(Duration::from_millis(50));
        assert!(closed(&server));
    }
}
