// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a launcher has the kernel put down what its programs call.
//!
//! [`Request::Begin`], one [`Response::Begun`]; when the command has ended, [`Request::End`], and one
//! [`Response::Called`] for each program, then [`Response::Done`]. Who hangs up ends it, too. Everybody may ask, about
//! what they start themselves.

use crate::guard::Refusal;
use serde::{Deserialize, Serialize};

/// Where the daemon listens.
pub const SOCKET: &str = "/run/palisade/learn.sock";

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// Put down what is called by what the asker starts from here on.
    Begin,
    /// Tell it.
    End,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// From here on.
    Begun,
    /// What one program called.
    Called(Program),
    /// That is all.
    Done {
        /// How many calls found no room: that so many may be missing.
        lost: u64,
    },
    /// It isn't done.
    Refused(Refusal),
}

/// A program and its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its file, as its process saw it; nothing if that isn't known.
    pub path: Vec<u8>,
    /// The device that the file is on, as the kernel numbers it: `major << 20 | minor`.
    pub device: u32,
    /// The file's number.
    pub inode: u64,
    /// The calls' numbers.
    pub calls: Vec<u32>,
}
