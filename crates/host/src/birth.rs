// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tells two files of one path apart: one that is removed and made again has another time of birth, even if the file
//! system gives it the same inode number.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Which file a path leads to. The device isn't compared: its number can change when the machine starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Birth {
    /// The inode number.
    pub inode: u64,
    /// Seconds since 1970. Zero where the file system keeps no time of birth.
    pub seconds: i64,
    /// Nanoseconds of that second.
    pub nanoseconds: u32,
}

impl Birth {
    /// The file at the end of `path`, links followed.
    ///
    /// # Errors
    /// When the file can't be examined.
    pub fn of(path: &Path) -> rustix::io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let stat = statx(CWD, path, AtFlags::empty(), wanted)?;
        let kept = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let (seconds, nanoseconds) =
            if kept { (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) } else { (0, 0) };
        Ok(Self { inode: stat.stx_ino, seconds, nanoseconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_made_again_is_another_one() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("project");
        std::fs::create_dir(&path).unwrap();
        let first = Birth::of(&path).unwrap();
        std::fs::write(path.join("file"), "").unwrap();
        assert_eq!(Birth::of(&path).unwrap(), first);
        std::fs::remove_dir_all(&path).unwrap();
        assert!(Birth::of(&path).is_err());
        std::fs::create_dir(&path).unwrap();
        assert_ne!(Birth::of(&path).unwrap(), first);
    }
}
