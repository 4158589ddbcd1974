// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between the daemon and the command line, and others that use the same frames, over a unix socket.
//!
//! A frame is its length (4 bytes, least significant first) and that many bytes of JSON; no frame is longer than
//! [`LONGEST`]. The first frame of each side is a [`Hello`] with its version of the protocol. In reading order:
//!
//! - [`Connection`]: sends and receives frames, and limits their length and the time that one takes
//! - [`guard`]: the guard's requests and answers
//! - [`learn`]: how a launcher asks the kernel to record the system calls of its programs
//! - [`launch`]: how a program that embeds Palisade has a command launched
//! - [`client`]: the client's side of a conversation; [`follow`]: receives the daemon's events
//! - [`date`]: formats the times in messages for people
//! - [`scope`]: the scopes' requests and answers
//! - [`network`]: the messages between a launcher and the gateway of its command's network
#![forbid(unsafe_code)]

pub mod client;
pub mod connection;
pub mod date;
pub mod follow;
pub mod guard;
pub mod launch;
pub mod learn;
pub mod network;
pub mod scope;

pub use connection::{Connection, Hello, LONGEST, Peer, ProtocolError, VERSION};
