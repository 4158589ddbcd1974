// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists directories that their owner can't read at present.

use crate::broker::caller::{DIRECTORY, DecimalBuffer};
use crate::broker::repository::LISTED;
use crate::broker::resolve::by_number;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

/// Makes directories readable while they are examined. A process that moves a directory doesn't need to read it. This
/// gives the caller nothing new: the broker runs as the caller's user, so the caller could change the modes, too.
#[derive(Default)]
pub(super) struct Opened(Vec<(OwnedFd, Mode)>);

impl Opened {
    /// Opens a directory for listing.
    pub(super) fn list(&mut self, parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
        let list = || rustix::fs::openat(parent, name, LISTED, Mode::empty());
        let readable = Mode::RUSR | Mode::XUSR;
        let place = rustix::fs::openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = rustix::fs::fstat(&place)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        // A mode with the set-group-id bit isn't changed: the kernel clears that bit if the user isn't in the
        // directory's group.
        if mode.contains(readable) || mode.intersects(Mode::SUID | Mode::SGID) {
            return list();
        }
        change_mode(&place, mode | readable)?;
        self.0.push((place, mode));
        list()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        for (place, mode) in self.0.drain(..).rev() {
            // This can't fail in a way that matters: the directory belongs to this user and existed a moment ago.
            let _done = change_mode(&place, mode);
        }
    }
}

fn change_mode(place: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    let mut buffer = DecimalBuffer::default();
    rustix::fs::chmodat(CWD, by_number(place.as_fd(), &mut buffer), mode, AtFlags::empty())
}
