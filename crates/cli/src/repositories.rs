// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What git will find that the command made: told when it has ended.
//!
//! A command decides how many there are. So only some are remembered, each once, and fewer are named.

use crate::output;
use palisade_sandbox::plan::repository;
use palisade_text::{harmless, shown};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// So many are remembered.
const REMEMBERED: usize = 1000;
/// So many are named.
const NAMED: usize = 20;

/// Repositories that were made inside.
#[derive(Debug, Default)]
pub(crate) struct Repositories {
    paths: BTreeSet<PathBuf>,
    /// There may be more.
    overflowed: bool,
}

impl Repositories {
    /// One was made: git's own directory, or the file that leads to it.
    pub(crate) fn note(&mut self, path: &Path) {
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

    /// Says which are there now.
    pub(crate) fn tell(&self) {
        for line in self.lines() {
            output::note(&line);
        }
    }

    fn lines(&self) -> Vec<String> {
        let found: Vec<(&PathBuf, Made)> =
            self.paths.iter().filter_map(|path| Some((path, kind(path)?))).collect();
        let mut lines: Vec<String> = found
            .iter()
            .take(NAMED)
            .map(|(path, made)| match made {
                Made::Repository(tree) => format!("a repository was made inside: {}", shown(tree)),
                Made::LeadsTo(target) => format!(
                    "{} was made inside and leads git to {}: look at what is there before you use git here",
                    shown(path),
                    harmless(target)
                ),
            })
            .collect();
        let more = found.len().saturating_sub(NAMED);
        if more > 0 {
            let least = if self.overflowed { "at least " } else { "" };
            lines.push(format!("and {least}{more} more that git would take for repositories"));
        }
        lines
    }
}

/// What git will find.
enum Made {
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
        return (named || repository::marks(path).are_enough()).then(|| Made::Repository(tree.to_owned()));
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

    fn place(count: usize) -> (tempfile::TempDir, Vec<PathBuf>) {
        let root = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> =
            (0..count).map(|number| root.path().join(format!("{number:05}/.git"))).collect();
        paths.iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
        (root, paths)
    }

    #[test]
    fn each_is_named_once_and_what_is_gone_not_at_all() {
        let (_root, paths) = place(3);
        let mut made = Repositories::default();
        for path in [&paths[0], &paths[1], &paths[0], &paths[2]] {
            made.note(path);
        }
        std::fs::remove_dir(&paths[1]).unwrap();
        let tree =
            |path: &Path| format!("a repository was made inside: {}", path.parent().unwrap().display());
        assert_eq!(made.lines(), [tree(&paths[0]), tree(&paths[2])]);
    }

    #[test]
    fn twenty_are_named_and_the_rest_counted() {
        let (_root, paths) = place(NAMED + 7);
        let mut made = Repositories::default();
        paths.iter().for_each(|path| made.note(path));
        let lines = made.lines();
        assert_eq!(lines.len(), NAMED + 1);
        assert_eq!(lines[NAMED], "and 7 more that git would take for repositories");
    }

    #[test]
    fn at_the_limit_no_more_are_remembered() {
        let (_root, paths) = place(REMEMBERED + 5);
        let mut made = Repositories::default();
        paths.iter().for_each(|path| made.note(path));
        assert_eq!(made.paths.len(), REMEMBERED);
        let last = format!("and at least {} more that git would take for repositories", REMEMBERED - NAMED);
        assert_eq!(made.lines().last(), Some(&last));
    }

    /// A loop that makes and removes them hides none that stays.
    #[test]
    fn what_is_gone_makes_room() {
        let (_root, paths) = place(1);
        let mut made = Repositories::default();
        (0..3 * REMEMBERED).for_each(|number| made.note(&PathBuf::from(format!("/gone/{number}/.git"))));
        made.note(&paths[0]);
        assert!(made.paths.len() <= REMEMBERED);
        assert_eq!(made.lines().len(), 1);
    }
}
