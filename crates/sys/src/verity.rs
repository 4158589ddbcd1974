// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether fs-verity protects a file's content (`linux/fsverity.h`; the kernel's filesystems/fsverity).
//!
//! Content behind one measured digest can't change, not even by root: reads of other content fail.

use crate::raw;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `FS_IOC_MEASURE_VERITY`: `_IOWR('f', 134, struct fsverity_digest)`.
const MEASURE: usize = 0xc004_6686;

/// The length of the longest digest: SHA-512's.
const LONGEST: usize = 64;

/// `struct fsverity_digest` with room behind it.
#[repr(C)]
struct Answer {
    algorithm: u16,
    size: u16,
    digest: [u8; LONGEST],
}

/// A digest that identifies a file's whole content and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Measured {
    algorithm: u16,
    size: u16,
    digest: [u8; LONGEST],
}

impl Measured {
    /// A known digest; of a digest that is too long only the beginning is used.
    #[must_use]
    pub fn new(algorithm: u16, bytes: &[u8]) -> Self {
        let mut digest = [0; LONGEST];
        let mut size = 0;
        for (place, byte) in digest.iter_mut().zip(bytes) {
            *place = *byte;
            size += 1;
        }
        Self { algorithm, size, digest }
    }

    /// `FS_VERITY_HASH_ALG_SHA256` (1) or `FS_VERITY_HASH_ALG_SHA512` (2).
    #[must_use]
    pub fn algorithm(&self) -> u16 {
        self.algorithm
    }

    /// The digest of the file's hash tree and its parameters: not that of its content.
    #[must_use]
    pub fn digest(&self) -> &[u8] {
        self.digest.get(..self.size.into()).unwrap_or_default()
    }
}

/// The digest that fs-verity keeps; `None` if fs-verity doesn't protect the file, or the file system or the kernel
/// doesn't have it.
///
/// Only ext4, f2fs and btrfs are trusted. On other file systems (FUSE) a process may give the answer.
///
/// # Errors
/// If the kernel can't determine it (`EIO`).
pub fn measure(file: BorrowedFd<'_>) -> Result<Option<Measured>> {
    if !is_believed(file)? {
        return Ok(None);
    }
    let mut answer = Answer { algorithm: 0, size: 64, digest: [0; LONGEST] };
    let pointer = (&raw mut answer) as usize;
    let arguments = [raw::arg(file.as_fd().as_raw_fd()), MEASURE, pointer, 0, 0, 0];
    // SAFETY: needed because rustix doesn't have it. Sound: the kernel writes the head and no more of the digest than
    // `size` says there is room for, and the structure outlives the call.
    match unsafe { raw::syscall(libc::SYS_ioctl, arguments) } {
        Ok(_) => {
            let Answer { algorithm, size, digest } = answer;
            Ok(Some(Measured { algorithm, size, digest }))
        }
        Err(Errno::NODATA | Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether the file is on a file system (`linux/magic.h`) on which the kernel itself gives the answer.
fn is_believed(file: BorrowedFd<'_>) -> Result<bool> {
    const EXT4: i64 = 0xef53;
    const F2FS: i64 = 0xf2f5_2010;
    const BTRFS: i64 = 0x9123_683e;
    let about = rustix::fs::fstatfs(file)?;
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_wrap,
        reason = "the C libraries disagree about width and sign; these numbers are small"
    )]
    let kind = about.f_type as i64;
    Ok([EXT4, F2FS, BTRFS].contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_is_not_protected_is_not_measured() -> std::io::Result<()> {
        assert_eq!(measure(File::open("/proc/self/exe")?.as_fd()), Ok(None));
        assert_eq!(measure(File::open("/proc/self/maps")?.as_fd()), Ok(None));
        Ok(())
    }

    #[test]
    fn the_number_is_the_kernels() {
        let number = rustix::ioctl::opcode::read_write::<[u16; 2]>(b'f', 134);
        assert_eq!(usize::try_from(number), Ok(MEASURE));
    }
}
