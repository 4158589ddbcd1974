// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges symbolic links by where they lead.
//!
//! A link gives a directory another path, and host programs obey names in it by that path. That doesn't matter where
//! protected names can't be written anyway. Below `node_modules` and similar directories they can be written, so no
//! link from outside may lead there.

use crate::broker::Worker;
use crate::broker::caller::path_of;
use crate::broker::name_policy::{Operation, Refused};
use crate::broker::resolve::{Place, c_string};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::os::fd::AsFd;

impl Worker<'_> {
    /// Checks a new link at `inside`, which is the path of `place`, with this target text.
    pub(super) fn check_link(&self, inside: &[u8], place: &Place, text: &[u8]) -> Result<(), Box<Refused>> {
        let name_policy = &self.shared.name_policy;
        if name_policy.link_stays(inside, text) {
            return Ok(());
        }
        self.check(Operation::MakeLink, inside, place)?;
        let directory = &inside[..inside.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
        let written =
            if text.first() == Some(&b'/') { text.to_vec() } else { [directory, b"/", text].concat() };
        name_policy.leads_where_judged(inside, &plain(&written))?;
        match leads_now(place, text) {
            Some(path) => name_policy.leads_where_judged(inside, &path),
            None => Ok(()),
        }
    }
}

/// Removes `.`, `..` and double slashes from a path, as if no component were a link.
fn plain(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    [b"/".as_slice(), &parts.join(&b'/')].concat()
}

/// The real path of the part of the link's target that exists now, with the rest appended.
fn leads_now(place: &Place, text: &[u8]) -> Option<Vec<u8>> {
    let mut end = text.len();
    loop {
        let there = if end == 0 { b"." } else { &text[..end] };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let name = c_string(there).ok()?;
        let found =
            rustix::fs::openat2(&place.parent, &*name, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
        if let Ok(found) = found {
            let path = path_of(found.as_fd()).ok()?;
            return Some(plain(&[&path, b"/".as_slice(), &text[end..]].concat()));
        }
        if end == 0 {
            return None;
        }
        end = text[..end].iter().rposition(|byte| *byte == b'/')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_plain() {
        for (path, plainly) in
            [("/a/b", "/a/b"), ("/a/./b//c/", "/a/b/c"), ("/a/../b", "/b"), ("/../..", "/"), ("", "/")]
        {
            assert_eq!(plain(path.as_bytes()), plainly.as_bytes(), "{path}");
        }
    }
}
