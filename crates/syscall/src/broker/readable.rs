// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Directories that their owner can't read at present, looked into.

use crate::broker::caller::{DIRECTORY, DecimalBuffer};
use crate::broker::repository::LISTED;
use crate::broker::resolve::by_number;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

/// Directories that are readable only while they are looked through. Whoever moves one has no need to read it; the
/// caller, whose user the broker is, could open them and close them again as well.
#[derive(Default)]
pub(super) struct Opened(Vec<(OwnedFd, Mode)>);

impl Opened {
    /// Opens a directory to list it.
    pub(super) fn list(&mut self, parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
        let list = || rustix::fs::openat(parent, name, LISTED, Mode::empty());
        let readable = Mode::RUSR | Mode::XUSR;
        let place = rustix::fs::openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = rustix::fs::fstat(&place)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        // Set by somebody whose group it isn't, a bit that hands the group on would be lost.
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
            // Nobody's but this user's, and here a moment ago.
            let _done = change_mode(&place, mode);
        }
    }
}

fn change_mode(place: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    let mut buffer = DecimalBuffer::default();
    rustix::fs::chmodat(CWD, by_number(place.as_fd(), &mut buffer), mode, AtFlags::empty())
}
