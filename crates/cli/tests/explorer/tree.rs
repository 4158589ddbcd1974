// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's part: the tree that it makes, what it moves, and what it knows about both.

use super::oracle::{OBEYED, is_excepted};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use std::collections::{BTreeSet, HashSet};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// What tells a directory from every other, also from a later one that has its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Identity {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
}

impl Identity {
    /// Of the directory at `path`, no link followed at its end.
    pub(super) fn of(path: &Path) -> Option<Self> {
        Self::look(path, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Of the directory that `path` leads to.
    pub(super) fn behind(path: &Path) -> Option<Self> {
        Self::look(path, AtFlags::empty())
    }

    fn look(path: &Path, flags: AtFlags) -> Option<Self> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
        let stat = statx(CWD, path, flags, wanted).ok()?;
        (FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory).then_some(Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            born: (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
        })
    }
}

/// A tree and what the host knows of it. The ground lies one directory below `top`, where `..` leads.
pub(super) struct Tree {
    pub(super) top: PathBuf,
    pub(super) ground: PathBuf,
    /// The directories that the host made.
    pub(super) made: HashSet<Identity>,
    /// Where on the ground the host has, or had, a directory; empty: the ground itself.
    pub(super) paths: BTreeSet<String>,
    /// The content of each file of the host's that has an obeyed name, but for those of `configurations`.
    pub(super) contents: Vec<String>,
    /// The directories in which the host has a `config` of git's. Palisade lets harmless ones take its place.
    pub(super) configurations: Vec<Identity>,
}

impl Tree {
    /// Makes what `entries` name, parents first, for `owner`.
    pub(super) fn make(top: PathBuf, entries: &[String], owner: (u32, u32)) -> std::io::Result<Self> {
        let ground = top.join("w");
        let mut tree = Self {
            top,
            ground,
            made: HashSet::new(),
            paths: BTreeSet::new(),
            contents: Vec::new(),
            configurations: Vec::new(),
        };
        for directory in [&tree.top, &tree.ground] {
            std::fs::create_dir(directory)?;
            give(directory, owner)?;
            tree.made.extend(Identity::of(directory));
        }
        tree.paths.insert(String::new());
        for entry in entries {
            let path = tree.ground.join(entry);
            if let Some(directory) = entry.strip_suffix('/') {
                std::fs::create_dir(&path)?;
                tree.made.extend(Identity::of(&path));
                tree.paths.insert(directory.to_owned());
            } else {
                let content = format!("[user]\n\tname = host {entry}\n");
                std::fs::write(&path, &content)?;
                if entry.ends_with(".git/config") {
                    tree.configurations.extend(path.parent().and_then(Identity::of));
                } else if is_obeyed(entry) {
                    tree.contents.push(content);
                }
            }
            give(&path, owner)?;
        }
        Ok(tree)
    }

    /// Whether a path of the ground leads to a directory of the host's, and by no link.
    fn is_hosts(&self, path: &str) -> bool {
        let mut at = self.ground.clone();
        path.split('/').filter(|part| !part.is_empty()).all(|part| {
            at.push(part);
            Identity::of(&at).is_some_and(|directory| self.made.contains(&directory))
        })
    }

    /// Renames a directory of the host to a name that doesn't exist. Any other rename is refused: its effects would be
    /// the host's own. Returns 0 or errno.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> i32 {
        let parent = to.rsplit_once('/').map_or("", |(parent, _)| parent);
        // Past the border of a directory where everything may be written, in either direction.
        let passes = is_excepted(Path::new(from)) != is_excepted(Path::new(to));
        if passes || !self.is_hosts(from) || !self.is_hosts(parent) {
            return rustix::io::Errno::PERM.raw_os_error();
        }
        let (source, target) = (self.ground.join(from), self.ground.join(to));
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        if let Err(errno) = rustix::fs::renameat_with(CWD, source, CWD, target, flags) {
            return errno.raw_os_error();
        }
        let below = |path: &String| {
            path.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (moved, mut kept): (BTreeSet<String>, BTreeSet<String>) =
            std::mem::take(&mut self.paths).into_iter().partition(below);
        // What the sandbox had put into it doesn't become the host's.
        let moved = moved.iter().map(|path| format!("{to}{}", &path[from.len()..]));
        kept.extend(moved.filter(|path| self.is_hosts(path)));
        self.paths = kept;
        0
    }
}

fn give(path: &Path, (user, group): (u32, u32)) -> std::io::Result<()> {
    if rustix::process::geteuid().as_raw() == user { Ok(()) } else { chown(path, Some(user), Some(group)) }
}

/// Whether a path of the tree ends in an obeyed name.
fn is_obeyed(path: &str) -> bool {
    OBEYED.iter().any(|name| {
        let parts: Vec<&str> = name.split('/').collect();
        let last: Vec<&str> = path.split('/').collect();
        last.len() >= parts.len()
            && parts
                .iter()
                .zip(&last[last.len() - parts.len()..])
                .all(|(part, name)| *part == "*" || part == name)
    })
}
