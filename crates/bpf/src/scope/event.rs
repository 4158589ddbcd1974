// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the scopes' programs report.

use std::time::Duration;

use super::Verdict;

/// Something that happened below a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_BOOTTIME`.
    pub time: Duration,
    /// What happened.
    pub kind: Kind,
    /// In which scope.
    pub scope: u32,
    /// Whose scope.
    pub owner: u32,
    /// What became of it. A scope whose verdict is to refuse kills where the security hook isn't called.
    pub verdict: Verdict,
    /// Why.
    pub why: Why,
    /// How many processes above the mark was found; 0 for the process's own.
    pub distance: u32,
    /// The file is only in memory.
    pub memory: bool,
    /// The task, in the first process namespace.
    pub thread: u32,
    /// Its process, in the first process namespace.
    pub process: u32,
    /// Its real user, in the first user namespace.
    pub uid: u32,
    /// Its parents, nearest first, up to eight.
    pub parents: Vec<u32>,
    /// Its name, up to 15 bytes: of an exec that happened, the new one.
    pub comm: Vec<u8>,
    /// Major and minor number of the executed file's file system: of a script's interpreter, if it has one.
    pub device: (u32, u32),
    /// The file's number there.
    pub inode: u64,
    /// The path as it was given to exec, up to 255 bytes; of a script, the script's.
    pub path: Vec<u8>,
    /// The arguments, up to 1,024 bytes of them; `None` where they can't be read.
    pub arguments: Option<Vec<Vec<u8>>>,
    /// Whether these are all.
    pub arguments_whole: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The exec for which the mark was made: its launcher became the command.
    Began,
    /// Another exec.
    Exec,
    /// A rare system call.
    Call {
        /// Its number.
        number: u32,
        /// Its first argument, the lower half.
        argument: u32,
    },
    /// A child has no mark: there is no memory for one.
    Unmarked,
}

/// Why a verdict is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// It is below a mark, nothing else.
    Watched,
    /// The scope's verdict.
    Mark,
    /// The file is denied.
    File,
    /// The file's name is denied.
    Name,
    /// The file is only in memory.
    Memory,
}
