// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a store is: a directory that only the user can write to, and the files in it.
//!
//! SQLite derives the names of a database's log files from the database's name, and trusts the content of these files. So a
//! new database must never get its name while the log of another database is there. A process that makes a database or
//! moves one away holds the directory's lock exclusively; a process that opens a database holds the lock shared.

use std::ffi::OsString;
use std::io::Error;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::StoreError;

/// The files that SQLite puts beside a database: the write-ahead log, its index, and the rollback journal.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// The lock is held for as long as it takes to make a database, some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Identifies a file, to notice that another file has replaced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// The directory's lock, held until this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: Option<OwnedFd>,
}

/// A store's directory and file.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory, without links in its path.
    pub directory: PathBuf,
    /// The database.
    pub file: PathBuf,
}

impl Place {
    /// The place of `path`. Makes the directory if it isn't there.
    ///
    /// # Errors
    /// When the directory can't be made or isn't safe to use.
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
    /// When the directory can't be examined or isn't safe to use.
    pub fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        let directory = directory_of(path);
        // SQLite refuses links in a path. Only the directory that the link leads to must be the user's.
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

    /// Which file is there, if there is one and it is safe to use.
    ///
    /// # Errors
    /// When the file is a link, belongs to another user, or other users may write to it.
    pub fn identity(&self) -> Result<Option<Identity>, StoreError> {
        let Some(stat) = self.examine(&self.file, FileType::RegularFile, "regular file")? else {
            return Ok(None);
        };
        if stat.st_mode & 0o077 != 0 {
            // Other users must not read command lines. A copy or a restored backup may be readable for them.
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

    /// Prevents other processes from making a database here or moving one away.
    ///
    /// # Errors
    /// When another process holds the lock for longer than it should.
    pub fn lock_shared(&self) -> Result<Lock, StoreError> {
        // The lock file exists: it is made before the database.
        self.lock(FlockOperation::NonBlockingLockShared, OFlags::RDONLY)
    }

    fn lock_alone(&self) -> Result<Lock, StoreError> {
        self.lock(FlockOperation::NonBlockingLockExclusive, OFlags::RDWR | OFlags::CREATE)
    }

    fn lock(&self, operation: FlockOperation, access: OFlags) -> Result<Lock, StoreError> {
        // The lock is on a file of its own: closing a second descriptor of the database would drop the locks that SQLite
        // has on it.
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

    /// Makes the database if there is none. The database gets its name only once it is complete. `make` gets an empty file,
    /// and whether that is on a file system where the hosts that mount it don't share memory maps.
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
        // A process that ended early left these files; we hold the lock.
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

    /// Moves a damaged database away, unless another process did so meanwhile. Returns the new path.
    ///
    /// # Errors
    /// When it can't be moved.
    pub fn set_aside(&self, damaged: Identity) -> Result<Option<PathBuf>, StoreError> {
        let _lock = self.lock_alone()?;
        if self.identity()? != Some(damaged) {
            return Ok(None);
        }
        // One damaged database is enough to examine; a hundred would fill the disk.
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

    /// The path of the file whose name is this file's name followed by `end`.
    fn beside(&self, end: &str) -> PathBuf {
        self.directory.join(with_end(Path::new(""), &self.file, end))
    }

    /// Whether the directory is on a file system where the hosts that mount it don't share memory maps. The index of a
    /// write-ahead log needs a shared map.
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
