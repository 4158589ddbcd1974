// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves bytes between two connections, both ways, without copying them.
//!
//! A [`Pump`] is polled rather than awaited, so that an idle connection needs two pumps and little else: no pipe and no
//! buffer.

use std::io;
use std::task::{Context, Poll, ready};

use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::pipe::{CAPACITY, Pipe, Pool};

/// How much is carried at once if there is no pipe.
const BUFFER: usize = 16 * 1024;
/// How many bytes of a direction are copied before bytes are spliced. A pipe isn't worth it for few bytes: copying
/// through a shared buffer saves one system call each way, and two more for the first connection that would need a
/// pipe.
const COPIED: u64 = 64 * 1024;
/// From this many bytes on it is a transfer.
const TRANSFER: u64 = 1024 * 1024;

/// Bytes that were read and not written.
#[derive(Debug)]
enum Load {
    /// Nothing.
    None,
    /// A pipe, and how many bytes it holds.
    Pipe(Pipe, usize),
    /// Memory, and how much of it was written.
    Memory(Vec<u8>, usize),
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Pump {
    load: Load,
    /// The source has ended.
    ended: bool,
    /// Everything was passed on.
    done: bool,
    /// It is known to be a transfer.
    transfer: bool,
    /// How many bytes were passed on.
    pub(crate) bytes: u64,
}

impl Pump {
    /// Passes on `first`, then the source's bytes.
    pub(crate) fn new(first: Vec<u8>) -> Self {
        let load = if first.is_empty() { Load::None } else { Load::Memory(first, 0) };
        Self { load, ended: false, done: false, transfer: false, bytes: 0 }
    }

    /// The same, but the destination got the first `said` bytes already.
    pub(crate) fn resumed(mut first: Vec<u8>, said: usize) -> Self {
        first.drain(..said.min(first.len()));
        Self { bytes: said as u64, ..Self::new(first) }
    }

    /// Reading has ended; the remaining bytes must still be passed on.
    pub(crate) const fn end(&mut self) {
        self.ended = true;
    }

    /// Moves as many bytes as possible. Ready when `from` has ended, and `to` was shut down for writing.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        from: &TcpStream,
        to: &TcpStream,
        pool: &Pool,
    ) -> Poll<io::Result<()>> {
        if self.done {
            return Poll::Ready(Ok(()));
        }
        loop {
            if self.loaded() {
                ready!(to.poll_write_ready(context))?;
                self.unload(to)?;
                if !self.transfer && self.bytes >= TRANSFER {
                    self.transfer = true;
                    pool.make_room(to);
                }
                continue;
            }
            if self.ended {
                self.rest(pool);
                self.done = true;
                // The destination may be gone already.
                let _gone = rustix::net::shutdown(to, rustix::net::Shutdown::Write);
                return Poll::Ready(Ok(()));
            }
            match from.poll_read_ready(context)? {
                Poll::Pending => {
                    self.rest(pool);
                    return Poll::Pending;
                }
                Poll::Ready(()) if self.bytes < COPIED && matches!(self.load, Load::None) => {
                    self.pass(from, to, pool)?;
                }
                Poll::Ready(()) => self.fill(from, pool)?,
            }
        }
    }

    const fn loaded(&self) -> bool {
        match &self.load {
            Load::None => false,
            Load::Pipe(_, held) => *held > 0,
            Load::Memory(bytes, written) => *written < bytes.len(),
        }
    }

    /// Gives back an empty pipe.
    fn rest(&mut self, pool: &Pool) {
        if let Load::Pipe(pipe, 0) = std::mem::replace(&mut self.load, Load::None) {
            pool.give_back(pipe);
        }
    }

    fn unload(&mut self, to: &TcpStream) -> io::Result<()> {
        let written = to.try_io(Interest::WRITABLE, || match &self.load {
            Load::None => Ok(0),
            Load::Pipe(pipe, held) => {
                Ok(splice(&pipe.read, None, to, None, *held, SpliceFlags::NONBLOCK | SpliceFlags::MOVE)?)
            }
            Load::Memory(bytes, written) => {
                let rest = bytes.get(*written..).unwrap_or_default();
                Ok(rustix::net::send(to, rest, rustix::net::SendFlags::NOSIGNAL)?)
            }
        });
        let written = match written {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        self.bytes += written as u64;
        match &mut self.load {
            Load::None => {}
            Load::Pipe(_, held) => *held -= written,
            Load::Memory(bytes, before) => {
                *before += written;
                if *before == bytes.len() {
                    self.load = Load::None;
                }
            }
        }
        Ok(())
    }

    /// Copies the available bytes. Bytes that the destination doesn't accept at once are kept.
    fn pass(&mut self, from: &TcpStream, to: &TcpStream, pool: &Pool) -> io::Result<()> {
        let mut buffer = pool.scratch();
        let read = match from.try_io(Interest::READABLE, || Ok(rustix::io::read(from, &mut buffer[..])?)) {
            Ok(0) => {
                self.ended = true;
                return Ok(());
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        if read < buffer.len() {
            // The socket is drained: the runtime reports the next bytes, so there is no need to try another read.
            let drained = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _drained = from.try_io(Interest::READABLE, drained);
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        let send = || Ok(rustix::net::send(to, bytes, rustix::net::SendFlags::NOSIGNAL)?);
        let written = match to.try_io(Interest::WRITABLE, send) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.bytes += written as u64;
        if written < read {
            self.load = Load::Memory(bytes.get(written..).unwrap_or_default().to_vec(), 0);
        }
        Ok(())
    }

    fn fill(&mut self, from: &TcpStream, pool: &Pool) -> io::Result<()> {
        if matches!(self.load, Load::None) {
            self.load = match pool.take() {
                Ok(pipe) => Load::Pipe(pipe, 0),
                // No descriptors left.
                Err(_error) => Load::Memory(Vec::new(), 0),
            };
        }
        let read = from.try_io(Interest::READABLE, || match &mut self.load {
            Load::Pipe(pipe, _) => {
                let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                Ok(splice(from, None, &pipe.write, None, CAPACITY, flags)?)
            }
            Load::Memory(bytes, _) => {
                bytes.resize(BUFFER, 0);
                let read = rustix::io::read(from, &mut bytes[..]);
                bytes.truncate(*read.as_ref().unwrap_or(&0));
                Ok(read?)
            }
            Load::None => Ok(0),
        });
        match read {
            Ok(0) => self.ended = true,
            Ok(read) => {
                if let Load::Pipe(_, held) = &mut self.load {
                    *held = read;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Carries bytes both ways until both sides have ended. An error of either ends both, and lets both see it.
pub(crate) async fn relay(
    client: &TcpStream,
    server: &TcpStream,
    up: &mut Pump,
    down: &mut Pump,
    pool: &Pool,
) -> io::Result<()> {
    let result = std::future::poll_fn(|context| {
        let up = up.poll(context, client, server, pool)?;
        let down = down.poll(context, server, client, pool)?;
        if up.is_ready() && down.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await;
    if result.is_err() {
        crate::stream::abort(client);
        crate::stream::abort(server);
    }
    result
}
