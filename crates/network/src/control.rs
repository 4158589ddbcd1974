// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the server tells and is told: over one stream socket, each message a length (four bytes, little-endian) and
//! postcard. A stream, as `/etc/hosts` can be larger than a datagram.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Blocking;
use std::time::{Duration, SystemTime};

use palisade_policy::network::NetworkRule;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;

use crate::resolving::Resolving;
use crate::wait::{Either, first};

/// The longest message that is taken: some people block advertisements with their `/etc/hosts`.
const LONGEST: usize = 64 << 20;
/// How many messages wait for a slow reader before what happens is only counted.
const WAITING: usize = 4096;

/// How long accounts of connections wait for others, so that whoever reads is woken for many at once: it shares the
/// processors with those who are connected, and writes to its store each time.
const TOGETHER: Duration = Duration::from_millis(50);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum What {
    /// A connection was made.
    Opened,
    /// It is over.
    Closed,
    /// The policy, or who was asked, refused a name or a connection; or a client said something else than it may.
    Refused,
    /// It was allowed, and didn't work.
    Failed,
    /// Something about the server itself: it is at a limit.
    Strained,
}

/// What a rule would have to be about for a refusal not to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Remedy {
    /// No rule would change it.
    #[default]
    Nothing,
    /// Whom the connection is to.
    Host,
    /// Where the name leads.
    Address(IpAddr),
}

/// Whose socket asked for what was refused. It has that socket as long as the report isn't [noted](Instruction::Noted),
/// or a moment has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The report's number.
    pub number: u64,
    /// Who asked.
    pub asker: Asker,
}

/// A socket of the sandbox's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// Its own address.
    pub address: SocketAddr,
    /// It is one of UDP.
    pub datagrams: bool,
}

impl Asker {
    /// The other end of a connection.
    pub(crate) fn of(client: &TcpStream) -> Option<Self> {
        client.peer_addr().ok().map(|address| Self { address, datagrams: false })
    }
}

/// Why the user wasn't asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unasked {
    /// There is no terminal.
    NoTerminal,
    /// Another job has the terminal.
    Background,
    /// Too many other questions wait.
    TooMany,
}

impl std::fmt::Display for Unasked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoTerminal => "there is no terminal",
            Self::Background => "another job is in the foreground of the terminal",
            Self::TooMany => "too many questions wait",
        })
    }
}

/// What came of a question.
pub(crate) type Said = Result<Answer, Unasked>;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// When.
    pub time: SystemTime,
    /// What.
    pub what: What,
    /// With whom: a name, or an address that was connected to without a name. Empty for [`What::Strained`].
    pub host: String,
    /// The real address.
    pub address: Option<IpAddr>,
    /// The port; 0 where a name was only looked up.
    pub port: u16,
    /// Bytes that went out, of a connection that is over.
    pub sent: u64,
    /// Bytes that came in.
    pub received: u64,
    /// How long the connection was.
    pub duration: Duration,
    /// Why it was refused or failed.
    pub why: String,
    /// The rule that decided.
    pub rule: Option<NetworkRule>,
    /// What would permit it.
    pub remedy: Remedy,
    /// Who asked, of a refusal where that is known.
    pub held: Option<Box<Held>>,
}

impl Report {
    /// A report of now, without details.
    #[must_use]
    pub fn new(what: What, host: impl Into<String>, port: u16) -> Self {
        Self {
            time: SystemTime::now(),
            what,
            host: host.into(),
            address: None,
            port,
            sent: 0,
            received: 0,
            duration: Duration::ZERO,
            why: String::new(),
            rule: None,
            remedy: Remedy::Nothing,
            held: None,
        }
    }
}

/// A question to the user. Without an [`Instruction::Answer`] within a minute the answer is no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// To say which question an answer is for.
    pub number: u64,
    /// Whom a command wants to talk to.
    pub host: String,
    /// Where.
    pub port: u16,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it may.
    pub allow: bool,
    /// Whether that holds for the same host and port until the end, or only for who waits for it now.
    pub session: bool,
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// Something happened.
    Report(Report),
    /// The user is asked.
    Question(Question),
    /// So many reports couldn't be told, because nobody read.
    Lost(u64),
}

impl Told {
    /// Reads a message, without the length in front of it.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn read(body: &[u8]) -> io::Result<Self> {
        decoded(body)
    }
}

/// A message to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instruction {
    /// The answer to the question of a number.
    Answer(u64, Answer),
    /// The user can't be asked the question of a number.
    Unasked(u64, Unasked),
    /// The report of a number was read, and who asked was looked up.
    Noted(u64),
    /// The host's files have changed.
    Resolving(Resolving),
}

impl Instruction {
    /// As a message, without the length in front of it.
    ///
    /// # Errors
    ///
    /// None is known.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(io::Error::other)
    }
}

fn encoded<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

fn decoded<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    postcard::from_bytes(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn length(header: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length <= LONGEST { Ok(length) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The other end of the server's socket: who holds it hears what happens, and dropping it ends the server.
#[derive(Debug)]
pub struct Control(Blocking);

impl Control {
    /// Both ends: this one, and the descriptor for [`serve`](crate::serve).
    ///
    /// # Errors
    ///
    /// No descriptors.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, server) = Blocking::pair()?;
        Ok((Self(own), server.into()))
    }

    /// Waits for the next message; none: the server is gone.
    ///
    /// # Errors
    ///
    /// The socket fails, or what comes is no message.
    pub fn next(&self) -> io::Result<Option<Told>> {
        let mut header = [0; 4];
        match (&self.0).read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut body = vec![0; length(header)?];
        (&self.0).read_exact(&mut body)?;
        decoded(&body).map(Some)
    }

    /// Tells the server something.
    ///
    /// # Errors
    ///
    /// The server is gone.
    pub fn instruct(&self, instruction: &Instruction) -> io::Result<()> {
        (&self.0).write_all(&encoded(instruction)?)
    }

    /// A second handle on the same end, for another thread.
    ///
    /// # Errors
    ///
    /// No descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Control {
    fn from(socket: OwnedFd) -> Self {
        Self(socket.into())
    }
}

impl From<Control> for OwnedFd {
    fn from(control: Control) -> Self {
        control.0.into()
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
        let account =
            matches!(&message, Told::Report(report) if matches!(report.what, What::Opened | What::Closed));
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
        told.or_else(|| Some(self.lost.take()).filter(|lost| *lost > 0).map(Told::Lost))
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
            *begun = encoded(&told)?;
        }
        Ok(true)
    }
}

/// Reads the next instruction. None: the other end is closed.
pub(crate) async fn instruction(
    socket: &mut (impl tokio::io::AsyncRead + Unpin),
) -> io::Result<Option<Instruction>> {
    let mut header = [0; 4];
    match socket.read_exact(&mut header).await {
        Ok(_count) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = length(header)?;
    let mut body = Vec::new();
    socket.take(length as u64).read_to_end(&mut body).await?;
    decoded(&body).map(Some)
}
