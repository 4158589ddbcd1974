// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps that make and remove files. Each step is atomic: a process that is killed in between leaves the old file
//! or the new one, and at worst a temporary file whose name is known.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A file of Palisade is never larger.
const LARGEST: u64 = 4 << 20;

/// A step failed.
#[derive(Debug, thiserror::Error)]
#[error("can't {action} {path:?}: {source}")]
pub struct DiskError {
    action: &'static str,
    path: PathBuf,
    source: std::io::Error,
}

impl DiskError {
    fn new(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { action, path, source }
    }
}

/// The content at a path, if Palisade can have made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Content {
    /// A symbolic link to this target.
    Link(PathBuf),
    /// A file whose content has this BLAKE3 hash.
    File(String),
}

/// Identifies a file, whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// `None` for a file that Palisade can't have made.
    pub(crate) content: Option<Content>,
    pub(crate) identity: Identity,
}

impl Content {
    /// The content of a file with these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::File(blake3::hash(bytes).to_hex().to_string())
    }
}

/// What is at `path`. Links aren't followed. `None` if nothing is there.
pub(crate) fn look(path: &Path) -> Result<Option<Seen>, DiskError> {
    let stat = match rustix::fs::lstat(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(DiskError::new("examine", path)(errno.into())),
    };
    let content = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => std::fs::read_link(path).ok().map(Content::Link),
        FileType::RegularFile if u64::try_from(stat.st_size).is_ok_and(|size| size <= LARGEST) => {
            read(path).ok().map(|bytes| Content::of(&bytes))
        }
        _ => None,
    };
    Ok(Some(Seen { content, identity: Identity { device: stat.st_dev, inode: stat.st_ino } }))
}

/// Whether nothing at all is at `path`.
pub(crate) fn is_absent(path: &Path) -> bool {
    matches!(rustix::fs::lstat(path), Err(Errno::NOENT))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Executes the steps. In tests it can stop before any step, as if the process were killed.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    #[cfg(test)]
    pub(crate) remaining: std::cell::Cell<Option<usize>>,
}

impl Disk {
    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "a test's can fail")]
    const fn step(&self) -> std::io::Result<()> {
        Ok(())
    }

    #[cfg(test)]
    fn step(&self) -> std::io::Result<()> {
        match self.remaining.get() {
            Some(0) => Err(std::io::Error::other("killed")),
            Some(more) => {
                self.remaining.set(Some(more - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Makes directories, in this order.
    pub(crate) fn make_directories(&self, directories: &[PathBuf]) -> Result<(), DiskError> {
        for directory in directories {
            let mut builder = std::fs::DirBuilder::new();
            match self.step().and_then(|()| builder.mode(0o700).create(directory)) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && directory.is_dir() => {}
                made => made.map_err(DiskError::new("make directory", directory))?,
            }
        }
        Ok(())
    }

    /// Writes a file. `replace`: a file is there already.
    pub(crate) fn place_file(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: Mode,
        replace: bool,
    ) -> Result<(), DiskError> {
        let temporary = temporary(path);
        let write = || -> std::io::Result<()> {
            self.sweep(path)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            self.step()?;
            let mut file = File::from(rustix::fs::open(&temporary, flags, mode)?);
            self.step()?;
            file.write_all(bytes)?;
            // The umask must have no effect.
            rustix::fs::fchmod(&file, mode)?;
            file.sync_all()?;
            self.put(&temporary, path, replace)
        };
        write().map_err(|source| {
            let _nothing_left = self.sweep(path);
            DiskError::new("write", path)(source)
        })
    }

    /// Makes a symbolic link. `replace`: a file is there already.
    pub(crate) fn place_link(&self, path: &Path, target: &Path, replace: bool) -> Result<(), DiskError> {
        let temporary = temporary(path);
        let link = || -> std::io::Result<()> {
            self.sweep(path)?;
            self.step()?;
            std::os::unix::fs::symlink(target, &temporary)?;
            self.put(&temporary, path, replace)
        };
        link().map_err(|source| {
            let _nothing_left = self.sweep(path);
            DiskError::new("make link", path)(source)
        })
    }

    fn put(&self, from: &Path, to: &Path, replace: bool) -> std::io::Result<()> {
        self.step()?;
        if replace {
            std::fs::rename(from, to)?
        } else {
            rename_to_free(from, to)?
        }
        sync_directory(to);
        Ok(())
    }

    /// Renames a file. The new name must be free.
    pub(crate) fn move_to_free(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.put(from, to, false).map_err(DiskError::new("keep aside", from))
    }

    /// Renames a file that was kept aside to its earlier name, whether or not a file is there.
    pub(crate) fn put_back(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        // A directory can't replace a file.
        let replace = !rustix::fs::lstat(from)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if !replace {
            self.remove(to)?;
        }
        self.put(from, to, replace).map_err(DiskError::new("put back", to))
    }

    /// Removes a file that may be gone already.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), DiskError> {
        match self.step().and_then(|()| Ok(rustix::fs::unlink(path)?)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(DiskError::new("remove", path)(error))
            }
            _ => {
                sync_directory(path);
                Ok(())
            }
        }
    }

    /// Removes directories that are empty, in this order. One that isn't, or can't be removed, stays.
    pub(crate) fn remove_empty<'p>(&self, directories: impl IntoIterator<Item = &'p Path>) {
        for directory in directories {
            let _not_empty = self.step().and_then(|()| std::fs::remove_dir(directory));
        }
    }

    /// Removes the temporary file that a killed process has left of writing `path`.
    pub(crate) fn sweep(&self, path: &Path) -> std::io::Result<()> {
        let temporary = temporary(path);
        if rustix::fs::lstat(&temporary).is_ok() {
            self.step()?;
            rustix::fs::unlink(&temporary)?;
        }
        Ok(())
    }
}

/// The name under which `path` is written before it gets its own name.
fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".palisade-new");
    path.with_file_name(name)
}

/// `rename`, but never over another file. If the file system doesn't support that, it makes a second link to the file.
/// If it doesn't support that either, it looks first and then renames.
fn rename_to_free(from: &Path, to: &Path) -> std::io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return Ok(renamed?),
    }
    match rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty()) {
        Ok(()) => Ok(rustix::fs::unlink(from)?),
        Err(Errno::PERM | Errno::OPNOTSUPP) if is_absent(to) => std::fs::rename(from, to),
        Err(Errno::PERM | Errno::OPNOTSUPP) => Err(Errno::EXIST.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes a rename durable across a power cut, if the disk writes what it confirms.
fn sync_directory(path: &Path) {
    if let Some(Ok(directory)) = path.parent().map(File::open) {
        let _not_everywhere = directory.sync_all();
    }
}
