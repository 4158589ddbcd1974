// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a store is: a directory that only the user can write to, and the files in it.
//!
//! SQLite names the files beside a database by the database's name, and believes what it finds there. So
//! a database never comes to be beside another one's log: who makes one, or moves one away, holds the lock of
//! the directory alone, and who opens one holds it with others.

use std::ffi::OsString;
use std::io::Error;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::StoreError;

/// What SQLite puts beside a database: the write-ahead log, its index, the journal for rolling back.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// The lock is held for as long as it takes to make a database, some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which file it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// Held until dropped.
#[derive(Debug)]
pub struct Lock {
    _file: Option<OwnedFd>,
}

/// A store's directory and file. The directory is without links.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory, without links in its path.
    pub directory: PathBuf,
    /// The database.
    pub file: PathBuf,
}

impl Place {
    /// The place of `path`, whose directory is made if it isn't there.
    ///
    /// # Errors
    /// When it can't be made or believed.
    pub fn make(path: &Path) -> Result<Self, StoreError> {
        let directory = directory_of(path);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed("make", directory))?;
        match Self::find(path)? {
            Some(place) => Ok(place),
            None => Err(failed("find", directory)(Errno::NOENT.into())),
        }
    }

    /// The place of `path`, unless there is no such directory.
    ///
    /// # Errors
    /// When the directory can't be looked at or believed.
    pub fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        let directory = directory_of(path);
        // SQLite refuses links in a path; that the directory is the user's is what counts.
        let directory = match directory.canonicalize() {
            Ok(directory) => directory,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("find", directory)(source)),
        };
        let file = directory.join(path.file_name().unwrap_or_default());
        let place = Self { directory, file };
        if place.examine(&place.directory, FileType::Directory, "directory")?.is_none() {
            return Ok(None);
        }
        Ok(Some(place))
    }

    /// Which file is there, if one is and it is believable.
    ///
    /// # Errors
    /// When it is a link, somebody else's, or others may write to it.
    pub fn identity(&self) -> Result<Option<Identity>, StoreError> {
        let Some(stat) = self.examine(&self.file, FileType::RegularFile, "regular file")? else {
            return Ok(None);
        };
        if stat.st_mode & 0o077 != 0 {
            // Command lines are nobody else's business; a copy or a backup may have come back readable.
            let _read_only = rustix::fs::chmod(&self.file, Mode::from_raw_mode(0o600));
        }
        Ok(Some(Identity { device: stat.st_dev, inode: stat.st_ino }))
    }

    fn examine(
        &self,
        path: &Path,
        kind: FileType,
        expected: &'static str,
    ) -> Result<Option<Stat>, StoreError> {
        let stat = match rustix::fs::lstat(path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed("examine", path)(errno.into())),
        };
        let path = path.to_owned();
        let mode = stat.st_mode & 0o7777;
        if FileType::from_raw_mode(stat.st_mode) != kind {
            Err(StoreError::Kind { path, expected })
        } else if stat.st_uid != rustix::process::geteuid().as_raw() {
            Err(StoreError::Foreign { path, uid: stat.st_uid })
        } else if mode & 0o022 != 0 {
            Err(StoreError::Writable { path, mode })
        } else {
            Ok(Some(stat))
        }
    }

    /// Keeps others from making a database here or moving one away.
    ///
    /// # Errors
    /// When others hold the lock for longer than anybody should.
    pub fn lock_shared(&self) -> Result<Lock, StoreError> {
        // Who makes a database makes the lock first.
        self.lock(FlockOperation::NonBlockingLockShared, OFlags::RDONLY)
    }

    fn lock_alone(&self) -> Result<Lock, StoreError> {
        self.lock(FlockOperation::NonBlockingLockExclusive, OFlags::RDWR | OFlags::CREATE)
    }

    fn lock(&self, operation: FlockOperation, access: OFlags) -> Result<Lock, StoreError> {
        // The database itself can't be used: closing it would drop the locks that SQLite has on it.
        let path = self.beside(".lock");
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => file,
            Err(Errno::NOENT) if !access.contains(OFlags::CREATE) => return Ok(Lock { _file: None }),
            Err(errno) => return Err(failed("open", &path)(errno.into())),
        };
        let begun = Instant::now();
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(Lock { _file: Some(file) }),
                Err(Errno::WOULDBLOCK) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(Errno::WOULDBLOCK) => return Err(StoreError::Busy { path }),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("lock", &path)(errno.into())),
            }
        }
    }

    /// Makes the database if there is none: whole, then under its name. `make` gets an empty file and whether
    /// it is on a file system whose memory maps aren't shared by everybody who has it.
    ///
    /// # Errors
    /// When it can't be made, also those of `make`.
    pub fn create(&self, make: impl FnOnce(&Path, bool) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let _lock = self.lock_alone()?;
        if self.identity()?.is_some() {
            return Ok(());
        }
        let fresh = Self {
            directory: self.directory.clone(),
            file: self.directory.join(with_end(Path::new("."), &self.file, ".new")),
        };
        // Whoever left these is gone: the lock is ours.
        remove(&fresh.file)?;
        for end in BESIDE {
            remove(&fresh.beside(end))?;
            remove(&self.beside(end))?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::open(&fresh.file, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| failed("make", &fresh.file)(errno.into()))?;
        make(&fresh.file, self.is_remote())?;
        std::fs::rename(&fresh.file, &self.file).map_err(failed("make", &self.file))
    }

    /// Moves a damaged database away, unless somebody else did meanwhile. Says where to.
    ///
    /// # Errors
    /// When it can't be moved.
    pub fn set_aside(&self, damaged: Identity) -> Result<Option<PathBuf>, StoreError> {
        let _lock = self.lock_alone()?;
        if self.identity()? != Some(damaged) {
            return Ok(None);
        }
        // One of them is enough to look at; a hundred would fill the disk.
        let aside = Self { directory: self.directory.clone(), file: self.beside(".damaged") };
        for end in BESIDE.into_iter().chain([""]) {
            let (from, to) = (self.beside(end), aside.beside(end));
            match std::fs::rename(&from, &to) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => remove(&to)?,
                moved => moved.map_err(failed("move", &from))?,
            }
        }
        Ok(Some(aside.file))
    }

    /// The file's name with something behind it.
    fn beside(&self, end: &str) -> PathBuf {
        self.directory.join(with_end(Path::new(""), &self.file, end))
    }

    /// Whether the directory is on a file system whose memory maps aren't shared by everybody who has it, as
    /// the index of a write-ahead log must be.
    fn is_remote(&self) -> bool {
        const CIFS: i64 = 0xff53_4d42;
        const SMB2: i64 = 0xfe53_4d42;
        const PLAN9: i64 = 0x0102_1997;
        const FUSE: i64 = 0x6573_5546;
        rustix::fs::statfs(&self.directory).is_ok_and(|found| {
            let kind = found.f_type;
            kind == rustix::fs::NFS_SUPER_MAGIC || [CIFS, SMB2, PLAN9, FUSE].contains(&kind)
        })
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn with_end(start: &Path, file: &Path, end: &str) -> OsString {
    let mut name = start.as_os_str().to_owned();
    name.push(file.file_name().unwrap_or_default());
    name.push(end);
    name
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed("remove", path)),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::File { action, path, source }
}
