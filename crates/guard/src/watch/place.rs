// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds a file's real path, as this host sees it.
//!
//! For an open file the kernel returns the path in the mount namespace of the process that opened it. In a mount
//! namespace of their own, users may bind any file over `/usr/bin/true`, or make their directory the root, so such a
//! path is no reason to trust the file. A path counts only if it leads to the same file on this host. Otherwise the
//! file is looked up by its handle, in the mounts of this host: a file that a container or sandbox has bound elsewhere
//! gets its original path.

use super::known::Identity;
use crate::nowait::look_at;
use crate::shortage::noted;
use palisade_sys::fanotify::{Handle, open_handle};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, makedev, openat2, readlink, statx};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fmt::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Prefix of the path of a file that this host doesn't see: no rule about paths matches it, and it isn't trusted.
pub const FOREIGN: &[u8] = b"(foreign)";
/// Lookups of a path in the dentry cache before it counts as not cached.
const ATTEMPTS: usize = 32;
/// The kernel's suffix for a path that was deleted.
const DELETED: &[u8] = b" (deleted)";

/// The mount points of each watched file system, by its id from `statfs`: an overlay may have the id of its upper
/// layer. No mount point is held open, because it couldn't be unmounted then.
#[derive(Debug, Default)]
pub struct FileSystems(Mutex<HashMap<[u32; 2], Vec<PathBuf>>>);

/// Opens a mount point. Returns also the id of its file system from `statfs`.
fn open(point: &Path) -> Result<(OwnedFd, [u32; 2]), Errno> {
    let file = rustix::fs::open(point, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let id = rustix::fs::fstatvfs(&file)?.f_fsid;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let id = [id as u32, (id >> 32) as u32];
    Ok((file, id))
}

impl FileSystems {
    /// Adds a file system that is mounted at `point`.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn add(&self, point: &Path) -> Result<(), Errno> {
        let (_file, id) = open(point)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let points = known.entry(id).or_default();
        points.retain(|known| known != point && open(known).is_ok_and(|(_, now)| now == id));
        points.push(point.to_owned());
        Ok(())
    }

    pub(super) fn open(&self, handle: &Handle) -> Result<OwnedFd, Errno> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&handle.filesystem).cloned();
        let mut result = Err(Errno::NODEV);
        for point in known.unwrap_or_default() {
            let opened = open(&point).and_then(|(file, id)| {
                if id == handle.filesystem { open_handle(file.as_fd(), handle) } else { Err(Errno::NODEV) }
            });
            result = match (opened, result) {
                (Ok(file), _) => return Ok(file),
                // One of the file systems recognized the handle.
                (Err(_), Err(Errno::STALE)) => Err(Errno::STALE),
                (error, _) => error,
            };
        }
        result
    }

    /// The path of an open file on this host. A file that this host doesn't see is [`FOREIGN`], with the path that the
    /// process that opened it sees. A deleted file keeps the kernel's suffix.
    #[must_use]
    pub fn path_of(&self, file: BorrowedFd<'_>, identity: Identity) -> Box<[u8]> {
        let Some(path) = path_of(file) else { return Box::from(&b"?"[..]) };
        if path.ends_with(DELETED) || is_at(&path, identity) {
            return path.into();
        }
        let here = Handle::of(file)
            .and_then(|handle| self.open(&handle))
            .ok()
            .and_then(|file| path_of(file.as_fd()));
        match here {
            Some(here) => here.into(),
            None => [FOREIGN, &path].concat().into(),
        }
    }

    /// The path of a process's program on this host, in the same way; but a deleted program has its former path,
    /// because programs keep running while their packages are upgraded.
    #[must_use]
    pub fn program_of(&self, pid: u32, exe: &[u8]) -> Box<[u8]> {
        let link = format!("/proc/{pid}/exe");
        let Ok(status) = look_at(link.as_str()) else { return exe.into() };
        let identity = Identity::of_extended(&status);
        // The program was deleted, or is still at that path.
        if status.stx_nlink == 0 || is_at(exe, identity) {
            return exe.into();
        }
        match noted(rustix::fs::open(link.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())) {
            Ok(file) => self.path_of(file.as_fd(), identity),
            Err(_) => [FOREIGN, exe].concat().into(),
        }
    }
}

/// The kernel's path of an open file.
fn path_of(file: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let mut name = String::with_capacity(32);
    write!(name, "/proc/self/fd/{}", file.as_raw_fd()).ok()?;
    Some(noted(readlink(name.as_str(), Vec::with_capacity(256))).ok()?.into_bytes())
}

/// Whether the path leads to this very file. This never waits. The file is open, so its path is in the kernel's memory
/// if it is right. A path that would have to be looked up (in a user's FUSE file system, which may never answer) is a
/// different one.
pub(crate) fn is_at(path: &[u8], identity: Identity) -> bool {
    let Some(there) = open_cached(path) else { return false };
    let asked = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::INO | StatxFlags::TYPE;
    statx(&there, c"", asked, wanted).is_ok_and(|status| {
        makedev(status.stx_dev_major, status.stx_dev_minor) == identity.device
            && status.stx_ino == identity.inode
    })
}

/// Opens a path that is in the dentry cache. `RESOLVE_CACHED` also fails with `EAGAIN` if anything is mounted or unmounted
/// during the lookup, in any mount namespace, so `EAGAIN` is retried a bounded number of times.
fn open_cached(path: &[u8]) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for _attempt in 0..ATTEMPTS {
        match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
            Err(Errno::AGAIN) => std::hint::spin_loop(),
            result => return noted(result).ok(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;

    fn identity(file: &File) -> std::io::Result<Identity> {
        Ok(Identity::of(&rustix::fs::fstat(file)?))
    }

    #[test]
    fn a_path_is_believed_if_it_leads_to_the_file() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().canonicalize()?.join("a b\n");
        let other = directory.path().join("other");
        std::fs::write(&path, "1")?;
        std::fs::write(&other, "2")?;
        let (file, other) = (File::open(&path)?, File::open(&other)?);
        let places = FileSystems::default();
        assert_eq!(&*places.path_of(file.as_fd(), identity(&file)?), path.as_os_str().as_bytes());
        // Another file is at that path, so the path of this one isn't known.
        let foreign = places.path_of(file.as_fd(), identity(&other)?);
        assert!(foreign.starts_with(FOREIGN), "{}", String::from_utf8_lossy(&foreign));
        std::fs::remove_file(&path)?;
        assert!(places.path_of(file.as_fd(), identity(&file)?).ends_with(DELETED));
        Ok(())
    }

    /// A mount elsewhere makes a cached lookup fail: see [`open_cached`].
    #[test]
    fn mounts_that_come_and_go_elsewhere_make_no_path_foreign() -> std::io::Result<()> {
        use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
        use std::sync::atomic::{AtomicBool, Ordering};
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tried: only root may mount");
            return Ok(());
        }
        let directory = tempfile::tempdir()?;
        let (path, point) = (directory.path().canonicalize()?.join("file"), directory.path().join("point"));
        std::fs::write(&path, "1")?;
        std::fs::create_dir(&point)?;
        let file = File::open(&path)?;
        let (places, identity, stop) = (FileSystems::default(), identity(&file)?, AtomicBool::new(false));
        std::thread::scope(|threads| {
            let churn = threads.spawn(|| {
                let mut rounds = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    mount("guard-test", &point, "tmpfs", MountFlags::empty(), None)?;
                    unmount(&point, UnmountFlags::DETACH)?;
                    rounds += 1;
                }
                std::io::Result::Ok(rounds)
            });
            let mut foreign = 0;
            for _look in 0..200_000 {
                foreign += u32::from(places.path_of(file.as_fd(), identity).starts_with(FOREIGN));
            }
            stop.store(true, Ordering::Relaxed);
            let rounds = churn.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            assert!(rounds > 20, "{rounds}");
            assert_eq!(foreign, 0, "beside {rounds} mounts");
            Ok(())
        })
    }
}
