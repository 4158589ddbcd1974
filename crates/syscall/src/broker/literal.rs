// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fast way to open a path that contains no links: one call. The usual way opens the directory first and asks for
//! its path.
//!
//! Take an absolute path without `.`, `..` and double slashes. If the kernel follows no link on the way, this path is
//! the real path of the opened file. `RESOLVE_NO_SYMLINKS` enforces that. So the broker can judge the text itself
//! before the open, and the judged file is the opened one. This works only where the text alone is enough. Paths that
//! might be protected, and all failures, are left to the usual way.

use crate::broker::caller::{Caller, PATH_MAX};
use crate::broker::how::How;
use crate::broker::{Outcome, Worker};
use palisade_policy::names::repository::mark;
use rustix::fs::CWD;
use std::ffi::CStr;

/// Whether a path is absolute and every component is a real name. Only ASCII: so no file system can know another
/// spelling of the name that would be judged differently.
fn is_plain(path: &[u8]) -> bool {
    let Some((b'/', rest)) = path.split_first() else { return false };
    path.len() < PATH_MAX
        && path.is_ascii()
        && rest.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

impl Worker<'_> {
    /// Opens the path the fast way. `None` means nothing about the path: the usual way must decide.
    pub(super) fn open_literally(&self, caller: &Caller<'_>, path: &CStr, how: How) -> Option<Outcome> {
        let bytes = path.to_bytes();
        // The usual way reports what is used while a command is being learned.
        if !is_plain(bytes) || !how.is_plain() || self.shared.observer.is_some() {
            return None;
        }
        let last = bytes.rsplit(|byte| *byte == b'/').next()?;
        // Creating one of these names may turn the directory into a repository; a `.git` file leads to one.
        if how.makes() && (mark(last).is_some() || last == b".git") {
            return None;
        }
        let order = self.shared.read_order();
        if !self.shared.name_policy.is_free_as_written(bytes) {
            return None;
        }
        if how.makes() {
            self.assume_mask(caller).ok()?;
        }
        let opened = how.open_name_at(CWD, path).ok()?;
        drop(order);
        self.hand_over(caller, opened, how).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_path_is_one_from_the_root_without_detours() {
        for path in ["/a", "/a/b", "/a/.b", "/a/..b/c...", "/a b/c\n"] {
            assert!(is_plain(path.as_bytes()), "{path}");
        }
        for path in ["", "a", "a/b", "/", "//a", "/a//b", "/a/", "/./a", "/a/.", "/a/../b", "/..", "/ä"] {
            assert!(!is_plain(path.as_bytes()), "{path}");
        }
        assert!(!is_plain(&[b"/".as_slice(), &[b'a'; PATH_MAX]].concat()));
    }
}
