// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection to palisaded that never waits. Data that can't be written now is kept; `answer` returns only complete
//! messages.

use palisade_protocol::scope::{Request, Response};
use palisade_protocol::{Hello, VERSION};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The longest possible answer, in bytes.
const LONGEST: usize = 256 << 10;
/// This program's name in the greeting.
const OWN_NAME: &str = concat!("palisade shell ", env!("CARGO_PKG_VERSION"));

/// Why a conversation is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum TalkError {
    /// No daemon listens, or the connection is lost. This isn't reported.
    #[error("palisaded is gone")]
    Gone,
    /// The listening process isn't a palisaded of this version.
    #[error("can't understand palisaded: {0}")]
    Strange(String),
}

/// The conversation.
#[derive(Debug)]
pub(super) struct Talk {
    socket: OwnedFd,
    waiting: Vec<u8>,
    come: Vec<u8>,
    greeted: bool,
}

impl Talk {
    /// Connects to the listening process, if it runs as root or as this user. Other users' processes have no authority
    /// over processes.
    pub(super) fn begin(path: &Path) -> Result<Self, TalkError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|_| TalkError::Gone)?;
        let address = SocketAddrUnix::new(path).map_err(|_| TalkError::Gone)?;
        // A connection to a unix socket is never in progress: it exists at once, or there is no room for it.
        rustix::net::connect(&socket, &address).map_err(|_| TalkError::Gone)?;
        let peer = rustix::net::sockopt::socket_peercred(&socket).map_err(|_| TalkError::Gone)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::getuid() {
            return Err(TalkError::Strange(format!(
                "its socket belongs to a process of user {}",
                peer.uid.as_raw()
            )));
        }
        let mut talk = Self { socket, waiting: Vec::new(), come: Vec::new(), greeted: false };
        talk.put(&Hello { version: VERSION, program: OWN_NAME.into() })?;
        Ok(talk)
    }

    /// The socket.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether some requests aren't written yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends a request.
    pub(super) fn ask(&mut self, request: &Request) -> Result<(), TalkError> {
        self.put(request)
    }

    fn put(&mut self, message: &impl serde::Serialize) -> Result<(), TalkError> {
        let frame = serde_json::to_vec(message).map_err(|error| TalkError::Strange(error.to_string()))?;
        let length = u32::try_from(frame.len()).map_err(|error| TalkError::Strange(error.to_string()))?;
        if self.waiting.len() > LONGEST {
            return Err(TalkError::Gone);
        }
        self.waiting.extend(length.to_le_bytes());
        self.waiting.extend(frame);
        self.flush()
    }

    /// Writes the data that was kept.
    pub(super) fn flush(&mut self) -> Result<(), TalkError> {
        while !self.waiting.is_empty() {
            match rustix::net::send(&self.socket, &self.waiting, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Err(TalkError::Gone),
            }
        }
        Ok(())
    }

    /// The next answer, if it has arrived completely.
    pub(super) fn answer(&mut self) -> Result<Option<Response>, TalkError> {
        let mut open = true;
        loop {
            if let Some(frame) = self.frame()? {
                if self.greeted {
                    return self.understand(frame).map(Some);
                }
                let hello: Hello = self.understand(frame)?;
                if hello.version != VERSION {
                    let words = format!("it speaks version {} of the protocol", hello.version);
                    return Err(TalkError::Strange(words));
                }
                self.greeted = true;
                continue;
            }
            if !open {
                return Err(TalkError::Gone);
            }
            let mut bytes = [0; 4096];
            match rustix::io::read(&self.socket, &mut bytes) {
                Ok(0) => open = false,
                Ok(count) => self.come.extend_from_slice(bytes.get(..count).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(_) => return Err(TalkError::Gone),
            }
        }
    }

    /// The length of the first complete message.
    fn frame(&self) -> Result<Option<usize>, TalkError> {
        let Some((prefix, rest)) = self.come.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(TalkError::Strange(format!("it sent a message of {length} bytes")));
        }
        Ok((rest.len() >= length).then_some(length))
    }

    fn understand<M: serde::de::DeserializeOwned>(&mut self, length: usize) -> Result<M, TalkError> {
        let message = self.come.get(4..4 + length).unwrap_or_default();
        let message =
            serde_json::from_slice(message).map_err(|error| TalkError::Strange(error.to_string()))?;
        self.come.drain(..4 + length);
        Ok(message)
    }
}
