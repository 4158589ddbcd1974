// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads one small file safely, even if a hostile project wrote it.
//!
//! A project decides what is at `.git` or `pyvenv.cfg`: it may be a FIFO without a writer, a device, or a file of
//! many gigabytes. So the file is opened without blocking, must be regular, and is read up to a cap.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

/// Why a file couldn't be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file couldn't be opened.
    #[error("can't open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The file couldn't be read to its end.
    #[error("can't read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The path names a directory, FIFO, socket or device.
    #[error("{path} isn't a regular file")]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than the cap for its kind.
    #[error("{path} is larger than {cap} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The cap, in bytes.
        cap: usize,
    },
}

impl FileError {
    /// Whether the file is missing, which is a normal answer for most callers.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Open { source, .. }
            if matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory))
    }
}

/// Whether a symbolic link in the last component is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Followed: for files that the user or the system keeps.
    Follow,
    /// Refused: for files that a project keeps.
    Refuse,
}

/// Reads a regular file of at most `cap` bytes.
///
/// # Errors
/// [`FileError`] when the file can't be opened, isn't regular, or is larger.
pub fn read(path: &Path, cap: usize, links: Links) -> Result<Vec<u8>, FileError> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let open_error =
        |source: rustix::io::Errno| FileError::Open { path: path.to_owned(), source: source.into() };
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(open_error)?;
    let stat = rustix::fs::fstat(&fd).map_err(open_error)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileError::NotRegular { path: path.to_owned() });
    }
    read_open(fd.into(), path, cap)
}

/// Reads an open file of at most `cap` bytes; `path` is for errors.
///
/// # Errors
/// [`FileError`] when the file can't be read, or is larger.
pub(crate) fn read_open(file: File, path: &Path, cap: usize) -> Result<Vec<u8>, FileError> {
    // The size isn't trusted (files of /proc say 0, others grow). The read asks for one byte beyond the cap, and if
    // that byte arrives the file is too large.
    let limit = u64::try_from(cap).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    if bytes.len() > cap {
        return Err(FileError::TooLarge { path: path.to_owned(), cap });
    }
    Ok(bytes)
}

/// Reads a small kernel file (sysctl, sysfs attribute) as trimmed text; `None` where it is missing or can't be read.
/// In both cases the kernel doesn't tell us the value.
#[must_use]
pub fn read_attribute(path: &Path) -> Option<String> {
    const CAP: usize = 64 * 1024;
    let bytes = read(path, CAP, Links::Follow).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_up_to_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5, Links::Refuse).unwrap(), b"12345");
        assert!(matches!(read(&path, 4, Links::Refuse), Err(FileError::TooLarge { cap: 4, .. })));
    }

    #[test]
    fn refuses_what_is_no_regular_file_without_hanging() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for path in [fifo.as_path(), dir.path(), Path::new("/dev/zero")] {
            assert!(matches!(read(path, 10, Links::Follow), Err(FileError::NotRegular { .. })));
        }
    }

    #[test]
    fn a_link_is_followed_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("t");
        std::fs::write(&target, b"x").unwrap();
        let link = dir.path().join("l");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(read(&link, 10, Links::Follow).is_ok());
        assert!(matches!(read(&link, 10, Links::Refuse), Err(FileError::Open { .. })));
    }

    #[test]
    fn absence_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(&dir.path().join("none"), 1, Links::Follow).unwrap_err();
        assert!(error.is_absent());
    }
}
