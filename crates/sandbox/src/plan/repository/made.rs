// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remembers repositories that a command made and that git outside will find.
//!
//! A command decides how many it makes. So only a limited number is remembered, each one once.

use super::marks;
use rustix::fs::OFlags;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The most repositories that are remembered.
pub const REMEMBERED: usize = 1000;

/// Repositories that were made inside.
#[derive(Debug, Default)]
pub struct Repositories {
    paths: BTreeSet<PathBuf>,
    /// There may be more.
    overflowed: bool,
}

impl Repositories {
    /// Notes a repository that was made: git's own directory, or the file that leads to it.
    pub fn note(&mut self, path: &Path) {
        if self.paths.contains(path) {
            return;
        }
        if self.paths.len() >= REMEMBERED && !self.overflowed {
            // Entries that no longer exist make room. Each check costs a call, so it isn't repeated if it removed few.
            self.paths.retain(|path| path.symlink_metadata().is_ok());
            self.overflowed = self.paths.len() > REMEMBERED / 2;
        }
        if self.paths.len() < REMEMBERED {
            self.paths.insert(path.to_owned());
        }
    }

    /// The remembered repositories that exist now, each with its kind.
    pub fn found(&self) -> impl Iterator<Item = (&Path, Made)> {
        self.paths.iter().filter_map(|path| Some((path.as_path(), kind(path)?)))
    }

    /// Whether there may be more than were remembered.
    #[must_use]
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// The number of remembered repositories.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.paths.len()
    }
}

/// What git will find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// A repository, in this directory.
    Repository(PathBuf),
    /// A file that says where the repository is.
    LeadsTo(String),
}

/// What exists at the path now. The command wrote the file, so no more of it is read than git would read.
fn kind(path: &Path) -> Option<Made> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if metadata.is_dir() {
        let named = path.file_name().is_some_and(|name| name == ".git");
        let tree = if named { path.parent().unwrap_or(path) } else { path };
        return (named || marks(path).are_enough()).then(|| Made::Repository(tree.to_owned()));
    }
    let text = beginning(path)?;
    text.strip_prefix("gitdir:").map(|target| Made::LeadsTo(target.trim().to_owned()))
}

/// The directory of a worktree, by what a repository has of it (`.git/worktrees/NAME`). The command wrote the path. Nothing
/// looks at it: it may lead to a file system that doesn't answer.
#[must_use]
pub fn worktree(path: &Path) -> Option<PathBuf> {
    let listed = path.parent().and_then(Path::file_name).is_some_and(|name| name == "worktrees");
    let text = listed.then(|| beginning(&path.join("gitdir"))).flatten()?;
    Some(Path::new(text.trim()).parent()?.to_owned())
}

/// The first bytes of a regular file. Another sandbox may replace it by a pipe, whose opening would block.
fn beginning(file: &Path) -> Option<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(file).ok()?;
    let mut text = Vec::new();
    file.metadata().ok()?.is_file().then_some(&file)?.take(4096).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop that makes and removes repositories must not hide one that stays.
    #[test]
    fn what_is_gone_makes_room() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("00000/.git");
        std::fs::create_dir_all(&path).unwrap();
        let mut made = Repositories::default();
        (0..3 * REMEMBERED).for_each(|number| made.note(&PathBuf::from(format!("/gone/{number}/.git"))));
        made.note(&path);
        assert!(made.paths.len() <= REMEMBERED);
        assert_eq!(made.found().count(), 1);
    }

    #[test]
    fn a_pipe_in_a_files_place_holds_nobody_up() {
        let root = tempfile::tempdir().unwrap();
        let entry = root.path().join(".git/worktrees/tree");
        std::fs::create_dir_all(&entry).unwrap();
        let pipe = entry.join("gitdir");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(worktree(&entry), None);
        std::fs::remove_file(&pipe).unwrap();
        std::fs::write(&pipe, "/home/me/tree/.git\n").unwrap();
        assert_eq!(worktree(&entry), Some("/home/me/tree".into()));
        assert_eq!(worktree(&root.path().join(".git")), None);
    }
}
