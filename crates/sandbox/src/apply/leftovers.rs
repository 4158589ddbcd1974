// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds files that a command has left in private places, where they are gone with the sandbox.
//!
//! The launcher keeps the private directories open and compares the number of files on their file system with that
//! before the command. Only if there are more it looks for them, after the last process inside has ended.

use crate::plan::{Plan, Step};
use crate::view::above::CACHE;
use palisade_sys::operation::{Kept, count_files};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How many names are looked at in a place, and how many are listed. More would hold up the end of a launch.
const LOOKED_AT: usize = 20_000;
const LISTED: usize = 1000;
/// The directory in which programs expect that files don't last.
const SCRATCH: &str = "/tmp";

/// The private places of a launch.
#[derive(Debug)]
pub(crate) struct Private {
    /// The paths inside, and the directories. All are on one file system.
    places: Vec<(PathBuf, OwnedFd)>,
    /// How many files it had before the command ran.
    before: u64,
}

impl Private {
    /// The places that the builder has made.
    pub(crate) fn take(plan: &Plan<'_>, kept: &[(usize, Kept)]) -> Self {
        let mut before = 0;
        let place = |(step, kept): &(usize, Kept)| {
            let Some(Step::Own { path, .. }) = plan.steps.get(*step) else { return None };
            let (tree, counted) = kept.take()?;
            before = before.max(counted);
            Some((inside(path.as_bytes()), tree))
        };
        Self { places: kept.iter().filter_map(place).collect(), before }
    }

    /// The same if there are more files now. Otherwise they are closed before the sandbox ends: the process that closes
    /// a file system last has to remove it.
    pub(crate) fn changed(self) -> Option<Self> {
        let (_path, first) = self.places.first()?;
        let now = count_files(first.as_fd()).ok()?;
        (now > self.before).then_some(self)
    }

    /// The paths of what was left. A directory stands for what is in it.
    pub(crate) fn list(&self, plan: &Plan<'_>) -> Vec<PathBuf> {
        self.except(&made(plan))
    }

    fn except(&self, made: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let mut search = Search { made, left: 0, found: Vec::new() };
        for (path, tree) in &self.places {
            // Many files in one place don't hide those in another.
            search.left = LOOKED_AT;
            if let Ok(stat) = fstat(tree) {
                search.look_into(path, tree.as_fd(), c".", stat.st_dev);
            }
        }
        search.found
    }
}

fn inside(relative: &[u8]) -> PathBuf {
    Path::new("/").join(OsStr::from_bytes(relative))
}

fn made(plan: &Plan<'_>) -> BTreeSet<PathBuf> {
    let path = |step: &Step<'_>| match step {
        Step::Directory { path, .. }
        | Step::File { path, .. }
        | Step::Information { path, .. }
        | Step::Symlink { path, .. }
        | Step::Socket { path, .. } => Some(inside(path.as_bytes())),
        _ => None,
    };
    plan.steps.iter().filter_map(path).collect()
}

struct Search<'s> {
    made: &'s BTreeSet<PathBuf>,
    left: usize,
    found: Vec<PathBuf>,
}

impl Search<'_> {
    /// Looks into the directory `name` of `above`. `device`: mounts of other file systems are passed over.
    fn look_into(&mut self, path: &Path, above: BorrowedFd<'_>, name: &CStr, device: u64) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(directory) = openat(above, name, flags, Mode::empty()) else { return };
        let Ok(entries) = Dir::read_from(&directory) else { return };
        let scratch = path == Path::new(SCRATCH);
        for entry in entries.flatten() {
            let name = entry.file_name();
            if self.left == 0 || self.found.len() == LISTED {
                return;
            }
            self.left -= 1;
            // Hidden files are programs' own: caches, logs, settings.
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            if scratch && !self.made.contains(&below) {
                continue;
            }
            let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if stat.st_dev != device {
                continue;
            }
            if self.made.contains(&below) {
                if is_directory {
                    self.look_into(&below, directory.as_fd(), name, device);
                }
            } else if name.to_bytes() != CACHE.as_bytes() {
                self.found.push(if is_directory { below.join("") } else { below });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_the_plan_has_made_and_what_is_hidden_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path();
        for directory in ["code/project", "code/wt/deep", ".cache/x", "go/pkg"] {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        for file in ["notes", "code/notes", "code/project/mine", "code/wt/file", ".bashrc", "code/.env"] {
            fs::write(home.join(file), "").unwrap();
        }
        let made = ["code", "code/project"].map(|path| home.join(path)).into();
        let tree = openat(rustix::fs::CWD, home, OFlags::RDONLY, Mode::empty()).unwrap();
        let private = Private { places: vec![(home.to_owned(), tree)], before: 0 };
        let mut found = private.except(&made);
        found.sort();
        let expected = ["code/notes", "code/project/mine", "code/wt/", "notes"].map(|path| home.join(path));
        assert_eq!(found, expected);
        assert!(found[2].as_os_str().as_bytes().ends_with(b"/"));
    }
}
