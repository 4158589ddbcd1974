// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that runs inside the sandbox: `palisade-bench inside …`, a client of [`super::server`].
//!
//! It works in steps. After each step it prints what it measured as `NAME VALUE`, then `ready`, and waits for a line (or the
//! end) of its standard input. In the meantime the bench measures the sandbox's processes from outside.

use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::server::{FIRST, HELLO, LAST, WELCOME};

const PATIENCE: Duration = Duration::from_secs(20);
const CHUNK: usize = 256 << 10;
/// The line that ends a step.
pub(crate) const READY: &str = "ready";

/// A client of the bench's own servers; the bench starts it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Inside {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
enum Task {
    /// Once, then N times: connect, say a byte, hear one
    Connect {
        target: String,
        #[arg(long, default_value_t = 100)]
        times: usize,
        /// Ask for the name's address each time
        #[arg(long)]
        lookup: bool,
    },
    /// Nothing, then fetch so many bytes
    Bulk { target: String, bytes: u64 },
    /// One connection, then all others, held
    Hold { target: String, connections: usize },
}

/// Why a client fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InsideError {
    #[error("{target} has no address")]
    NoAddress { target: String },
    #[error("can't look up {target}")]
    Lookup { target: String, source: io::Error },
    #[error("can't make connection {number}")]
    Connection { number: usize, source: io::Error },
    #[error("the transfer stopped after {got} of {wanted} bytes")]
    Transfer { got: u64, wanted: u64, source: io::Error },
    #[error("can't exchange data with the bench")]
    Bench { source: io::Error },
}

impl Inside {
    pub(crate) fn run(&self) -> Result<(), InsideError> {
        match &self.task {
            Task::Connect { target, times, lookup } => connect(target, *times, *lookup),
            Task::Bulk { target, bytes } => bulk(target, *bytes),
            Task::Hold { target, connections } => hold(target, *connections),
        }
    }
}

fn connect(target: &str, times: usize, lookup: bool) -> Result<(), InsideError> {
    let start = Instant::now();
    let address = resolve(target)?;
    greet(address).map_err(|source| InsideError::Connection { number: 1, source })?;
    step(&[("first", start.elapsed().as_secs_f64())])?;
    let mut seconds = Vec::with_capacity(times);
    for number in 0..times {
        let start = Instant::now();
        let address = if lookup { resolve(target)? } else { address };
        let connected = greet(address);
        let elapsed = start.elapsed();
        connected.map_err(|source| InsideError::Connection { number: number + 2, source })?;
        seconds.push(elapsed.as_secs_f64());
    }
    seconds.sort_unstable_by(f64::total_cmp);
    step(&[("seconds", seconds.get(times / 2).copied().unwrap_or_default())])
}

fn bulk(target: &str, bytes: u64) -> Result<(), InsideError> {
    let connection = |source| InsideError::Connection { number: 1, source };
    let address = resolve(target)?;
    step(&[])?;
    let start = Instant::now();
    let mut stream = dial(address).map_err(connection)?;
    stream.write_all(&[HELLO]).and_then(|()| stream.write_all(&bytes.to_be_bytes())).map_err(connection)?;
    let mut chunk = vec![0; CHUNK];
    let (mut got, mut last) = (0, 0);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => {
                last = chunk[length - 1];
                got += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(InsideError::Transfer { got, wanted: bytes, source }),
        }
    }
    let elapsed = start.elapsed();
    if got != bytes || last != LAST {
        let source = io::ErrorKind::UnexpectedEof.into();
        return Err(InsideError::Transfer { got, wanted: bytes, source });
    }
    step(&[("seconds", elapsed.as_secs_f64())])
}

fn hold(target: &str, connections: usize) -> Result<(), InsideError> {
    more_descriptors();
    let address = resolve(target)?;
    let failed = |number| move |source| InsideError::Connection { number, source };
    let mut held = Vec::with_capacity(connections);
    held.push(greet_with(address, FIRST).map_err(failed(1))?);
    step(&[])?;
    let start = Instant::now();
    for number in 2..=connections {
        held.push(greet(address).map_err(failed(number))?);
    }
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2⁵³ connections")]
    let each = start.elapsed().as_secs_f64() / connections as f64;
    // Check that all connections still exist: each was answered, and none has an end of file to read.
    for (number, stream) in held.iter().enumerate() {
        let alive = stream.set_nonblocking(true).and_then(|()| match stream.peek(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        });
        alive.map_err(failed(number + 1))?;
    }
    step(&[("seconds", each)])
}

/// Raises the limit of open files to its maximum.
pub(crate) fn more_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit can't be raised, opening a connection too many reports an error.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The maximum number of open files.
pub(crate) fn descriptors() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

fn resolve(target: &str) -> Result<SocketAddr, InsideError> {
    let mut addresses = target
        .to_socket_addrs()
        .map_err(|source| InsideError::Lookup { target: target.to_owned(), source })?;
    addresses.next().ok_or_else(|| InsideError::NoAddress { target: target.to_owned() })
}

fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn greet(address: SocketAddr) -> io::Result<TcpStream> {
    greet_with(address, HELLO)
}

fn greet_with(address: SocketAddr, hello: u8) -> io::Result<TcpStream> {
    let mut stream = dial(address)?;
    stream.write_all(&[hello])?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    if answer == [WELCOME] { Ok(stream) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn step(figures: &[(&str, f64)]) -> Result<(), InsideError> {
    let text: String = figures.iter().map(|(name, value)| format!("{name} {value:.9}\n")).collect();
    let mut out = io::stdout().lock();
    out.write_all((text + READY + "\n").as_bytes())
        .and_then(|()| out.flush())
        .and_then(|()| io::stdin().lock().read_line(&mut String::new()))
        .map(|_length| ())
        .map_err(|source| InsideError::Bench { source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(words: &[&str]) -> Option<Task> {
        let words = std::iter::once(&"inside").chain(words);
        let matches = Inside::augment_args(Command::new("inside")).try_get_matches_from(words).ok()?;
        Some(Inside::from_arg_matches(&matches).ok()?.task)
    }

    #[test]
    fn tasks_are_parsed() {
        let target = "bench.example:80".to_owned();
        let connect = Task::Connect { target: target.clone(), times: 5, lookup: true };
        assert_eq!(parse(&["connect", "bench.example:80", "--times", "5", "--lookup"]), Some(connect));
        assert_eq!(parse(&["bulk", "bench.example:80", "9"]), Some(Task::Bulk { target, bytes: 9 }));
        assert_eq!(parse(&["hold", "x:1"]), None);
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn only_an_address_is_one() {
        assert!(resolve("127.0.0.1:80").is_ok());
        assert!(matches!(resolve("nonsense"), Err(InsideError::Lookup { .. })));
    }
}
