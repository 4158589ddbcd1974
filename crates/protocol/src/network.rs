// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between a launcher and the gateway (the process that serves its command's network), over one stream socket.
//!
//! A message is its length (four bytes, least significant first) and that many bytes of JSON, as a frame of
//! [`Connection`](crate::Connection). [`frame`] writes all messages, and [`Frames`] reads all. The gateway handles data of
//! untrusted processes and hosts, so the launcher only shows what the gateway sends and doesn't rely on it.

use crate::ProtocolError;
use palisade_event::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// A message from the gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "kebab-case")]
pub enum Told {
    /// An event happened. The launcher fills in its subject.
    Event {
        /// The event.
        event: Box<Event>,
        /// For a refusal: the socket that asked, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Held>,
    },
    /// A question to the user.
    Question(Question),
    /// Events weren't sent, because the launcher didn't read.
    Lost {
        /// How many.
        count: u64,
    },
}

/// The socket that asked for what was refused. The gateway lets its request wait until the event is
/// [noted](Instruction::Noted) or a moment has passed, so that the launcher can still find the process of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The event's number.
    pub number: u64,
    /// The asking socket.
    pub asker: Asker,
}

/// A socket of the sandbox's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// Its own address.
    pub address: SocketAddr,
    /// Whether it is a UDP socket.
    pub datagrams: bool,
}

/// A question to the user. The launcher always answers it: with no, if the user doesn't within a minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The number by which an answer names its question.
    pub number: u64,
    /// The host that a command wants to reach.
    pub host: String,
    /// The port; 0 where the name is only looked up.
    pub port: u16,
}

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the connection is allowed.
    pub allow: bool,
    /// Whether the answer holds for the same host and port until the command ends, or only for the requests that wait now.
    pub session: bool,
}

/// Why the user wasn't asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unasked {
    /// There is no terminal.
    NoTerminal,
    /// Another job has the terminal.
    Background,
    /// Too many other questions wait, or were asked lately.
    TooMany,
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTerminal => "there is no terminal",
            Self::Background => "another job is in the foreground of the terminal",
            Self::TooMany => "there were too many questions",
        })
    }
}

/// The contents of the host's name resolution files, so that the gateway needs no right to read them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolving {
    /// `/etc/resolv.conf`.
    pub resolv_conf: String,
    /// `/etc/hosts`.
    pub hosts: String,
}

/// A message from the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Instruction {
    /// The answer to a question.
    Answer {
        /// The question's number.
        number: u64,
        /// What was answered.
        answer: Answer,
    },
    /// The user can't be asked.
    Unasked {
        /// The question's number.
        number: u64,
        /// Why.
        why: Unasked,
    },
    /// The launcher has read an event and looked up the process that asked.
    Noted {
        /// The event's number.
        number: u64,
    },
    /// The host's files have changed.
    Resolving(Resolving),
}

/// A message as bytes, with its length in front.
///
/// # Errors
/// When the message is longer than four bytes can express.
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>, ProtocolError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).map_err(ProtocolError::Malformed)?;
    let length = frame.len() - 4;
    let prefix = u32::try_from(length).map_err(|_| ProtocolError::TooLong(length))?;
    frame[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(frame)
}

/// Splits a stream of bytes into messages.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    /// How many of these bytes were already returned as messages.
    taken: usize,
    longest: usize,
}

impl Frames {
    /// Accepts messages of at most `longest` bytes.
    #[must_use]
    pub const fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), taken: 0, longest }
    }

    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it has arrived completely. After a message that is [too long](ProtocolError::TooLong) nothing
    /// more can be read. The next call skips a message that can't be [understood](ProtocolError::Malformed).
    pub fn take<M: DeserializeOwned>(&mut self) -> Option<Result<M, ProtocolError>> {
        let (header, rest) = self.bytes.get(self.taken..)?.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*header) as usize;
        if length > self.longest {
            return Some(Err(ProtocolError::TooLong(length)));
        }
        let message = serde_json::from_slice(rest.get(..length)?).map_err(ProtocolError::Malformed);
        self.taken += header.len() + length;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_event::{Detail, Mechanism, Network, Object, Operation, Outcome, Subject, Verdict, Why};
    use std::time::{Duration, SystemTime};

    fn told() -> Vec<Told> {
        let event = Event::new(
            SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 42),
            Detail::Network(Network { sent: 7, ..Network::new(Outcome::Refused) }),
            Subject::default(),
            (Operation::Connect, Object::host("evil.example", 443)),
            (Verdict::Refused, Mechanism::Gateway),
            Why::text("no rule allows it"),
        );
        let asker = Asker { address: "198.18.0.1:1234".parse().unwrap(), datagrams: true };
        vec![
            Told::Event { event: event.clone().into(), held: Some(Held { number: 3, asker }) },
            Told::Event { event: event.into(), held: None },
            Told::Question(Question { number: 4, host: "a.example".into(), port: 0 }),
            Told::Lost { count: u64::MAX },
        ]
    }

    #[test]
    fn messages_survive_however_they_are_cut() {
        let all: Vec<u8> = told().iter().flat_map(|told| frame(told).unwrap()).collect();
        for size in [1, 3, 7, all.len()] {
            let mut frames = Frames::new(1 << 16);
            let mut read = Vec::new();
            for part in all.chunks(size) {
                frames.push(part);
                while let Some(message) = frames.take::<Told>() {
                    read.push(message.unwrap());
                }
            }
            assert_eq!(read, told(), "{size} bytes at a time");
        }
    }

    #[test]
    fn instructions_survive() {
        let resolving = Resolving { resolv_conf: "nameserver ::1\n".into(), hosts: "\u{7f}".into() };
        let all = [
            Instruction::Answer { number: 1, answer: Answer { allow: true, session: false } },
            Instruction::Unasked { number: 2, why: Unasked::Background },
            Instruction::Noted { number: 3 },
            Instruction::Resolving(resolving),
        ];
        let mut frames = Frames::new(1 << 16);
        all.iter().for_each(|instruction| frames.push(&frame(instruction).unwrap()));
        for instruction in all {
            assert_eq!(frames.take::<Instruction>().unwrap().unwrap(), instruction);
        }
        assert!(frames.take::<Instruction>().is_none());
    }

    #[test]
    fn what_is_no_message_is_passed_over_and_what_is_too_long_is_the_end() {
        let mut frames = Frames::new(100);
        frames.push(&[3, 0, 0, 0, b'a', b'b', b'c']);
        frames.push(&frame(&Told::Lost { count: 1 }).unwrap());
        assert!(matches!(frames.take::<Told>(), Some(Err(ProtocolError::Malformed(_)))));
        assert_eq!(frames.take::<Told>().unwrap().unwrap(), Told::Lost { count: 1 });
        frames.push(&101u32.to_le_bytes());
        for _again in 0..2 {
            assert!(matches!(frames.take::<Told>(), Some(Err(ProtocolError::TooLong(101)))));
        }
    }

    #[test]
    fn any_bytes_are_read() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let mut frames = Frames::new(1 << 12);
            frames.push(bytes);
            while let Some(read) = frames.take::<Told>() {
                if matches!(read, Err(ProtocolError::TooLong(_))) {
                    break;
                }
            }
        });
    }
}
