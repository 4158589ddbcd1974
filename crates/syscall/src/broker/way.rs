// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directories above what a call is about, as the guard asks for them.

use crate::broker::repository::Locks;
use palisade_policy::names::repository::Marks;
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The way from the root to what a call is about.
pub(crate) trait Way {
    /// The directory that lies `up` above it, at least 1.
    ///
    /// # Errors
    /// As the kernel's.
    fn open(&self, up: usize) -> Result<OwnedFd, Errno>;

    /// By what git would know that directory; `None` if that can't be told. It is locked until the call is made, so
    /// that no broker's caller changes that.
    fn marks(&self, up: usize, locks: &Locks) -> Option<Marks>;

    /// Whether the directory that it lies in was born since `start`.
    fn is_fresh(&self, start: Moment) -> bool {
        self.open(1).is_ok_and(|directory| start.is_before_birth_of(directory))
    }
}

/// A time, by the clock that file systems take times of birth from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(Duration);

impl Moment {
    /// This moment.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self(duration(now.tv_sec, now.tv_nsec))
    }

    /// Whether a directory was born since. Where the file system keeps no time of birth it wasn't: nobody inside can
    /// set that time, but could make one up by any other of a directory's times.
    fn is_before_birth_of(self, directory: impl AsFd) -> bool {
        let Ok(stat) = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME) else { return false };
        StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME)
            && duration(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) >= self.0
    }
}

fn duration(seconds: i64, nanoseconds: impl TryInto<u32>) -> Duration {
    Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds.try_into().unwrap_or(0))
}

pub(crate) fn is_below(path: &[u8], root: &[u8]) -> bool {
    match path.strip_prefix(root) {
        Some(rest) => rest.is_empty() || rest.first() == Some(&b'/') || root == b"/",
        None => false,
    }
}
