// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of a file's content, as long as the file is unchanged.

use crate::kind::Kind;
use crate::kind::elf::ElfFacts;
use crate::nowait;
use rustix::fs::{FileType, Stat, Statx};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// In ns. Before the clock has ticked, a change of status is not always visible in `st_ctime` (kernels before 6.13). So
/// facts that were found out within this time after a change aren't kept.
const SETTLED: u128 = 20_000_000;

/// Identifies a file and the version of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The file system's device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its type and permissions.
    pub mode: u32,
    /// Its owner.
    pub owner: u32,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Identity {
    /// The identity in a status.
    #[must_use]
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        reason = "the C libraries disagree about the widths of these; none is negative or larger than what takes it"
    )]
    pub fn of(status: &Stat) -> Self {
        Self {
            device: status.st_dev as u64,
            inode: status.st_ino as u64,
            size: status.st_size as u64,
            mode: status.st_mode as u32,
            owner: status.st_uid as u32,
            modified: (status.st_mtime as i64, status.st_mtime_nsec as u64),
            changed: (status.st_ctime as i64, status.st_ctime_nsec as u64),
        }
    }

    /// The identity in a status that was looked up without asking the file's server.
    pub(crate) fn of_extended(status: &Statx) -> Self {
        let time = |time: rustix::fs::StatxTimestamp| (time.tv_sec, u64::from(time.tv_nsec));
        Self {
            device: rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor),
            inode: status.stx_ino,
            size: status.stx_size,
            mode: u32::from(status.stx_mode),
            owner: status.stx_uid,
            modified: time(status.stx_mtime),
            changed: time(status.stx_ctime),
        }
    }

    /// The key in a table.
    #[must_use]
    pub fn key(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether it is a file with content.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::RegularFile
    }

    /// Whether only root may change its content. Facts about it then hold until root changes it, and the kernel reports
    /// such a change. An access control list that lets other users write shows in the group's bits.
    #[must_use]
    pub fn is_roots(&self) -> bool {
        self.is_regular() && self.owner == 0 && self.mode & 0o022 == 0
    }

    /// Whether the last change is long enough ago that the next one will have a different time.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let changed =
            u128::try_from(self.changed.0).unwrap_or(0) * 1_000_000_000 + u128::from(self.changed.1);
        // A time in the future: the clock may have been set back.
        changed + SETTLED < now
    }

    /// Whether facts that are found out now hold for as long as this identity does: no process has the file open for
    /// writing, and a later write changes the identity.
    #[must_use]
    pub fn holds(&self, file: BorrowedFd<'_>) -> bool {
        self.is_settled() && palisade_sys::lease::no_writers(file).unwrap_or(false)
    }
}

/// The facts about one file at one path.
#[derive(Debug)]
pub struct Known {
    /// The file, as it was then.
    pub identity: Identity,
    /// Its path then: some kinds depend on the name as well.
    pub path: Box<[u8]>,
    /// Its type.
    pub kind: OnceLock<Kind>,
    /// Its SHA-256 in hexadecimal; `None` if it can't be read.
    pub hash: OnceLock<Option<Box<str>>>,
    /// What determines how it is started, if it is an ELF file.
    pub elf: OnceLock<Option<ElfFacts>>,
}

impl Known {
    /// No facts yet.
    #[must_use]
    pub fn new(identity: Identity, path: &[u8]) -> Self {
        Self {
            identity,
            path: path.into(),
            kind: OnceLock::new(),
            hash: OnceLock::new(),
            elf: OnceLock::new(),
        }
    }
}

/// In bytes. Larger files have no hash for rules: any user can make a huge file, and all others would wait until it is
/// read. A file that is trusted by its hash must have the recorded size, so only root can make that one huge.
pub const HASHED_FOR_RULES: u64 = 512 << 20;

/// Reading a file took longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow;

/// Whether all of a small file can be read without waiting for a disk.
pub(super) fn is_in_memory(file: BorrowedFd<'_>, identity: Identity) -> bool {
    let mut buffer = vec![0; usize::try_from(identity.size).unwrap_or(0)];
    !identity.is_regular() || nowait::read_at(file, 0, &mut buffer).is_ok()
}

/// The SHA-256 of a file in hexadecimal, if it stayed the same while it was read.
///
/// # Errors
/// [`TooSlow`].
pub fn sha256(
    file: BorrowedFd<'_>,
    identity: Identity,
    patience: Option<Duration>,
) -> Result<Option<Box<str>>, TooSlow> {
    if !identity.is_regular() {
        return Ok(None);
    }
    let begun = Instant::now();
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 128 << 10];
    let mut offset = 0;
    loop {
        match rustix::io::pread(file, &mut buffer, offset) {
            Ok(0) => break,
            Ok(length) => {
                hash.update(&buffer[..length]);
                offset += length as u64;
                // The file grows while it is read.
                if offset > identity.size {
                    return Ok(None);
                }
                if patience.is_some_and(|patience| begun.elapsed() > patience) {
                    return Err(TooSlow);
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Ok(None),
        }
    }
    let is_the_same = rustix::fs::fstat(file).is_ok_and(|status| Identity::of(&status) == identity);
    let hash = is_the_same
        .then(|| {
            hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
                let _cannot_fail = write!(text, "{byte:02x}");
                text
            })
        })
        .map(String::into_boxed_str);
    Ok(hash)
}
