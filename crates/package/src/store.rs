// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The store of unpacked packages: one directory for each package, named like it, below the user's cache.
//!
//! A directory with that name is complete: it is made under another name, and renamed when everything is on the disk. A
//! launch that uses one holds a shared lock on it. Removing one takes the exclusive lock, so no running program loses its
//! files. The kernel drops the locks of a killed launch, and the next sweep removes what that launch left.

mod tree;

use super::content::Content;
use super::error::PackageError;
use super::manifest::Manifest;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long an unused package is kept; the same as for plans.
const OLDEST: Duration = Duration::from_secs(60 * 24 * 3600);
/// Prefix of directories that aren't complete.
const UNFINISHED: &str = ".unfinished-";
/// Prefix of lock files.
const LOCK: &str = ".lock-";
/// Space that must stay free beyond the content: for directories, and for the file system itself.
const MARGIN: u64 = 1 << 20;

/// Where packages are unpacked.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    uid: u32,
}

/// An unpacked package. It is not removed while this value lives.
#[derive(Debug)]
pub struct Held {
    _locked: OwnedFd,
}

impl Store {
    /// The store in `cache` (`…/palisade`) of user `uid`. This touches no file yet.
    #[must_use]
    pub fn new(cache: &Path, uid: u32) -> Self {
        Self { directory: cache.join("packages"), uid }
    }

    /// Where a package is, or would be.
    #[must_use]
    pub fn place(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Locks a package that exists, so that it isn't removed, and records that it was used now.
    #[must_use]
    pub fn hold(&self, name: &str) -> Option<Held> {
        let directory = self.open(&self.place(name)).ok()?;
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockShared).ok()?;
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let keep = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let _on_a_disk_that_is_read_only =
            rustix::fs::futimens(&directory, &Timestamps { last_access: keep, last_modification: now });
        Some(Held { _locked: directory })
    }

    /// Unpacks a package, unless another launch has done so. `progress` gets the bytes done and the bytes in all.
    ///
    /// # Errors
    /// When there is no room, or the package isn't as it was made.
    pub fn unpack(
        &self,
        name: &str,
        file: &File,
        manifest: &Manifest,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Held, PackageError> {
        self.make_directory()?;
        let _lock = self.lock(name)?;
        if let Some(held) = self.hold(name) {
            return Ok(held);
        }
        self.sweep();
        self.check_room(manifest.size())?;
        let unfinished = self.directory.join(format!("{UNFINISHED}{name}-{}", std::process::id()));
        let held = match self.unpack_to(&unfinished, file, manifest, progress) {
            Ok(held) => held,
            Err(error) => {
                tree::remove(&unfinished);
                return Err(error);
            }
        };
        let place = self.place(name);
        match std::fs::rename(&unfinished, &place) {
            Ok(()) => Ok(held),
            Err(source) => {
                tree::remove(&unfinished);
                // Another launch, which held another lock file, was faster.
                self.hold(name).ok_or(PackageError::Unpack { path: place, source })
            }
        }
    }

    /// Unpacks everything into a directory of this launch's own.
    fn unpack_to(
        &self,
        unfinished: &Path,
        file: &File,
        manifest: &Manifest,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Held, PackageError> {
        let failed = |source| PackageError::Unpack { path: unfinished.to_owned(), source };
        std::fs::DirBuilder::new().mode(0o700).create(unfinished).map_err(failed)?;
        let directory = self.open(unfinished).map_err(|errno| failed(errno.into()))?;
        // Before the rename, this lock shows that a launch is unpacking; afterwards, that a launch uses the package.
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockShared)
            .map_err(|errno| failed(errno.into()))?;
        tree::write(unfinished, manifest, &mut Content::of(file, manifest), progress)?;
        // A directory with the final name must be complete even after a power cut.
        rustix::fs::syncfs(&directory).map_err(|errno| failed(errno.into()))?;
        Ok(Held { _locked: directory })
    }

    /// Removes a package. Returns whether there was one.
    ///
    /// # Errors
    /// When it is in use.
    pub fn remove(&self, name: &str) -> Result<bool, PackageError> {
        let place = self.place(name);
        let directory = match self.open(&place) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
            Err(errno) => return Err(PackageError::Unpack { path: place, source: errno.into() }),
        };
        if rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(PackageError::InUse { directory: place });
        }
        self.discard(&place);
        let _none = std::fs::remove_file(self.directory.join(format!("{LOCK}{name}")));
        Ok(true)
    }

    /// Removes packages that were not used for long, and what killed launches have left.
    pub fn sweep(&self) {
        if self.open(&self.directory).is_err() {
            return;
        }
        let now = SystemTime::now();
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let unfinished = name.to_string_lossy().starts_with(UNFINISHED);
            let old = || {
                let used = entry.metadata().and_then(|found| found.modified());
                used.is_ok_and(|used| now.duration_since(used).is_ok_and(|unused| unused > OLDEST))
            };
            if !(unfinished || old()) {
                continue;
            }
            if name.to_string_lossy().starts_with(LOCK) {
                let _gone = std::fs::remove_file(entry.path());
            } else if let Ok(directory) = self.open(&entry.path())
                && rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok()
            {
                self.discard(&entry.path());
            }
        }
    }

    /// Renames first, so that no launch finds an incomplete package.
    fn discard(&self, place: &Path) {
        let aside = self.directory.join(format!("{UNFINISHED}gone-{}", std::process::id()));
        match std::fs::rename(place, &aside) {
            Ok(()) => tree::remove(&aside),
            Err(_of_a_killed_one) => tree::remove(place),
        }
    }

    fn make_directory(&self) -> Result<(), PackageError> {
        let failed = |source| PackageError::Unpack { path: self.directory.clone(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(failed)?;
        match self.open(&self.directory) {
            Ok(_) => Ok(()),
            Err(Errno::PERM) => Err(PackageError::Distrusted { directory: self.directory.clone() }),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    fn lock(&self, name: &str) -> Result<OwnedFd, PackageError> {
        let path = self.directory.join(format!("{LOCK}{name}"));
        let failed = |errno: Errno| PackageError::Unpack { path: path.clone(), source: errno.into() };
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Err(Errno::INTR) => {}
                other => break other.map_err(failed)?,
            }
        }
        Ok(file)
    }

    fn check_room(&self, needed: u64) -> Result<(), PackageError> {
        let Ok(found) = rustix::fs::statvfs(&self.directory) else { return Ok(()) };
        if found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
            return Err(PackageError::NoExecution { directory: self.directory.clone() });
        }
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free < needed.saturating_add(MARGIN) {
            return Err(PackageError::NoRoom { directory: self.directory.clone(), needed, free });
        }
        Ok(())
    }

    /// Opens a directory that belongs to the user and that no other user can write to.
    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::statat(&directory, "", AtFlags::EMPTY_PATH)?;
        let ours = stat.st_uid == self.uid
            && stat.st_mode & 0o022 == 0
            && FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if ours { Ok(directory) } else { Err(Errno::PERM) }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
