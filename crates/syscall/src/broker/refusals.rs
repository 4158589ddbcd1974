// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that the command's filter refuses: they fail with the filter's error, and are told.
//!
//! The filter passes them on with that error in the part of its answer that the kernel leaves aside. Which call it is
//! and what its arguments are the kernel has copied: the filter says the same of them here.

use crate::broker::Worker;
use crate::broker::caller::Caller;
use crate::broker::report::Report;
use crate::{Call, Filter};
use palisade_sys::notify::Notification;
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Programs and calls that are remembered; of further ones nothing is told.
const MOST: usize = 4096;

/// A program's file, a call, an error: what was told.
type Key = (u64, u64, u32, u16);

/// What the filter refuses, and what was told of it.
pub(crate) struct Refusals {
    filter: Filter,
    told: Mutex<HashSet<Key>>,
}

impl Refusals {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, told: Mutex::default() }
    }

    /// The error that a call fails with, if the filter refuses it. Told once for each program and call: a loop of such
    /// calls costs its caller, and nobody else.
    pub(super) fn refuse(&self, worker: &Worker<'_>, call: &Notification) -> Option<Errno> {
        let number = u32::try_from(call.number).unwrap_or(u32::MAX);
        let seen = Call { audit_arch: call.audit_arch, number, arguments: call.arguments };
        let errno = self.filter.refusal(&seen)?;
        let program = Caller::new(worker, call).executable();
        let key = (program.device, program.inode, number, errno.number());
        if self.is_news(key) {
            worker.shared.reporter.tell(&Report::Call {
                thread: call.thread,
                program,
                call: number,
                errno: errno.number(),
            });
        }
        Some(Errno::from_raw_os_error(errno.number().into()))
    }

    /// Whether it has not been told; full, nothing is news any more.
    fn is_news(&self, key: Key) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MOST && told.insert(key)
    }
}
