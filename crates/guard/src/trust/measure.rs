// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hashes files, and knows when a file needn't be hashed again.
//!
//! A file that looks as it did when it was hashed ([`Seen`]) counts as unchanged: same device, inode, size, time of
//! modification and time of change. No user can set the last one, not even root, except by changing the clock or the
//! disk below the file system. There are three gaps. Where one applies, the looks aren't recorded, so that the file is
//! hashed again each time:
//!
//! - Times have a granularity: ticks of 1–10 ms before Linux 6.13's multigrain time stamps, a second on some file
//!   systems. A file that changed in the [`SETTLED`] time before it was hashed could change again without looking
//!   different.
//! - A process that has a file mapped for writing can change it later without updating its times at once. So only files
//!   that root owns and no other user may write are recorded. Changing them takes root, and root can change this
//!   database, too.
//! - A file that changes while it is hashed is an error.
//!
//! What remains is changes by root (clock, raw disk) and file systems that report wrong times (network, FUSE). An
//! import that hashes everything again, and [`verify`](super::verify), detect such changes.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use md5::Md5;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::entry::{Digest, Seen};

/// How long a file must be unchanged before its looks are worth recording.
pub const SETTLED: Duration = Duration::from_secs(2);
/// How much is read at once, in bytes; also what a worker holds in memory.
const READ: usize = 128 << 10;

/// The result of hashing a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// How many bytes it has.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: Digest,
    /// Its MD5, if that was asked for.
    pub md5: Option<[u8; 16]>,
    /// How it looked, if that is worth recording.
    pub seen: Option<Seen>,
}

/// A file can't be hashed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no file of that name.
    #[error("it isn't there")]
    Missing,
    /// It is a link, a directory, a device…
    #[error("it isn't a regular file")]
    NotRegular,
    /// The user who hashes may not read it.
    #[error("reading it isn't permitted")]
    Unreadable,
    /// It changed while it was read.
    #[error("it changed while it was hashed")]
    Unstable,
    /// Anything else.
    #[error("it can't be read: {0}")]
    Read(io::Error),
}

/// Hashes files; keeps a buffer between them.
#[derive(Debug)]
pub struct Meter {
    buffer: Vec<u8>,
}

impl Default for Meter {
    fn default() -> Self {
        Self { buffer: vec![0; READ] }
    }
}

impl Meter {
    /// Hashes the file at `path`, in which no component may be a link. Also computes its MD5 if `md5` is the expected
    /// one.
    ///
    /// # Errors
    ///
    /// If it can't be opened or read, isn't a regular file, or changes meanwhile.
    pub fn measure(&mut self, path: &Path, md5: Option<[u8; 16]>) -> Result<Measured, Error> {
        let file = open(path)?;
        self.measure_open(&file, md5)
    }

    /// The same for a file that may be opened with `O_PATH`.
    ///
    /// # Errors
    ///
    /// As for [`Meter::measure`].
    pub fn measure_path(&mut self, file: BorrowedFd<'_>) -> Result<Measured, Error> {
        // Opening a file of another type could block, or have side effects.
        let kind = FileType::from_raw_mode(
            rustix::fs::fstat(file).map_err(|errno| Error::Read(errno.into()))?.st_mode,
        );
        if kind != FileType::RegularFile {
            return Err(Error::NotRegular);
        }
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(Error::Read)?;
        self.measure_open(&file, None)
    }

    /// The same for an open file, from its current position.
    ///
    /// # Errors
    ///
    /// As for [`Meter::measure`].
    pub fn measure_open(&mut self, mut file: &File, md5: Option<[u8; 16]>) -> Result<Measured, Error> {
        let started = SystemTime::now();
        let before = file.metadata().map_err(Error::Read)?;
        if !before.is_file() {
            return Err(Error::NotRegular);
        }
        let (mut sha256, mut by_package) = (Sha256::new(), md5.map(|_| Md5::new()));
        let mut size = 0;
        loop {
            let read = match file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::Read(error)),
            };
            size += read as u64;
            if size > before.len() {
                return Err(Error::Unstable);
            }
            sha256.update(&self.buffer[..read]);
            if let Some(md5) = &mut by_package {
                md5.update(&self.buffer[..read]);
            }
        }
        let after = file.metadata().map_err(Error::Read)?;
        let expected = md5.unwrap_or_default();
        if size != before.len() || looks(&before, expected) != looks(&after, expected) {
            return Err(Error::Unstable);
        }
        let seen = looks(&after, expected);
        Ok(Measured {
            size,
            sha256: Digest::Sha256(sha256.finalize().into()),
            md5: by_package.map(|md5| md5.finalize().into()),
            seen: is_settled(&after, &seen, started).then_some(seen),
        })
    }
}

/// The looks of a file whose expected MD5 is `md5`, or zeros.
#[must_use]
pub fn looks(about: &Metadata, md5: [u8; 16]) -> Seen {
    let nanoseconds = |seconds: i64, more: i64| seconds.saturating_mul(1_000_000_000).saturating_add(more);
    Seen {
        device: about.dev(),
        inode: about.ino(),
        modified: nanoseconds(about.mtime(), about.mtime_nsec()),
        changed: nanoseconds(about.ctime(), about.ctime_nsec()),
        md5,
    }
}

fn is_settled(about: &Metadata, seen: &Seen, started: SystemTime) -> bool {
    let now = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let settled = now.saturating_sub(SETTLED).as_nanos();
    let long_ago = |time: i64| u128::try_from(time).is_ok_and(|time| time < settled);
    about.uid() == 0 && about.mode() & 0o022 == 0 && long_ago(seen.changed) && long_ago(seen.modified)
}

/// Finds a file without opening it, so that the guard gets no question. Links aren't followed.
///
/// # Errors
///
/// If it doesn't exist.
pub fn find(path: &Path) -> Result<OwnedFd, Error> {
    open_with(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC).map(OwnedFd::from)
}

/// Opens a file to hash it. Links aren't followed, and devices and pipes can't block.
fn open(path: &Path) -> Result<File, Error> {
    open_with(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC)
}

fn open_with(path: &Path, flags: OFlags) -> Result<File, Error> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        return match openat2(CWD, path, flags, Mode::empty(), resolve) {
            Ok(file) => Ok(file.into()),
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(Errno::NOENT | Errno::NOTDIR) => Err(Error::Missing),
            Err(Errno::LOOP | Errno::NXIO) => Err(Error::NotRegular),
            Err(Errno::ACCESS | Errno::PERM) => Err(Error::Unreadable),
            Err(errno) => Err(Error::Read(errno.into())),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn directory() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        (directory, path)
    }

    #[test]
    fn digests_are_those_of_everyone_else() {
        let (_kept, directory) = directory();
        let path = directory.join("abc");
        fs::write(&path, "abc").unwrap();
        let measured = Meter::default().measure(&path, Some([0; 16])).unwrap();
        assert_eq!(measured.size, 3);
        assert_eq!(
            measured.sha256.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let md5 = Digest::Md5(measured.md5.unwrap()).to_string();
        assert_eq!(md5, "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(measured.seen, None, "it has only just changed");
    }

    #[test]
    fn only_settled_files_of_root_are_known_again() {
        let (_kept, directory) = directory();
        let path = directory.join("abc");
        fs::write(&path, "abc").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let about = fs::metadata(&path).unwrap();
        let seen = looks(&about, [0; 16]);
        let later = SystemTime::now() + Duration::from_secs(3);
        let root = about.uid() == 0;
        assert_eq!(is_settled(&about, &seen, later), root);
        assert!(!is_settled(&about, &seen, SystemTime::now()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let about = fs::metadata(&path).unwrap();
        assert!(!is_settled(&about, &looks(&about, [0; 16]), later), "others may have it mapped");
    }

    #[test]
    fn links_and_pipes_are_not_followed() {
        let (_kept, directory) = directory();
        fs::write(directory.join("file"), "x").unwrap();
        symlink("file", directory.join("link")).unwrap();
        fs::create_dir(directory.join("real")).unwrap();
        fs::write(directory.join("real/file"), "x").unwrap();
        symlink("real", directory.join("linked")).unwrap();
        rustix::fs::mknodat(CWD, directory.join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let mut meter = Meter::default();
        let mut measure = |name: &str| meter.measure(&directory.join(name), None);
        assert!(measure("file").is_ok());
        assert!(matches!(measure("link"), Err(Error::NotRegular)));
        assert!(matches!(measure("linked/file"), Err(Error::NotRegular)));
        assert!(matches!(measure("pipe"), Err(Error::NotRegular)));
        assert!(matches!(measure("real"), Err(Error::NotRegular)));
        assert!(matches!(measure("nothing"), Err(Error::Missing)));
    }
}
