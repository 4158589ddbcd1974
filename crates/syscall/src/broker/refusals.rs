// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles calls that the command's filter refuses: they fail with the filter's error and are reported.
//!
//! The filter passes such a call on, with the error in the part of its return value that the kernel ignores for this
//! action. The broker evaluates the filter again. Its input is the number and arguments that the kernel copied, so
//! the result is the same.

use crate::broker::Worker;
use crate::broker::caller::Caller;
use crate::broker::report::Report;
use crate::{Call, Filter};
use palisade_sys::notify::Notification;
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// How many pairs of program and call are remembered. Further ones aren't reported.
const MOST: usize = 4096;

/// A program's file, a call and an error, that were reported.
type Key = (u64, u64, u32, u16);

/// What the filter refuses, and what was reported.
pub(crate) struct Refusals {
    filter: Filter,
    told: Mutex<HashSet<Key>>,
}

impl Refusals {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, told: Mutex::default() }
    }

    /// The error with which a call fails, if the filter refuses it. Reported once for each program and call: a loop
    /// of such calls costs only its caller.
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

    /// Whether this wasn't reported yet. When the memory is full, everything counts as reported.
    fn is_news(&self, key: Key) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MOST && told.insert(key)
    }
}
