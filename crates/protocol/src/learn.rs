// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a launcher asks the kernel to record the system calls of its programs.
//!
//! [`Request::Begin`] gets one [`Response::Begun`]. When the command has ended, [`Request::End`] gets one
//! [`Response::Called`] for each program, then [`Response::Done`]. Closing the connection ends the recording, too. Every
//! user may ask, about processes that the asking process starts.

use crate::guard::Refusal;
use serde::{Deserialize, Serialize};

/// The daemon's socket for learning.
pub const SOCKET: &str = "/run/palisade/learn.sock";

/// A request to the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// Record the calls of everything that the asking process starts from here on.
    Begin,
    /// End the recording and send it.
    End,
}

/// An answer of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// The recording has begun.
    Begun,
    /// The calls of one program.
    Called(Program),
    /// The last answer.
    Done {
        /// How many calls found no room: at most this number is missing.
        lost: u64,
    },
    /// The request is refused.
    Refused(Refusal),
}

/// A program and its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program's file, as its process saw it; empty if unknown.
    pub path: Vec<u8>,
    /// The device that the file is on, as the kernel numbers it: `major << 20 | minor`.
    pub device: u32,
    /// The file's inode number.
    pub inode: u64,
    /// The calls' numbers.
    pub calls: Vec<u32>,
}
