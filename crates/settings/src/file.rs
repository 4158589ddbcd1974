// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a settings file, and replaces it as a whole.
//!
//! A file that another user owns is never changed, nor one that another user's link leads to: its owner decides what is
//! in it.

use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The largest file that is read. Claude Code keeps histories of projects beside its settings.
pub const LARGEST: u64 = 64 << 20;

/// A settings file can't be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A system call failed.
    #[error("can't {action} {path:?}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file belongs to another user.
    #[error("refusing to change {path:?}: user {owner} owns it")]
    Foreign {
        /// The file, or the link to it.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// It isn't a file.
    #[error("refusing to change {path:?}: it isn't a regular file")]
    NotFile {
        /// The path.
        path: PathBuf,
    },
    /// It is too large.
    #[error("refusing to read {path:?}: it is larger than {} MiB", LARGEST >> 20)]
    Large {
        /// The file.
        path: PathBuf,
    },
    /// Another program has written the file meanwhile.
    #[error("refusing to replace {path:?}: it was changed meanwhile")]
    Raced {
        /// The file.
        path: PathBuf,
    },
}

impl FileError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// A settings file as it was read.
#[derive(Debug)]
pub struct Loaded {
    /// The file itself: no part of the path is a link to it.
    pub path: PathBuf,
    /// Its content. `None`: there is no such file.
    pub content: Option<Vec<u8>>,
    stat: Option<Stat>,
}

impl Loaded {
    /// Reads a file of this user.
    ///
    /// # Errors
    /// The file or a link to it belongs to another user, or can't be read.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let user = rustix::process::geteuid().as_raw();
        let owned = |stat: &Stat, path: &Path| match stat.st_uid {
            owner if owner == user => Ok(()),
            owner => Err(FileError::Foreign { path: path.to_owned(), owner }),
        };
        // One file has one name in the records, whichever way its directory is named.
        let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
        let real = directory.zip(path.file_name()).map(|(directory, name)| directory.join(name));
        let path = real.as_deref().unwrap_or(path);
        let link = match rustix::fs::lstat(path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Self { path: path.to_owned(), content: None, stat: None }),
            Err(errno) => return Err(FileError::io("examine", path)(errno.into())),
        };
        owned(&link, path)?;
        let mut target = path.to_owned();
        if FileType::from_raw_mode(link.st_mode) == FileType::Symlink {
            target = std::fs::canonicalize(path).map_err(FileError::io("follow the link", path))?;
        }
        // A FIFO would keep the caller waiting, and a link may have been put in place meanwhile.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::open(&target, flags, Mode::empty())
            .map_err(|errno| FileError::io("read", &target)(errno.into()))?;
        let stat =
            rustix::fs::fstat(&file).map_err(|errno| FileError::io("examine", &target)(errno.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileError::NotFile { path: target });
        }
        owned(&stat, &target)?;
        let mut content = Vec::new();
        File::from(file)
            .take(LARGEST + 1)
            .read_to_end(&mut content)
            .map_err(FileError::io("read", &target))?;
        if u64::try_from(content.len()).is_ok_and(|length| length > LARGEST) {
            return Err(FileError::Large { path: target });
        }
        Ok(Self { path: target, content: Some(content), stat: Some(stat) })
    }

    /// Replaces the file. A process that is killed leaves the old content or the new one. A new file gets `mode`, an
    /// existing one keeps its own. Returns the directories that were made.
    ///
    /// # Errors
    /// The content can't be written, or the file was changed since it was read. It then is as it was.
    pub fn replace(&self, content: &[u8], mode: u32) -> Result<Vec<PathBuf>, FileError> {
        let made = self.make_directories()?;
        let temporary = temporary(&self.path);
        let written = self.write(&temporary, content, mode).and_then(|()| self.put(&temporary));
        if let Err(error) = written {
            let _not_made = rustix::fs::unlink(&temporary);
            remove_empty(&made);
            return Err(error);
        }
        sync_directory(&self.path);
        Ok(made)
    }

    /// Removes the file, and the directories among `made` that are empty.
    ///
    /// # Errors
    /// It can't be removed, or was changed since it was read.
    pub fn remove(&self, made: &[PathBuf]) -> Result<(), FileError> {
        self.check()?;
        std::fs::remove_file(&self.path).map_err(FileError::io("remove", &self.path))?;
        sync_directory(&self.path);
        remove_empty(made);
        Ok(())
    }

    /// Makes the missing directories above the file.
    fn make_directories(&self) -> Result<Vec<PathBuf>, FileError> {
        let above = self.path.ancestors().skip(1).take_while(|directory| !directory.exists());
        let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
        missing.reverse();
        for directory in &missing {
            let mut builder = std::fs::DirBuilder::new();
            builder.mode(0o700).create(directory).map_err(FileError::io("make directory", directory))?;
        }
        Ok(missing)
    }

    fn write(&self, temporary: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
        // A process that was killed may have left it. The caller holds the lock of the records.
        let _none_left = rustix::fs::unlink(temporary);
        let mode =
            self.stat.map_or(Mode::from_raw_mode(mode), |stat| Mode::from_raw_mode(stat.st_mode & 0o7777));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let write = || -> std::io::Result<()> {
            let mut file = File::from(rustix::fs::open(temporary, flags, mode & Mode::RWXU)?);
            file.write_all(content)?;
            if let Some(stat) = self.stat {
                // The group before the mode: its members may be allowed to read. A group of others can't be given.
                let group = rustix::fs::Gid::from_raw(stat.st_gid);
                let _of_others = rustix::fs::fchown(&file, None, Some(group));
            }
            rustix::fs::fchmod(&file, mode)?;
            file.sync_all()
        };
        write().map_err(FileError::io("write", &self.path))
    }

    /// Whether the file still is what was read.
    fn check(&self) -> Result<(), FileError> {
        let now = rustix::fs::lstat(&self.path).ok();
        let key = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        if now.as_ref().map(key) == self.stat.as_ref().map(key) {
            Ok(())
        } else {
            Err(FileError::Raced { path: self.path.clone() })
        }
    }

    fn put(&self, temporary: &Path) -> Result<(), FileError> {
        self.check()?;
        let renamed = match self.stat {
            Some(_) => rustix::fs::rename(temporary, &self.path),
            None => rustix::fs::renameat_with(CWD, temporary, CWD, &self.path, RenameFlags::NOREPLACE),
        };
        match renamed {
            Err(Errno::EXIST) => Err(FileError::Raced { path: self.path.clone() }),
            Err(Errno::INVAL | Errno::NOSYS) if self.stat.is_none() => {
                std::fs::rename(temporary, &self.path).map_err(FileError::io("write", &self.path))
            }
            renamed => renamed.map_err(|errno| FileError::io("write", &self.path)(errno.into())),
        }
    }
}

/// Removes directories that are empty, the last first.
fn remove_empty(made: &[PathBuf]) {
    for directory in made.iter().rev() {
        let _not_empty = std::fs::remove_dir(directory);
    }
}

/// The name under which a file is written before it gets its own name.
fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".palisade-new");
    path.with_file_name(name)
}

/// Makes a rename durable across a power cut, if the disk writes what it confirms.
fn sync_directory(path: &Path) {
    if let Some(Ok(directory)) = path.parent().map(File::open) {
        let _not_everywhere = directory.sync_all();
    }
}
