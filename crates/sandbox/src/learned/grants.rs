// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fewest grants for a set of uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The most paths of one kind in one tree. If there are more, directories that hold them replace them: each path is a
/// mount, and users don't read a long list.
const MOST: usize = 8;

/// The accesses that are allowed at a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Rights {
    /// Read and list.
    pub read: bool,
    /// Change, and read.
    pub write: bool,
    /// Execute, and read.
    pub execute: bool,
}

impl Rights {
    /// The rights that either one allows.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
            execute: self.execute || other.execute,
        }
    }

    /// Adds reading, which the other two include.
    const fn completed(self) -> Self {
        Self { read: self.read || self.write || self.execute, ..self }
    }

    /// Whether `other` allows no more than this.
    #[must_use]
    pub const fn includes(self, other: Self) -> bool {
        let (mine, other) = (self.completed(), other.completed());
        (mine.read || !other.read) && (mine.write || !other.write) && (mine.execute || !other.execute)
    }
}

/// The needs in one tree, by paths inside.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
    execute: BTreeSet<PathBuf>,
}

impl Grants {
    /// Adds what a use needs.
    pub fn add(&mut self, path: &Path, rights: Rights) {
        for (wanted, set) in [
            (rights.read, &mut self.read),
            (rights.write, &mut self.write),
            (rights.execute, &mut self.execute),
        ] {
            if wanted {
                set.insert(path.to_owned());
            }
        }
    }

    /// The fewest paths below `root` that give what was added.
    ///
    /// Of the rules made from these paths the one for the deepest path decides. So each path also has the rights of the
    /// paths above it.
    #[must_use]
    pub fn reduce(&self, root: &Path) -> BTreeMap<PathBuf, Rights> {
        let write = gather(&self.write, root);
        let execute = gather(&self.execute, root);
        // Both include reading.
        let covered =
            |path: &Path| path.ancestors().any(|above| write.contains(above) || execute.contains(above));
        let read: BTreeSet<PathBuf> = self.read.iter().filter(|path| !covered(path)).cloned().collect();
        let read = gather(&read, root);
        let rights_of = |path: &Path| {
            path.ancestors().fold(Rights::default(), |rights, above| {
                rights.union(Rights {
                    read: read.contains(above),
                    write: write.contains(above),
                    execute: execute.contains(above),
                })
            })
        };
        let mut reduced: BTreeMap<PathBuf, Rights> = BTreeMap::new();
        // Paths of few components come first, because a prefix sorts before its extensions.
        for path in read.iter().chain(&write).chain(&execute).collect::<BTreeSet<_>>() {
            let rights = rights_of(path);
            let above = path.ancestors().skip(1).find_map(|above| reduced.get(above));
            if above.is_none_or(|above| !above.includes(rights)) {
                reduced.insert(path.clone(), rights);
            }
        }
        reduced
    }
}

/// Removes paths that lie below others. If many remain, replaces them by the directories that hold them, the deepest first.
fn gather(paths: &BTreeSet<PathBuf>, root: &Path) -> BTreeSet<PathBuf> {
    let mut gathered = outermost(paths.iter().cloned());
    while gathered.len() > MOST {
        let Some(deepest) = gathered.iter().max_by_key(|path| path.components().count()).cloned() else {
            break;
        };
        let Some(parent) = deepest.parent().filter(|parent| parent.starts_with(root)) else { break };
        gathered = outermost(gathered.iter().cloned().chain([parent.to_owned()]));
    }
    gathered
}

fn outermost(paths: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let all: BTreeSet<PathBuf> = paths.collect();
    all.iter().filter(|path| !path.ancestors().skip(1).any(|above| all.contains(above))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Rights = Rights { read: true, write: false, execute: false };
    const WRITE: Rights = Rights { read: false, write: true, execute: false };
    const EXECUTE: Rights = Rights { read: false, write: false, execute: true };

    fn reduced(uses: &[(&str, Rights)]) -> Vec<(String, Rights)> {
        let mut grants = Grants::default();
        for (path, rights) in uses {
            grants.add(Path::new(path), *rights);
        }
        let reduced = grants.reduce(Path::new("/w"));
        reduced.into_iter().map(|(path, rights)| (path.display().to_string(), rights)).collect()
    }

    fn whole(path: &str, rights: Rights) -> (String, Rights) {
        (path.to_owned(), rights)
    }

    #[test]
    fn what_lies_below_a_grant_needs_none() {
        let uses = [("/w", READ), ("/w/a/b", READ), ("/w/out", WRITE), ("/w/out/x", READ)];
        assert_eq!(reduced(&uses), [whole("/w", READ), whole("/w/out", Rights { read: true, ..WRITE })]);
    }

    #[test]
    fn a_deeper_grant_has_what_the_one_above_has() {
        let uses = [("/w", WRITE), ("/w/out/bin", EXECUTE)];
        let both = Rights { read: false, write: true, execute: true };
        assert_eq!(reduced(&uses), [whole("/w", WRITE), whole("/w/out/bin", both)]);
    }

    #[test]
    fn many_paths_become_the_directories_that_hold_them_and_never_more_than_the_tree() {
        let paths: Vec<String> = (0..20).map(|n| format!("/w/src/deep/{n}")).collect();
        let uses: Vec<(&str, Rights)> = paths.iter().map(|path| (path.as_str(), READ)).collect();
        assert_eq!(reduced(&uses), [whole("/w/src/deep", READ)]);
        let paths: Vec<String> = (0..20).map(|n| format!("/w/{n}")).collect();
        let uses: Vec<(&str, Rights)> = paths.iter().map(|path| (path.as_str(), READ)).collect();
        assert_eq!(reduced(&uses), [whole("/w", READ)]);
    }
}
