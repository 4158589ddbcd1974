// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What daemons and the command line say to each other over a unix socket.
//!
//! A frame is its length (4 bytes, least significant first) and that many bytes of JSON; none is longer than
//! [`LONGEST`]. The first frame of each side is a [`Hello`] with the version it speaks. In reading order:
//!
//! - [`Connection`]: frames, with a limit on their length and on the time that one takes
//! - [`guard`]: what is asked of the guard, and what it answers
//! - [`learn`]: how a launcher has the kernel put down what its programs call
//! - [`launch`]: how a program that embeds Palisade has a command launched
//! - [`client`]: asking the daemon; [`follow`]: hearing what it tells
//! - [`date`]: the times in it, as people read them
//! - [`scope`]: what is asked about scopes, and what is answered
//! - [`network`]: what a launcher and the process that serves its command's network say to each other
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
