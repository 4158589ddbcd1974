// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What git will find that a command made.
//!
//! A command decides how many there are. So only some are remembered, each once.

use super::marks;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// So many are remembered.
pub const REMEMBERED: usize = 1000;

/// Repositories that were made inside.
#[derive(Debug, Default)]
pub struct Repositories {
    paths: BTreeSet<PathBuf>,
    /// There may be more.
    overflowed: bool,
}

impl Repositories {
    /// One was made: git's own directory, or the file that leads to it.
    pub fn note(&mut self, path: &Path) {
        if self.paths.contains(path) {
            return;
        }
        if self.paths.len() >= REMEMBERED && !self.overflowed {
            // Those that are gone make room. Looking costs a call for each, so it isn't done again for few.
            self.paths.retain(|path| path.symlink_metadata().is_ok());
            self.overflowed = self.paths.len() > REMEMBERED / 2;
        }
        if self.paths.len() < REMEMBERED {
            self.paths.insert(path.to_owned());
        }
    }

    /// Those that are there now, each with what it is.
    pub fn found(&self) -> impl Iterator<Item = (&Path, Made)> {
        self.paths.iter().filter_map(|path| Some((path.as_path(), kind(path)?)))
    }

    /// Whether there may be more than were remembered.
    #[must_use]
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// How many are remembered.
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
    /// A file that says where it is.
    LeadsTo(String),
}

/// What is there now. The file is the command's: not more of it is read than git would.
fn kind(path: &Path) -> Option<Made> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if metadata.is_dir() {
        let named = path.file_name().is_some_and(|name| name == ".git");
        let tree = if named { path.parent().unwrap_or(path) } else { path };
        return (named || marks(path).are_enough()).then(|| Made::Repository(tree.to_owned()));
    }
    if !metadata.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(4096).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.strip_prefix("gitdir:").map(|target| Made::LeadsTo(target.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop that makes and removes them hides none that stays.
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
}
