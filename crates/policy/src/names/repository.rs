// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds directories that git treats as a repository, whatever their names.
//!
//! `.git` is only the usual name. git accepts each directory that it finds above the working directory, or that a
//! file `.git` leads to, if it contains the right files (`is_git_directory` in git's `setup.c`): a `HEAD`, and
//! `objects` and `refs`, either beside it or where a file `commondir` says. So what is protected in `.git` is
//! protected in such directories, too.

use super::{NameRule, NameRules, NameStatus, spelling};

/// The names by which git recognises its own directories.
pub const MARKS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Which of these names exist in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks([bool; MARKS.len()]);

impl Marks {
    /// Calls `ask` with each index in [`MARKS`].
    #[must_use]
    pub fn ask(has: impl FnMut(usize) -> bool) -> Self {
        let mut number = 0..MARKS.len();
        let mut has = has;
        Self([(); MARKS.len()].map(|()| number.next().is_some_and(&mut has)))
    }

    /// These marks, and the one with this index.
    #[must_use]
    pub const fn with(mut self, mark: usize) -> Self {
        self.0[mark] = true;
        self
    }

    /// These marks, without the one with this index.
    #[must_use]
    pub const fn without(mut self, mark: usize) -> Self {
        self.0[mark] = false;
        self
    }

    /// Whether git may be led here: to settings and hooks, which lie beside `objects` and `refs`, or to the files of
    /// one worktree.
    #[must_use]
    pub const fn are_enough(self) -> bool {
        let [head, objects, refs, common] = self.0;
        objects && refs || head && common
    }
}

/// The index in [`MARKS`] of a name, in any spelling that a file system accepts for it.
#[must_use]
pub fn mark(name: &[u8]) -> Option<usize> {
    let name = spelling::without_dots(name);
    // Most names have another length. A name that isn't ASCII could be any of them.
    if name.is_ascii() && !matches!(name.len(), 4 | 7 | 9) {
        return None;
    }
    spelling::folded(name, |name| MARKS.iter().position(|mark| mark.as_bytes().eq_ignore_ascii_case(name)))
}

/// The status of a path if a directory above it were named `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InRepository<'r> {
    /// The strictest status that such a directory gives.
    pub status: NameStatus<'r>,
    /// The number of components of that directory's path. 0 if no directory is a repository.
    pub directory: usize,
}

impl InRepository<'_> {
    /// The judged path: `path` with the directory renamed to `.git`.
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
    /// Like [`judge`](Self::judge), for files below directories for which `is_repository` returns true. It gets the
    /// number of components of a directory's path, and is called only where the result matters.
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
                // The next component below the directory.
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

    /// The rule that would protect files in a directory (an absolute path) if it were a repository. `None` if its own
    /// name protects them already.
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

/// Whether a rule about git's own directories may apply to this name. Other rules, such as a user's, apply only in
/// `.git` itself.
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
