// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identity of a file: it tells the file from every other, also from a later one with the same inode number.

use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CStr;
use std::os::fd::AsFd;
use std::time::Duration;

/// Device, inode, and birth time, where the file system keeps one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
    born: Option<Moment>,
}

impl Identity {
    /// The identity of the file `name` in `parent` (if `name` is empty: of `parent` itself). Follows no link. `None`
    /// if the file isn't of this kind.
    pub(crate) fn of(parent: impl AsFd, name: &CStr, kind: FileType) -> Option<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
        let stat = statx(parent, name, flags, wanted).ok()?;
        if FileType::from_raw_mode(stat.stx_mode.into()) != kind {
            return None;
        }
        let kept = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let born = kept.then(|| Moment::new(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec));
        Some(Self { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, born })
    }

    #[cfg(test)]
    pub(crate) const fn numbered(inode: u64) -> Self {
        Self { device: (0, 0), inode, born: None }
    }

    /// Whether the file was born after `start`. False where the file system keeps no birth time: a process inside can
    /// set any other time of a file, but not that one.
    pub(crate) fn is_born_since(&self, start: Moment) -> bool {
        self.born.is_some_and(|born| born >= start)
    }
}

/// A time on the clock from which file systems take birth times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Moment(Duration);

impl Moment {
    /// The present moment.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self::new(now.tv_sec, now.tv_nsec)
    }

    fn new(seconds: i64, nanoseconds: impl TryInto<u32>) -> Self {
        Self(Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds.try_into().unwrap_or(0)))
    }
}
