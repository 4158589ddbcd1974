// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the name policy access to the directories above the file that a call is about.

use crate::broker::identity::{Identity, Moment};
use crate::broker::repository::Locks;
use palisade_policy::names::repository::Marks;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The directories from the root to the file that a call is about.
pub(crate) trait Way {
    /// Opens the directory that lies `up` levels above the file, at least 1.
    ///
    /// # Errors
    /// The kernel's errors.
    fn open(&self, up: usize) -> Result<OwnedFd, Errno>;

    /// The names in that directory by which git would recognise a repository. `None` if they can't be found out. The
    /// directory stays locked until the call is made, so that no call through another broker changes the answer.
    fn marks(&self, up: usize, locks: &Locks) -> Option<Marks>;

    /// Whether the directory that holds the file was made after `start`.
    fn is_fresh(&self, start: Moment) -> bool {
        let directory = self.open(1).ok().and_then(|opened| Identity::of(opened, c"", FileType::Directory));
        directory.is_some_and(|directory| directory.is_born_since(start))
    }
}

pub(crate) fn is_below(path: &[u8], root: &[u8]) -> bool {
    match path.strip_prefix(root) {
        Some(rest) => rest.is_empty() || rest.first() == Some(&b'/') || root == b"/",
        None => false,
    }
}
