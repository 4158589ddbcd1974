// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directories above what a call is about, as the name policy asks for them.

use crate::broker::identity::{Identity, Moment};
use crate::broker::repository::Locks;
use palisade_policy::names::repository::Marks;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

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
