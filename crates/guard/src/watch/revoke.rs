// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that were changed are asked about again.

use super::engine::Engine;
use super::known::Identity;
use palisade_sys::fanotify::{Handle, open_handle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where each watched file system is mounted, by what `statfs` calls it. None is held open: it couldn't be unmounted.
#[derive(Debug, Default)]
pub struct FileSystems(Mutex<HashMap<[u32; 2], PathBuf>>);

impl FileSystems {
    /// One more, mounted at `point`.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn add(&self, point: &Path) -> Result<(), Errno> {
        let (_file, id) = open(point)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, point.to_owned());
        Ok(())
    }

    fn open(&self, handle: &Handle) -> Result<OwnedFd, Errno> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&handle.filesystem).cloned();
        let (file, id) = open(&known.ok_or(Errno::NODEV)?)?;
        if id != handle.filesystem {
            return Err(Errno::NODEV);
        }
        open_handle(file.as_fd(), handle)
    }
}

/// A mount point, and what `statfs` calls its file system.
fn open(point: &Path) -> Result<(OwnedFd, [u32; 2]), Errno> {
    let file = rustix::fs::open(point, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let id = rustix::fs::fstatvfs(&file)?.f_fsid;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let id = [id as u32, (id >> 32) as u32];
    Ok((file, id))
}

impl Engine {
    /// Hears of changes until `stop`.
    pub fn hear(&self, filesystems: &FileSystems, stop: &AtomicBool) {
        let Some(witness) = &self.witness else { return };
        let mut buffer = vec![0; 64 << 10];
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        while !stop.load(Ordering::Relaxed) {
            let mut waited = [PollFd::new(witness, PollFlags::IN)];
            if !matches!(poll(&mut waited, Some(&second)), Ok(1..)) {
                continue;
            }
            let _nothing_more =
                witness.read(&mut buffer, |handle| match handle.map(|handle| filesystems.open(&handle)) {
                    Some(Ok(file)) => self.ask_again(file.as_fd()),
                    // The file is gone, and with it what the kernel remembered of it.
                    Some(Err(Errno::STALE)) => {}
                    // Which file it was can't be told, so it may be any.
                    _ => self.ask_about_all(),
                });
        }
    }

    /// Asks about a file again.
    pub(super) fn ask_again(&self, file: BorrowedFd<'_>) {
        self.counts.revoked.one();
        // What was found out of it doesn't hold any more, whatever its times say.
        if let Ok(status) = rustix::fs::fstat(file) {
            let key = Identity::of(&status).key();
            self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
        let name = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
        if self.gate.ask_again(&name).is_err() {
            self.ask_about_all();
        }
    }

    /// Asks about every file again.
    pub fn ask_about_all(&self) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if self.gate.ask_about_all().is_err() {
            // It can't be made to ask: then it may not answer by itself any more.
            self.pass(false);
        }
    }
}
