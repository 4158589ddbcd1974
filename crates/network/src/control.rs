// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket over which the server tells and is told ([`palisade_protocol::network`]). A stream, as `/etc/hosts` can be larger
//! than a datagram.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Blocking;
use std::time::Duration;

use palisade_event::Outcome;
use palisade_protocol::network::{Asker, Frames, Instruction, Told, frame};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;

use crate::report::outcome;
use crate::wait::{Either, first};

/// The longest message that is taken: some people block advertisements with their `/etc/hosts`.
const LONGEST: usize = 64 << 20;
/// So much of them is read at a time.
const CHUNK: usize = 1 << 16;
/// How many messages wait for a slow reader before what happens is only counted.
const WAITING: usize = 4096;

/// How long accounts of connections wait for others, so that whoever reads is woken for many at once: it shares the
/// processors with those who are connected, and writes to its store each time.
const TOGETHER: Duration = Duration::from_millis(50);

/// The other end of a connection.
pub(crate) fn asker(client: &TcpStream) -> Option<Asker> {
    client.peer_addr().ok().map(|address| Asker { address, datagrams: false })
}

/// The other end of the server's socket: who holds it hears what happens, and dropping it ends the server.
#[derive(Debug)]
pub struct Control {
    socket: Blocking,
    frames: Frames,
}

impl Control {
    /// Both ends: this one, and the descriptor for [`serve`](crate::serve).
    ///
    /// # Errors
    ///
    /// No descriptors.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, server) = Blocking::pair()?;
        Ok((Self { socket: own, frames: Frames::new(LONGEST) }, server.into()))
    }

    /// Waits for the next message; none: the server is gone.
    ///
    /// # Errors
    ///
    /// The socket fails, or what comes is no message.
    pub fn hear(&mut self) -> io::Result<Option<Told>> {
        let mut chunk = vec![0; CHUNK];
        loop {
            if let Some(told) = self.frames.take() {
                return told.map(Some).map_err(io::Error::other);
            }
            match self.socket.read(&mut chunk)? {
                0 => return Ok(None),
                count => self.frames.push(&chunk[..count]),
            }
        }
    }

    /// Tells the server something.
    ///
    /// # Errors
    ///
    /// The server is gone.
    pub fn instruct(&self, instruction: &Instruction) -> io::Result<()> {
        (&self.socket).write_all(&frame(instruction).map_err(io::Error::other)?)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What the server has to tell, until it is read. Telling never waits: a reader that has stopped must not stop
/// connections.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: RefCell<VecDeque<Told>>,
    /// What is left to write of the message before those.
    begun: RefCell<Vec<u8>>,
    lost: Cell<u64>,
    /// There is something to tell now.
    news: Notify,
    /// There is something to tell some time.
    accounts: Notify,
}

impl Outbox {
    pub(crate) fn tell(&self, message: Told) {
        let mut waiting = self.waiting.borrow_mut();
        let account = matches!(
            &message,
            Told::Event { event, .. } if matches!(outcome(event), Some(Outcome::Opened | Outcome::Closed))
        );
        let later = account && waiting.len() < WAITING / 2;
        if waiting.len() < WAITING {
            waiting.push_back(message);
        } else {
            self.lost.set(self.lost.get() + 1);
        }
        if later { self.accounts.notify_one() } else { self.news.notify_one() }
    }

    fn next(&self) -> Option<Told> {
        let told = self.waiting.borrow_mut().pop_front();
        told.or_else(|| Some(self.lost.take()).filter(|lost| *lost > 0).map(|count| Told::Lost { count }))
    }

    /// Takes the next message.
    #[cfg(test)]
    pub(crate) async fn heard(&self) -> Told {
        loop {
            if let Some(told) = self.next() {
                return told;
            }
            first(self.news.notified(), self.accounts.notified()).await;
        }
    }

    /// Writes what is told to the socket until it is closed.
    pub(crate) async fn send(&self, socket: &UnixStream) -> io::Result<()> {
        loop {
            while self.begin()? {
                socket.writable().await?;
                let mut begun = self.begun.borrow_mut();
                match socket.try_write(&begun) {
                    Ok(count) => drop(begun.drain(..count)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            if let Either::Second(()) = first(self.news.notified(), self.accounts.notified()).await {
                let _others_follow = tokio::time::timeout(TOGETHER, self.news.notified()).await;
            }
        }
    }

    /// Writes what is left to a socket, which is waited for as long as `patience` for each message.
    pub(crate) fn flush(&self, mut socket: &Blocking, patience: Duration) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_write_timeout(Some(patience))?;
        while self.begin()? {
            socket.write_all(&std::mem::take(&mut *self.begun.borrow_mut()))?;
        }
        Ok(())
    }

    /// Takes the next message, if all of the one before was written. Whether there is anything to write.
    fn begin(&self) -> io::Result<bool> {
        let mut begun = self.begun.borrow_mut();
        if begun.is_empty() {
            let Some(told) = self.next() else { return Ok(false) };
            *begun = frame(&told).map_err(io::Error::other)?;
        }
        Ok(true)
    }
}

/// Instructions, as they come.
pub(crate) struct Instructions<S> {
    socket: S,
    frames: Frames,
}

impl<S: tokio::io::AsyncRead + Unpin> Instructions<S> {
    pub(crate) const fn of(socket: S) -> Self {
        Self { socket, frames: Frames::new(LONGEST) }
    }

    /// Reads the next. None: the other end is closed.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Instruction>> {
        loop {
            if let Some(instruction) = self.frames.take() {
                return instruction.map(Some).map_err(io::Error::other);
            }
            let mut chunk = Vec::with_capacity(CHUNK);
            match self.socket.read_buf(&mut chunk).await? {
                0 => return Ok(None),
                _ => self.frames.push(&chunk),
            }
        }
    }
}
