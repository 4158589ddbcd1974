// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the programs report.

use std::time::Duration;

use crate::class::{Access, ObjectClass, SubjectClass};

/// One verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_BOOTTIME`.
    pub time: Duration,
    /// What was asked.
    pub access: Access,
    /// What was answered.
    pub verdict: Verdict,
    /// Who asked.
    pub subject: SubjectClass,
    /// What for.
    pub object: ObjectClass,
    /// Why the object has that class.
    pub reason: Reason,
    /// The task, in the first process namespace.
    pub thread: u32,
    /// Its process, in the first process namespace.
    pub process: u32,
    /// Its real user, in the first user namespace.
    pub uid: u32,
    /// Its name, up to 15 bytes, as it was before the exec.
    pub comm: Vec<u8>,
    /// Major and minor number of the file's file system; zeros for anonymous memory.
    pub device: (u32, u32),
    /// The file's number there.
    pub inode: u64,
    /// The file as the task's root sees it. `mprotect` isn't told it, nor are paths above 1,023 bytes.
    pub path: Option<Vec<u8>>,
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Reported only where that was asked for.
    Allowed,
    /// EPERM.
    Refused,
    /// Permissive: it happened.
    WouldBeRefused,
}

/// Why an object has its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was given it.
    Classified,
    /// Nobody gave it one, or the file was changed since, or the kernel dropped it from its caches.
    Never,
    /// Its class is of an older generation.
    Stale,
    /// Somebody has it open for writing.
    Writer,
    /// It is being read by who classifies it.
    Unconfirmed,
    /// Its file system was mounted inside a user namespace.
    Foreign,
    /// It is memory.
    Memory,
    /// It is on a file system that is left alone.
    Spared,
}
