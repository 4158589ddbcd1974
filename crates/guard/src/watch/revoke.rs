// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that were changed are asked about again.

use super::engine::Engine;
use super::known::Identity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

impl Engine {
    /// Hears of changes until `stop`, which counts when the next one comes.
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
                    // The file is gone, and with it what the kernel remembered of it.
                    Some(Err(Errno::STALE)) => {}
                    // Which file it was can't be told, so it may be any.
                    _ => self.ask_about_all(),
                }
            });
        }
    }

    /// Asks about a file again.
    pub fn ask_again(&self, file: BorrowedFd<'_>) {
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
