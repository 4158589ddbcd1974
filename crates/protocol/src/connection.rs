// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection that sends and receives frames. The length of a frame, and the time that one may take, are limited.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The version of the protocol, which must be the same on both sides. A side ignores members that it doesn't know. A change
/// that an old side would misunderstand gets a new version.
pub const VERSION: u32 = 1;

/// No frame is longer, in bytes.
pub const LONGEST: usize = 4 << 20;

/// The longest that one frame may take, from its first byte to its last.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a conversation ended.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// No process answers at the socket.
    #[error("can't reach {}: {source}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
    /// The other side closed the connection between two frames.
    #[error("the other process closed the connection")]
    Gone,
    /// A frame that announces more than [`LONGEST`] bytes.
    #[error("a message has {0} bytes, more than {LONGEST}")]
    TooLong(usize),
    /// A frame took longer than it may.
    #[error("a message didn't end within {} s", PATIENCE.as_secs())]
    TooSlow,
    /// The frame isn't what was expected.
    #[error("can't understand a message: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The other side uses another version of the protocol.
    #[error("the other process uses version {theirs} of the protocol, this process uses version {VERSION}")]
    OtherVersion {
        /// The version of the other side.
        theirs: u32,
    },
}

/// The first frame that each side sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol that the sender uses.
    pub version: u32,
    /// The sender's program, for people: `palisaded 0.1.0`.
    pub program: String,
}

/// The process at the other end, as the kernel identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process when it connected.
    pub pid: u32,
    /// Its user when it connected.
    pub uid: u32,
}

/// One conversation.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
}

impl Connection {
    /// Connects and exchanges [`Hello`]s; `program` is this side's name.
    ///
    /// # Errors
    /// [`ProtocolError::Unreachable`] and those of the first frames.
    pub fn open(path: &Path, program: &str) -> Result<Self, ProtocolError> {
        let stream = UnixStream::connect(path)
            .map_err(|source| ProtocolError::Unreachable { path: path.to_owned(), source })?;
        Self::begin(stream, program)
    }

    /// Uses a socket that is already connected, and exchanges [`Hello`]s.
    ///
    /// # Errors
    /// Those of the first frames; [`ProtocolError::OtherVersion`].
    pub fn begin(stream: UnixStream, program: &str) -> Result<Self, ProtocolError> {
        let mut connection = Self { stream };
        connection.send(&Hello { version: VERSION, program: program.into() })?;
        // A client sends its hello at once. A connection that stays silent would keep others out.
        let hello: Hello = connection.receive_within(Some(PATIENCE))?;
        if hello.version == VERSION {
            Ok(connection)
        } else {
            Err(ProtocolError::OtherVersion { theirs: hello.version })
        }
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// [`ProtocolError::Broken`] if the kernel doesn't tell.
    pub fn peer(&self) -> Result<Peer, ProtocolError> {
        let credentials =
            sockopt::socket_peercred(&self.stream).map_err(|errno| ProtocolError::Broken(errno.into()))?;
        Ok(Peer { pid: credentials.pid.as_raw_nonzero().get().unsigned_abs(), uid: credentials.uid.as_raw() })
    }

    /// Another handle of the same conversation, so that one thread receives while another one sends.
    ///
    /// # Errors
    /// [`ProtocolError::Broken`] when no descriptor is free.
    pub fn try_clone(&self) -> Result<Self, ProtocolError> {
        self.stream.try_clone().map(|stream| Self { stream }).map_err(ProtocolError::Broken)
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Sends one message.
    ///
    /// # Errors
    /// [`ProtocolError::Broken`], [`ProtocolError::TooLong`], [`ProtocolError::TooSlow`] if the other side doesn't
    /// read.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), ProtocolError> {
        let mut frame = vec![0; 4];
        serde_json::to_writer(&mut frame, message).map_err(ProtocolError::Malformed)?;
        let length = frame.len() - 4;
        let prefix =
            u32::try_from(length).ok().filter(|_| length <= LONGEST).ok_or(ProtocolError::TooLong(length))?;
        frame[..4].copy_from_slice(&prefix.to_le_bytes());
        self.stream.set_write_timeout(Some(PATIENCE)).map_err(ProtocolError::Broken)?;
        self.stream.write_all(&frame).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => ProtocolError::TooSlow,
            _ => ProtocolError::Broken(error),
        })
    }

    /// Waits for a message to begin, without limit, and receives it.
    ///
    /// # Errors
    /// Every [`ProtocolError`] except that of connecting.
    pub fn receive<M: DeserializeOwned>(&mut self) -> Result<M, ProtocolError> {
        self.receive_within(None)
    }

    /// As [`Connection::receive`], but waits no longer than `patience` for the message to begin.
    ///
    /// # Errors
    /// [`ProtocolError::TooSlow`] if the message doesn't begin in time; otherwise as [`Connection::receive`].
    pub fn receive_within<M: DeserializeOwned>(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<M, ProtocolError> {
        let mut first = [0];
        self.fill(&mut first, patience.map(|patience| Instant::now() + patience)).map_err(
            |error| match error {
                ProtocolError::Broken(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    ProtocolError::Gone
                }
                other => other,
            },
        )?;
        let until = Some(Instant::now() + PATIENCE);
        let mut rest = [0; 3];
        self.fill(&mut rest, until)?;
        let length = u32::from_le_bytes([first[0], rest[0], rest[1], rest[2]]) as usize;
        if length > LONGEST {
            return Err(ProtocolError::TooLong(length));
        }
        let mut bytes = vec![0; length];
        self.fill(&mut bytes, until)?;
        serde_json::from_slice(&bytes).map_err(ProtocolError::Malformed)
    }

    /// Passes an open file. The other side must have sent before that it waits for the file.
    ///
    /// # Errors
    /// [`ProtocolError::Broken`].
    pub fn pass(&mut self, file: BorrowedFd<'_>) -> Result<(), ProtocolError> {
        pass(&self.stream, file).map_err(|errno| ProtocolError::Broken(errno.into()))
    }

    /// Receives the file that the other side passes. This side must have sent before that it waits for the file.
    ///
    /// # Errors
    /// [`ProtocolError::TooSlow`]; [`ProtocolError::Broken`] if something other than a file comes.
    pub fn take(&mut self) -> Result<OwnedFd, ProtocolError> {
        self.stream.set_read_timeout(Some(PATIENCE)).map_err(ProtocolError::Broken)?;
        take(&self.stream).map_err(|errno| match errno {
            Errno::AGAIN => ProtocolError::TooSlow,
            errno => ProtocolError::Broken(errno.into()),
        })
    }

    fn fill(&mut self, mut buffer: &mut [u8], until: Option<Instant>) -> Result<(), ProtocolError> {
        while !buffer.is_empty() {
            let left = match until {
                None => None,
                Some(until) => match until.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => return Err(ProtocolError::TooSlow),
                    left => Some(left),
                },
            };
            self.stream.set_read_timeout(left).map_err(ProtocolError::Broken)?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(ProtocolError::Broken(ErrorKind::UnexpectedEof.into())),
                Ok(length) => buffer = &mut buffer[length..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(ProtocolError::TooSlow);
                }
                Err(error) => return Err(ProtocolError::Broken(error)),
            }
        }
        Ok(())
    }
}

/// Passes an open file over a socket, with one byte.
///
/// # Errors
/// As `sendmsg(2)`.
pub fn pass(stream: &UnixStream, file: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Receives an open file that the other side of a socket passes.
///
/// # Errors
/// As `recvmsg(2)`; `EBADMSG` if something other than a file comes.
pub fn take(stream: &UnixStream) -> Result<OwnedFd, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::io::retry_on_intr(|| {
        recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    passed.ok_or(Errno::BADMSG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn raw_pair() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Connection { stream: ours }, theirs)
    }

    #[test]
    fn both_sides_say_hello_first() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let other = thread::spawn(|| Connection::begin(theirs, "other").unwrap());
        let mut ours = Connection::begin(ours, "this").unwrap();
        let mut other = other.join().unwrap();
        ours.send(&vec![1, 2, 3]).unwrap();
        assert_eq!(other.receive::<Vec<u8>>().unwrap(), [1, 2, 3]);
        assert_eq!(other.peer().unwrap().uid, rustix::process::getuid().as_raw());
        drop(ours);
        assert!(matches!(other.receive::<u8>(), Err(ProtocolError::Gone)));
    }

    #[test]
    fn a_file_is_passed_when_it_is_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Connection { stream: ours }, Connection { stream: theirs });
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        theirs.pass(file.as_fd()).unwrap();
        let taken = rustix::fs::fstat(ours.take().unwrap()).unwrap();
        let passed = rustix::fs::fstat(&file).unwrap();
        assert_eq!((taken.st_dev, taken.st_ino), (passed.st_dev, passed.st_ino));
        theirs.send(&"no file").unwrap();
        assert!(matches!(ours.take(), Err(ProtocolError::Broken(_))));
    }

    #[test]
    fn another_version_is_refused() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut theirs = Connection { stream: theirs };
        theirs.send(&Hello { version: 99, program: "x".into() }).unwrap();
        assert!(matches!(Connection::begin(ours, "this"), Err(ProtocolError::OtherVersion { theirs: 99 })));
    }

    #[test]
    fn a_frame_may_not_be_endless() {
        let (mut ours, mut theirs) = raw_pair();
        theirs.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(matches!(ours.receive::<u8>(), Err(ProtocolError::TooLong(_))));
    }

    #[test]
    fn a_frame_that_breaks_off_is_no_message() {
        let (mut ours, mut theirs) = raw_pair();
        theirs.write_all(&[9, 0, 0, 0, b'1']).unwrap();
        drop(theirs);
        assert!(matches!(ours.receive::<u8>(), Err(ProtocolError::Broken(_))));
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let (mut ours, _theirs) = raw_pair();
        let patience = Some(Duration::from_millis(10));
        assert!(matches!(ours.receive_within::<u8>(patience), Err(ProtocolError::TooSlow)));
    }

    #[test]
    fn any_bytes_are_an_error_or_a_message() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let (mut ours, mut theirs) = raw_pair();
            if theirs.write_all(&bytes[..bytes.len().min(4096)]).is_ok() {
                drop(theirs);
                let _either = ours.receive::<crate::guard::Request>();
            }
        });
    }
}
