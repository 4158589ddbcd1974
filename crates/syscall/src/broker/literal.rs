// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening a path that is what it says: in one call, where others take the directory first and ask for its path.
//!
//! A path from the root without `.`, `..` and doubled slashes is the real one of what the kernel opens for it if that
//! follows no link on the way, which `RESOLVE_NO_SYMLINKS` has it see to. So the text can be judged, before, instead
//! of what the kernel says of a descriptor; and what is judged is what is opened. Only where the judgement needs nothing but the
//! text: anything that might be protected, and all that goes wrong, is left to the usual way.

use crate::broker::caller::{Caller, PATH_MAX};
use crate::broker::how::How;
use crate::broker::{Outcome, Worker};
use palisade_policy::names::repository::mark;
use rustix::fs::CWD;
use std::ffi::CStr;

/// Whether a path names each directory once, from the root on, and something in the last. With ASCII alone, so
/// that no file system knows two spellings of it that are judged apart.
fn is_plain(path: &[u8]) -> bool {
    let Some((b'/', rest)) = path.split_first() else { return false };
    path.len() < PATH_MAX
        && path.is_ascii()
        && rest.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

impl Worker<'_> {
    /// Opens it, if that can be done so. `None` says nothing: neither that it can't be opened nor why.
    pub(super) fn open_literally(&self, caller: &Caller<'_>, path: &CStr, how: How) -> Option<Outcome> {
        let bytes = path.to_bytes();
        // What is learned is told by the usual way.
        if !is_plain(bytes) || !how.is_plain() || self.shared.observer.is_some() {
            return None;
        }
        let last = bytes.rsplit(|byte| *byte == b'/').next()?;
        // Making one of these may make a repository, and the last leads to one.
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
