// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has happened to directories in this launch: which were made, and which were somebody else's.
//!
//! A directory that was made here is known by what it *is*, not by where it lies: others may put
//! something else in its place, or something of theirs into it, and the broker hears of neither.

use crate::broker::repository::Locks;
use palisade_policy::names::repository::Marks;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashSet};
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// More directories than this aren't remembered; what is made later doesn't count as made inside.
const REMEMBERED: usize = 1 << 18;

/// What tells one directory from every other, also from a later one that has its number: device,
/// inode, and time of birth, where the file system keeps that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
    born: Option<Duration>,
}

impl Identity {
    /// Of the directory at `name` in `parent`, no link followed; `None` if there is none.
    pub(crate) fn of(parent: impl AsFd, name: &CStr) -> Option<Self> {
        Self::of_kind(parent, name, FileType::Directory)
    }

    /// The same of what is of this kind.
    pub(crate) fn of_kind(parent: impl AsFd, name: &CStr, kind: FileType) -> Option<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
        let stat = statx(parent, name, flags, wanted).ok()?;
        if FileType::from_raw_mode(stat.stx_mode.into()) != kind {
            return None;
        }
        let kept = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let born = kept.then(|| {
            let seconds = u64::try_from(stat.stx_btime.tv_sec).unwrap_or(0);
            Duration::new(seconds, stat.stx_btime.tv_nsec)
        });
        Some(Self { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, born })
    }

    /// Whether a later one that has its number is told from it.
    pub(crate) const fn outlives(&self) -> bool {
        self.born.is_some()
    }

    /// Whether it can have been made since `when`. File systems take the time of the last tick.
    pub(crate) fn is_made_since(&self, when: SystemTime) -> bool {
        const TICK: Duration = Duration::from_millis(20);
        let when = when.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.born.is_none_or(|born| born + TICK >= when)
    }

    #[cfg(test)]
    pub(crate) const fn numbered(inode: u64) -> Self {
        Self { device: (0, 0), inode, born: None }
    }
}

/// The way from the root to what a call is about.
pub(crate) trait Way {
    /// The directory that lies `up` above it; 0 is what it is about itself. `None` if that is no
    /// directory or isn't there.
    fn directory(&self, up: usize) -> Option<Identity>;

    /// The directory that lies `up` above it, at least 1.
    ///
    /// # Errors
    /// As the kernel's.
    fn open(&self, up: usize) -> Result<OwnedFd, Errno>;

    /// By what git would know that directory; `None` if that can't be told. It is locked until the call is made, so
    /// that no broker's caller changes that.
    fn marks(&self, up: usize, locks: &Locks) -> Option<Marks>;
}

/// The paths that are remembered take no more room than this.
const PATHS: usize = 32 << 20;

/// Directories of this launch.
#[derive(Default)]
pub(crate) struct History {
    /// Made in this sandbox where nothing had been before.
    made: HashSet<Identity>,
    /// Paths on the host at which there was a directory of somebody else's, moved or removed since.
    /// What is put there is taken for the old one by people and programs that trust the path.
    vacated: BTreeSet<Vec<u8>>,
    /// The length of all of them.
    length: usize,
    /// There were more: any path may have been one of them.
    overflowed: bool,
}

pub(crate) fn is_below(path: &[u8], root: &[u8]) -> bool {
    match path.strip_prefix(root) {
        Some(rest) => rest.is_empty() || rest.first() == Some(&b'/') || root == b"/",
        None => false,
    }
}

/// `path`, then all that lie above it.
pub(crate) fn upwards(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::successors(Some(path), |path| {
        let end = path.iter().rposition(|byte| *byte == b'/')?;
        (end > 0).then(|| &path[..end])
    })
}

impl History {
    /// Whether what `path` is about was made here: it itself if it is a directory, else the one that it
    /// lies in.
    pub(crate) fn is_made(&self, path: &[u8], way: &dyn Way) -> bool {
        if self.made.is_empty() || self.is_taken_over(path) {
            return false;
        }
        let directory = way.directory(0).or_else(|| way.directory(1));
        directory.is_some_and(|directory| self.made.contains(&directory))
    }

    /// Whether every directory above `path` was made here, up to the one that lies `up` above it.
    pub(crate) fn is_made_up_to(&self, path: &[u8], up: usize, way: &dyn Way) -> bool {
        let made = |up| way.directory(up).is_some_and(|directory| self.made.contains(&directory));
        !self.made.is_empty() && !self.is_taken_over(path) && (1..=up.max(1)).all(made)
    }

    /// Whether a path lies where there was something of somebody else's.
    fn is_taken_over(&self, path: &[u8]) -> bool {
        self.overflowed || (!self.vacated.is_empty() && upwards(path).any(|path| self.vacated.contains(path)))
    }

    /// Whether there was a directory of somebody else's.
    pub(crate) fn is_vacated(&self, path: &[u8]) -> bool {
        self.overflowed || self.vacated.contains(path)
    }

    /// A directory was made.
    pub(crate) fn made(&mut self, directory: Identity) {
        if !self.overflowed && self.made.len() < REMEMBERED {
            self.made.insert(directory);
        }
    }

    /// A directory has gone from `path`: it was removed.
    pub(crate) fn removed(&mut self, path: Vec<u8>, directory: Option<Identity>) {
        if !directory.is_some_and(|directory| self.made.remove(&directory)) {
            self.vacate(path);
        }
    }

    /// A directory has gone from `path`: it was moved.
    pub(crate) fn moved(&mut self, path: Vec<u8>, directory: Option<Identity>) {
        if !directory.is_some_and(|directory| self.made.contains(&directory)) {
            self.vacate(path);
        }
    }

    /// What was at `path` was somebody else's.
    pub(crate) fn vacate(&mut self, path: Vec<u8>) {
        if self.overflowed || self.vacated.contains(&path) {
            return;
        }
        if self.vacated.len() >= REMEMBERED || self.length + path.len() > PATHS {
            // Rather nothing counts as made inside any more than that a trusted path is taken over.
            *self = Self { overflowed: true, ..Self::default() };
            return;
        }
        self.length += path.len();
        self.vacated.insert(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: usize) -> Vec<u8> {
        format!("/{number}").into_bytes()
    }

    #[test]
    fn at_the_limit_nothing_counts_as_made_inside_and_no_path_is_added() {
        let mut history = History::default();
        history.made(Identity::numbered(1));
        (0..REMEMBERED).for_each(|number| history.vacate(path(number)));
        assert!(history.made.contains(&Identity::numbered(1)) && !history.is_vacated(b"/other"));
        history.vacate(path(REMEMBERED));
        assert!(history.is_vacated(b"/other") && history.is_taken_over(b"/other/below"));
        history.made(Identity::numbered(2));
        history.vacate(path(REMEMBERED + 1));
        assert_eq!((history.made.len(), history.vacated.len()), (0, 0));
    }

    #[test]
    fn long_paths_come_to_the_limit_sooner() {
        let mut history = History::default();
        let long = |number: usize| [vec![b'x'; 4000], path(number)].concat();
        (0..PATHS / 4000 + 1).for_each(|number| history.vacate(long(number)));
        assert!(history.overflowed);
    }

    /// A loop over one name takes no more room.
    #[test]
    fn one_path_counts_once() {
        let mut history = History::default();
        (0..REMEMBERED + 1).for_each(|_turn| history.vacate(path(1)));
        assert_eq!((history.length, history.overflowed), (2, false));
    }
}
