// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control socket between the gateway and the launcher ([`palisade_protocol::network`]). It is a stream, because
//! `/etc/hosts` can be larger than a datagram.

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

/// The longest accepted message, in bytes: some users block advertisements with their `/etc/hosts`.
const LONGEST: usize = 64 << 20;
/// How many bytes are read at once.
const CHUNK: usize = 1 << 16;
/// How many messages wait for a slow reader before further events are only counted.
const WAITING: usize = 4096;

/// How long events about connections wait for further ones, so that the reader is woken once for many events. The
/// reader shares the processors with the sandbox's programs, and writes to its store at each wake-up.
const TOGETHER: Duration = Duration::from_millis(50);

/// The other end of a connection.
pub(crate) fn asker(client: &TcpStream) -> Option<Asker> {
    client.peer_addr().ok().map(|address| Asker { address, datagrams: false })
}

/// The launcher's end of the gateway's socket. It receives what happens; dropping it ends the gateway.
#[derive(Debug)]
pub struct Control {
    socket: Blocking,
    frames: Frames,
}

impl Control {
    /// Both ends: the launcher's, and the descriptor for [`serve`](crate::serve).
    ///
    /// # Errors
    ///
    /// There are no descriptors left.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, server) = Blocking::pair()?;
        Ok((Self { socket: own, frames: Frames::new(LONGEST) }, server.into()))
    }

    /// Waits for the next message; `None`: the gateway is gone.
    ///
    /// # Errors
    ///
    /// The socket fails, or its data is no message.
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

    /// Sends an instruction to the gateway.
    ///
    /// # Errors
    ///
    /// The gateway is gone.
    pub fn instruct(&self, instruction: &Instruction) -> io::Result<()> {
        (&self.socket).write_all(&frame(instruction).map_err(io::Error::other)?)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The messages that the gateway has not sent yet. Adding one never waits, because a reader that has stopped must not
/// stop connections.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: RefCell<VecDeque<Told>>,
    /// The unsent rest of the message before those.
    begun: RefCell<Vec<u8>>,
    lost: Cell<u64>,
    /// There is a message to send now.
    news: Notify,
    /// There is a message that may wait ([`TOGETHER`]).
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

    /// Writes messages to the socket until it is closed.
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

    /// Writes the remaining messages to a socket, and waits at most `patience` for each of them.
    pub(crate) fn flush(&self, mut socket: &Blocking, patience: Duration) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_write_timeout(Some(patience))?;
        while self.begin()? {
            socket.write_all(&std::mem::take(&mut *self.begun.borrow_mut()))?;
        }
        Ok(())
    }

    /// Takes the next message, if all of the previous one was written. Returns whether there is something to write.
    fn begin(&self) -> io::Result<bool> {
        let mut begun = self.begun.borrow_mut();
        if begun.is_empty() {
            let Some(told) = self.next() else { return Ok(false) };
            *begun = frame(&told).map_err(io::Error::other)?;
        }
        Ok(true)
    }
}

/// The instructions that arrive.
pub(crate) struct Instructions<S> {
    socket: S,
    frames: Frames,
}

impl<S: tokio::io::AsyncRead + Unpin> Instructions<S> {
    pub(crate) const fn of(socket: S) -> Self {
        Self { socket, frames: Frames::new(LONGEST) }
    }

    /// Reads the next instruction. `None`: the other end is closed.
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
