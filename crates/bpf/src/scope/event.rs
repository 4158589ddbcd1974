// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events that the scopes' programs report.

use std::time::Duration;

use super::Verdict;

/// Something that a process below a mark did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_BOOTTIME`.
    pub time: Duration,
    /// What happened.
    pub kind: Kind,
    /// The scope's number.
    pub scope: u32,
    /// The user who owns the scope.
    pub owner: u32,
    /// The verdict that was carried out. If the verdict is to refuse and the security hook isn't called, the process is
    /// killed.
    pub verdict: Verdict,
    /// The reason of the verdict.
    pub why: Why,
    /// How many generations above the process the mark was found; 0 if the process itself is marked.
    pub distance: u32,
    /// Whether the file exists only in memory.
    pub memory: bool,
    /// The task, in the first process namespace.
    pub thread: u32,
    /// Its process, in the first process namespace.
    pub process: u32,
    /// Its real user, in the first user namespace.
    pub uid: u32,
    /// Its parents, nearest first, up to eight.
    pub parents: Vec<u32>,
    /// Its name, up to 15 bytes; after an exec, the new name.
    pub comm: Vec<u8>,
    /// Major and minor number of the executed file's file system. For a script, that of its interpreter.
    pub device: (u32, u32),
    /// The file's inode number.
    pub inode: u64,
    /// The path as it was given to exec, up to 255 bytes. For a script, the script's path.
    pub path: Vec<u8>,
    /// The arguments, up to 1,024 bytes of them; `None` if they can't be read.
    pub arguments: Option<Vec<Vec<u8>>>,
    /// Whether these are all arguments.
    pub arguments_whole: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The launch: the exec for which the mark was made, by which the launcher became the command.
    Began,
    /// Another exec.
    Exec,
    /// A rare system call.
    Call {
        /// The call's number.
        number: u32,
        /// The lower half of its first argument.
        argument: u32,
    },
    /// A child couldn't be marked, because there is no memory for its mark.
    Unmarked,
}

/// The reason of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// The exec is below a mark; there is no other reason.
    Watched,
    /// The scope's verdict.
    Mark,
    /// The file is denied.
    File,
    /// The file's name is denied.
    Name,
    /// The file exists only in memory.
    Memory,
}
