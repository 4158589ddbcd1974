// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads which files git tracks, from a repository's index. Git's `Documentation/gitformat-index.txt` describes the form.
//!
//! The project owns the file, so everything in it may be wrong: nothing that this module returns widens what is shown.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::file::{self, Links};

/// The largest index that is read: about a million files.
const INDEX_CAP: usize = 128 * 1024 * 1024;
/// `.git` of a worktree holds one path.
const POINTER_CAP: usize = 8 * 1024;
/// The lengths of an object's name: SHA-1 and SHA-256. The index doesn't say which one it has.
const NAMES: [usize; 2] = [20, 32];

/// The working tree that a file belongs to: the nearest directory above it, not above `top`, that has a `.git`.
#[must_use]
pub fn tree_of<'p>(file: &'p Path, top: &Path) -> Option<&'p Path> {
    let inside = file.ancestors().skip(1).take_while(|above| above.starts_with(top));
    inside.into_iter().find(|above| above.join(".git").symlink_metadata().is_ok())
}

/// The files that git tracks in a working tree, by their paths in it; `None` if that can't be found out.
#[must_use]
pub fn tracked(tree: &Path) -> Option<BTreeSet<PathBuf>> {
    let git = tree.join(".git");
    let directory = if git.symlink_metadata().ok()?.is_dir() {
        git
    } else {
        let pointer = file::read(&git, POINTER_CAP, Links::Refuse).ok()?;
        let named = pointer.strip_prefix(b"gitdir:")?.trim_ascii();
        tree.join(OsString::from_vec(named.to_vec()))
    };
    match file::read(&directory.join("index"), INDEX_CAP, Links::Refuse) {
        Ok(index) => NAMES.into_iter().find_map(|name| parse(&index, name)),
        // A new repository has no index and tracks nothing.
        Err(error) if error.is_absent() => Some(BTreeSet::new()),
        Err(_unreadable) => None,
    }
}

/// The paths in an index whose objects have names of this length; `None` if the index has another form.
fn parse(index: &[u8], name: usize) -> Option<BTreeSet<PathBuf>> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut paths = BTreeSet::new();
    let mut at = 12;
    let mut path: Vec<u8> = Vec::new();
    for _entry in 0..count {
        let start = at;
        at += 40 + name;
        let flags = u16::from_be_bytes(index.get(at..at + 2)?.try_into().ok()?);
        at += if version >= 3 && flags & 0x4000 != 0 { 4 } else { 2 };
        if version == 4 {
            let (removed, rest) = removed(index.get(at..)?)?;
            at = index.len() - rest.len();
            path.truncate(path.len().checked_sub(removed)?);
        } else {
            path.clear();
        }
        let rest = index.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(&rest[..end]);
        // An absolute path, or one with `..`, is none of this tree.
        if path.is_empty() || path.first() == Some(&b'/') {
            return None;
        }
        paths.insert(PathBuf::from(std::ffi::OsStr::from_bytes(&path)));
        at += end;
        // Before version 4, one to eight zeros fill an entry up to a multiple of eight.
        at = if version == 4 { at + 1 } else { start + (at - start) / 8 * 8 + 8 };
    }
    Some(paths)
}

/// How many bytes are removed from the path before, and what follows the number.
fn removed(text: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_usize;
    for (nth, byte) in text.iter().enumerate().take(9) {
        let part = usize::from(byte & 0x7f);
        value = if nth == 0 { part } else { value.checked_add(1)?.checked_mul(128)?.checked_add(part)? };
        if byte & 0x80 == 0 {
            return Some((value, text.get(nth + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(tree: &Path, arguments: &[&str]) -> bool {
        Command::new("git").current_dir(tree).args(arguments).output().is_ok_and(|done| done.status.success())
    }

    #[test]
    fn it_says_what_git_says() {
        if !Command::new("git").arg("--version").output().is_ok_and(|done| done.status.success()) {
            return;
        }
        for version in ["2", "3", "4"] {
            let tree = tempfile::tempdir().unwrap();
            let tree = tree.path();
            assert!(git(tree, &["init", "-q", "."]));
            assert_eq!(tracked(tree), Some(BTreeSet::new()));
            std::fs::create_dir_all(tree.join("a/b")).unwrap();
            let names = ["a/b/one", "a/b/one-more", "a/two", "long-name-of-a-file-that-is-tracked", "z"];
            for name in names {
                std::fs::write(tree.join(name), name).unwrap();
            }
            std::fs::write(tree.join("untracked"), "").unwrap();
            assert!(git(tree, &["add", "a", "z", "long-name-of-a-file-that-is-tracked"]));
            if version == "3" {
                // An entry with more flags makes git write this version.
                assert!(git(tree, &["add", "-N", "untracked"]));
            } else {
                assert!(git(tree, &["update-index", "--index-version", version]));
            }
            let mut expected: BTreeSet<PathBuf> = names.into_iter().map(PathBuf::from).collect();
            if version == "3" {
                expected.insert("untracked".into());
            }
            assert_eq!(tracked(tree), Some(expected), "version {version}");
            assert_eq!(tree_of(&tree.join("a/b/one"), tree), Some(tree));
            assert_eq!(tree_of(&tree.join("a/b/one"), &tree.join("a")), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_content_is_read(bytes: Vec<u8>) {
            for name in NAMES {
                let _any = parse(&bytes, name);
                let _entries = parse(&[b"DIRC\0\0\0\x04\0\0\0\x02", bytes.as_slice()].concat(), name);
            }
        }
    }
}
