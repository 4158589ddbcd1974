// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Directories that git takes for a repository, whatever they are called.
//!
//! `.git` is only the usual name: git believes each directory that it finds above the working
//! directory, or that a file `.git` leads to, if the right things lie in it (`is_git_directory` of
//! its `setup.c`): a `HEAD`, and `objects` and `refs` beside it or where a file `commondir` says.
//! So what is protected in `.git` is protected in those, too.

use super::{NameRule, NameRules, NameStatus, spelling};

/// By what git knows its own directories.
pub const MARKS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Which marks a directory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks([bool; MARKS.len()]);

impl Marks {
    /// Asks for each by its place in [`MARKS`].
    #[must_use]
    pub fn ask(has: impl FnMut(usize) -> bool) -> Self {
        let mut number = 0..MARKS.len();
        let mut has = has;
        Self([(); MARKS.len()].map(|()| number.next().is_some_and(&mut has)))
    }

    /// These, and the one at this place.
    #[must_use]
    pub const fn with(mut self, mark: usize) -> Self {
        self.0[mark] = true;
        self
    }

    /// These, but not the one at this place.
    #[must_use]
    pub const fn without(mut self, mark: usize) -> Self {
        self.0[mark] = false;
        self
    }

    /// Whether something may lead git here: to settings and hooks, which lie where `objects` and
    /// `refs` do, or to what belongs to one worktree.
    #[must_use]
    pub const fn are_enough(self) -> bool {
        let [head, objects, refs, common] = self.0;
        objects && refs || head && common
    }
}

/// The place in [`MARKS`] of what a file system may take for one of them.
#[must_use]
pub fn mark(name: &[u8]) -> Option<usize> {
    let name = spelling::without_dots(name);
    // All but a few names are longer or shorter; one that isn't ASCII may be any.
    if name.is_ascii() && !matches!(name.len(), 4 | 7 | 9) {
        return None;
    }
    spelling::folded(name, |name| MARKS.iter().position(|mark| mark.as_bytes().eq_ignore_ascii_case(name)))
}

/// How a path stands as if a directory above it were called `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InRepository<'r> {
    /// The strictest that one of them gives.
    pub status: NameStatus<'r>,
    /// How many components that directory's path has; 0 where no directory is a repository.
    pub directory: usize,
}

impl InRepository<'_> {
    /// The path that was judged: `path` with the directory called `.git`.
    #[must_use]
    pub fn as_if(&self, path: &[u8]) -> Vec<u8> {
        let mut components = 0;
        let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        for part in parts.iter_mut().filter(|part| !part.is_empty()) {
            components += 1;
            if components == self.directory {
                *part = b".git";
            }
        }
        parts.join(&b'/')
    }
}

impl NameRules {
    /// As [`judge`](Self::judge), for what lies in directories that `is_repository` says yes to: it is
    /// asked for the number of components of a directory's path, and only where it matters.
    #[must_use]
    pub fn judge_in_repositories(
        &self,
        path: &[u8],
        root: usize,
        mut is_repository: impl FnMut(usize) -> bool,
    ) -> InRepository<'_> {
        let mut found = InRepository { status: NameStatus::Free, directory: 0 };
        if !path.split(|byte| *byte == b'/').any(may_matter) {
            return found;
        }
        spelling::folded(path, |path| {
            let mut components = 0;
            let mut start = 0;
            for part in path.split(|byte| *byte == b'/') {
                let end = start + part.len();
                // What lies in the directory that the path names up to here.
                let next = path.get(end + 1..).and_then(|rest| rest.split(|byte| *byte == b'/').next());
                components += usize::from(!part.is_empty());
                if components >= root.max(1)
                    && next.is_some_and(may_matter)
                    && !part.eq_ignore_ascii_case(b".git")
                {
                    let alias = [&path[..start], b".git", &path[end..]].concat();
                    let status = self.judge(&alias, root);
                    let strictness = |status| match status {
                        NameStatus::Free => 0,
                        NameStatus::Holder(_) => 1,
                        NameStatus::Protected(rule) => 2 + NameRule::strictness(rule),
                    };
                    if strictness(status) > strictness(found.status) && is_repository(components) {
                        found = InRepository { status, directory: components };
                    }
                }
                start = end + 1;
            }
        });
        found
    }

    /// Whether anything in a repository of the name `directory` (absolute) would be protected, and is
    /// not by that name alone: the rule.
    #[must_use]
    pub fn of_repository(&self, directory: &[u8], root: usize) -> Option<&NameRule> {
        ["hooks", "config"].into_iter().find_map(|name| {
            let path = [directory, b"/", name.as_bytes()].concat();
            if self.judge(&path, root) != NameStatus::Free {
                return None;
            }
            match self.judge_in_repositories(&path, root, |_directory| true).status {
                NameStatus::Protected(rule) => Some(rule),
                NameStatus::Holder(_) | NameStatus::Free => None,
            }
        })
    }
}

/// Whether some rule may be about this in a directory of git's own. Rules with other names, a user's,
/// hold in `.git` alone.
fn may_matter(name: &[u8]) -> bool {
    const OF_GIT: [&str; 9] = [
        "hooks",
        "config",
        "config.worktree",
        "info",
        "commondir",
        "modules",
        "worktrees",
        "remotes",
        "branches",
    ];
    let name = spelling::without_dots(name);
    !name.is_ascii() || OF_GIT.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}
