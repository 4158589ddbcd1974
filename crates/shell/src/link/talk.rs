// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One conversation with palisaded that never waits: what can't be written now is kept, what hasn't come isn't there.

use palisade_protocol::scope::{Request, Response};
use palisade_protocol::{Hello, VERSION};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// No answer to what is asked here is longer, in bytes.
const LONGEST: usize = 256 << 10;
/// What this side calls itself.
const OWN_NAME: &str = concat!("palisade shell ", env!("CARGO_PKG_VERSION"));

/// Why a conversation is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum TalkError {
    /// Nobody listens, or nobody can be heard: no reason to say anything.
    #[error("it has gone")]
    Gone,
    /// Whoever listens is no palisaded of this version.
    #[error("it can't be understood: {0}")]
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
    /// With whoever listens there, if that is root or this user: others have nothing to say about processes.
    pub(super) fn begin(path: &Path) -> Result<Self, TalkError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|_| TalkError::Gone)?;
        let address = SocketAddrUnix::new(path).map_err(|_| TalkError::Gone)?;
        // To a socket of this kind there is no connection in progress: it is there, or there is no room.
        rustix::net::connect(&socket, &address).map_err(|_| TalkError::Gone)?;
        let peer = rustix::net::sockopt::socket_peercred(&socket).map_err(|_| TalkError::Gone)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::getuid() {
            return Err(TalkError::Strange(format!("user {} has no say here", peer.uid.as_raw())));
        }
        let mut talk = Self { socket, waiting: Vec::new(), come: Vec::new(), greeted: false };
        talk.put(&Hello { version: VERSION, program: OWN_NAME.into() })?;
        Ok(talk)
    }

    /// The socket.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the other side has yet to take what was said.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Asks something.
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

    /// Says what was kept.
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

    /// The next answer, if it has come.
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

    /// How long the first whole message is.
    fn frame(&self) -> Result<Option<usize>, TalkError> {
        let Some((prefix, rest)) = self.come.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(TalkError::Strange(format!("a message of {length} bytes")));
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
