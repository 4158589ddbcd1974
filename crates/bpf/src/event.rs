// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events that the guard's programs report.

use std::time::Duration;

use crate::class::{Access, ObjectClass, SubjectClass};

/// One verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_BOOTTIME`.
    pub time: Duration,
    /// The access that was requested.
    pub access: Access,
    /// The answer.
    pub verdict: Verdict,
    /// The class of the task that requested it.
    pub subject: SubjectClass,
    /// The class of the file or memory.
    pub object: ObjectClass,
    /// Why the object has that class.
    pub reason: Reason,
    /// The task, in the first process namespace.
    pub thread: u32,
    /// Its process, in the first process namespace.
    pub process: u32,
    /// Its real user, in the first user namespace.
    pub uid: u32,
    /// Its name, up to 15 bytes, from before the exec.
    pub comm: Vec<u8>,
    /// Major and minor number of the file's file system; zeros for anonymous memory.
    pub device: (u32, u32),
    /// The file's inode number.
    pub inode: u64,
    /// The file's path as the task's root directory shows it. Missing for `mprotect`, and for paths above 1,023 bytes.
    pub path: Option<Vec<u8>>,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Allowed. Reported only if [`crate::GuardPrograms::report_allowed`] asks for it.
    Allowed,
    /// Refused with EPERM.
    Refused,
    /// The mode is permissive: the access happened.
    WouldBeRefused,
}

/// Why an object has its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// User space gave it.
    Classified,
    /// The file was never given a class, or was changed since, or the kernel dropped its inode from the cache.
    Never,
    /// Its class is of an older generation.
    Stale,
    /// A process has the file open for writing.
    Writer,
    /// The guard is reading the file to classify it.
    Unconfirmed,
    /// Its file system was mounted inside a user namespace.
    Foreign,
    /// It is memory without a file.
    Memory,
    /// It is on a file system that is exempt.
    Spared,
}
