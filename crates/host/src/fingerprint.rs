// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records a file's state when a plan was made from it, so that the next launch can find out with one system call
//! whether the file is unchanged.
//!
//! A cached plan holds about 15 of these and is checked on every launch: one `stat` each (about
//! 1 µs), no open, no allocation beyond the path's terminator.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// On kernels before 6.13 (which introduced multigrain time stamps), time stamps change only with the timer tick: a
/// write within the same tick as the `stat` stays invisible. The slowest tick, HZ=100, is 10 ms. This is twice that
/// time.
const TICK: Duration = Duration::from_millis(20);

/// A file's identity and state at one moment, or its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fingerprint {
    /// Nothing was there (or a symbolic link that leads nowhere).
    Absent,
    /// Something was there.
    Present(State),
}

/// The result of `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// Device of the file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content, in nanoseconds since 1970.
    pub mtime: i128,
    /// Time of the last change of content or attributes, in nanoseconds since 1970. A program can set `mtime` to any
    /// value, but not this.
    pub ctime: i128,
    /// File type and permission bits (`st_mode`).
    pub mode: u32,
    /// The owner.
    pub uid: u32,
}

/// Why a fingerprint couldn't be taken.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// `stat` failed for another reason than absence.
    #[error("can't stat {path}: {source}")]
    Path {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// `fstat` failed.
    #[error("can't stat an open descriptor: {source}")]
    Descriptor {
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl Fingerprint {
    /// The fingerprint of the file at the end of `path`. Links are followed: a policy file that is a link into a
    /// dotfiles repository counts by its content, and a link whose target was changed leads to another device and
    /// inode.
    ///
    /// # Errors
    /// When `stat` fails for another reason than absence.
    #[inline]
    pub fn of(path: &Path) -> Result<Self, FingerprintError> {
        Self::from_result(path, rustix::fs::stat(path))
    }

    /// The fingerprint of `path` itself, even if it is a symbolic link.
    ///
    /// # Errors
    /// When `lstat` fails for another reason than absence.
    #[inline]
    pub fn of_link(path: &Path) -> Result<Self, FingerprintError> {
        Self::from_result(path, rustix::fs::lstat(path))
    }

    /// The fingerprint of an open file. Take it before and after reading: if both are equal, the fingerprint
    /// describes the content that was read.
    ///
    /// # Errors
    /// When `fstat` fails.
    #[inline]
    pub fn of_fd(fd: impl AsFd) -> Result<Self, FingerprintError> {
        rustix::fs::fstat(fd)
            .map(|stat| Self::Present(State::from(&stat)))
            .map_err(|source| FingerprintError::Descriptor { source: source.into() })
    }

    /// Whether `path` still matches this fingerprint. An unreadable path doesn't match.
    #[inline]
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        Self::of(path).is_ok_and(|now| now == *self)
    }

    /// Whether the fingerprint can be trusted to notice the next change: a file that changed
    /// within the last clock tick may change again without its time stamps moving. Don't cache
    /// under a fingerprint that isn't settled. Absence is always settled.
    #[must_use]
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let Self::Present(state) = self else {
            return true;
        };
        let now = match now.duration_since(UNIX_EPOCH) {
            Ok(since) => nanoseconds(since),
            Err(before) => -nanoseconds(before.duration()),
        };
        now - state.ctime.max(state.mtime) > nanoseconds(TICK)
    }

    fn from_result(path: &Path, result: Result<Stat, Errno>) -> Result<Self, FingerprintError> {
        match result {
            Ok(stat) => Ok(Self::Present(State::from(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Self::Absent),
            Err(source) => Err(FingerprintError::Path { path: path.to_owned(), source: source.into() }),
        }
    }
}

fn nanoseconds(duration: Duration) -> i128 {
    // Cannot be out of range: a duration holds at most 2^64 seconds, and 2^64 · 10^9 < 2^127.
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

impl From<&Stat> for State {
    fn from(stat: &Stat) -> Self {
        #[expect(
            clippy::cast_sign_loss,
            reason = "st_size of a file is never negative; the cast is the kernel's own width"
        )]
        let size = stat.st_size as u64;
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            size,
            mtime: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
            ctime: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
            mode: stat.st_mode,
            uid: stat.st_uid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn notices_content_mode_replacement_and_removal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(Fingerprint::of(&path).unwrap(), Fingerprint::Absent);
        fs::write(&path, "one").unwrap();
        let first = Fingerprint::of(&path).unwrap();
        assert!(first.matches(&path));
        assert!(!Fingerprint::Absent.matches(&path));

        fs::write(&path, "three").unwrap();
        assert!(!first.matches(&path), "content");

        let second = Fingerprint::of(&path).unwrap();
        let other = dir.path().join("g");
        fs::write(&other, "three").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!second.matches(&path), "replaced by rename");

        let third = Fingerprint::of(&path).unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
        fs::set_permissions(&path, permissions).unwrap();
        assert!(!third.matches(&path), "mode");

        fs::remove_file(&path).unwrap();
        assert!(Fingerprint::Absent.matches(&path));
    }

    #[test]
    fn a_link_counts_by_what_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, link) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("l"));
        fs::write(&a, "x").unwrap();
        fs::write(&b, "x").unwrap();
        std::os::unix::fs::symlink(&a, &link).unwrap();
        let by_link = Fingerprint::of(&link).unwrap();
        assert!(by_link.matches(&a));
        assert_ne!(by_link, Fingerprint::of_link(&link).unwrap());
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&b, &link).unwrap();
        assert!(!by_link.matches(&link));
        fs::remove_file(&b).unwrap();
        assert_eq!(Fingerprint::of(&link).unwrap(), Fingerprint::Absent);
    }

    #[test]
    fn descriptor_and_path_agree() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "x").unwrap();
        let file = fs::File::open(&path).unwrap();
        assert_eq!(Fingerprint::of_fd(&file).unwrap(), Fingerprint::of(&path).unwrap());
    }

    #[test]
    fn below_a_file_is_absent_not_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "x").unwrap();
        assert_eq!(Fingerprint::of(&path.join("below")).unwrap(), Fingerprint::Absent);
    }

    #[test]
    fn a_fresh_file_is_not_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "x").unwrap();
        let now = SystemTime::now();
        let print = Fingerprint::of(&path).unwrap();
        assert!(!print.is_settled(now));
        assert!(print.is_settled(now + Duration::from_secs(1)));
    }

    #[test]
    fn survives_serialisation() {
        let print = Fingerprint::of(Path::new("/")).unwrap();
        let text = serde_json::to_string(&print).unwrap();
        assert_eq!(serde_json::from_str::<Fingerprint>(&text).unwrap(), print);
    }
}
