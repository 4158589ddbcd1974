// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the kernel ask again about files that were changed.

use super::engine::Engine;
use super::known::Identity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

impl Engine {
    /// Listens for changes until `stop`, which is checked at the next change.
    pub fn hear(&self, stop: &AtomicBool) {
        let Some(notifications) = &self.notifications else { return };
        let mut buffer = vec![0; 64 << 10];
        while !stop.load(Ordering::Relaxed) {
            let mut waited = [PollFd::new(notifications, PollFlags::IN)];
            if !matches!(poll(&mut waited, None), Ok(1..)) {
                continue;
            }
            let _nothing_more = notifications.read(&mut buffer, |handle| {
                match handle.map(|handle| self.filesystems.open(&handle)) {
                    Some(Ok(file)) => self.ask_again(file.as_fd()),
                    // The file is gone, and with it the kernel's own answer for it.
                    Some(Err(Errno::STALE)) => {}
                    // It is unknown which file it was, so it may be any.
                    _ => self.ask_about_all(),
                }
            });
        }
    }

    /// Makes the kernel ask again about a file.
    pub fn ask_again(&self, file: BorrowedFd<'_>) {
        self.counts.revoked.one();
        // Facts about the file don't hold any more, even if its times are unchanged.
        if let Ok(status) = rustix::fs::fstat(file) {
            let key = Identity::of(&status).key();
            self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
        let name = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
        if self.gate.ask_again(&name).is_err() {
            self.ask_about_all();
        }
    }

    /// Makes the kernel ask again about every file.
    pub fn ask_about_all(&self) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if self.gate.ask_about_all().is_err() {
            // If that fails, the kernel may not answer by itself any more.
            self.pass(false);
        }
    }
}
