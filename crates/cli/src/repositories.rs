// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports what the command made that git will find, after the command has ended. It names only some.

use crate::output;
pub(crate) use palisade_sandbox::plan::repository::made::Repositories;
use palisade_sandbox::plan::repository::made::{self, Made};
use palisade_text::{harmless, quoted, shown};
use std::path::{Path, PathBuf};

/// At most this many are named.
const NAMED: usize = 20;

/// Reports which ones exist now. `lost`: worktrees that are gone with the sandbox.
pub(crate) fn tell(repositories: &Repositories, lost: &[PathBuf]) {
    for line in lines(repositories, lost) {
        output::note(&line);
    }
}

fn lines(repositories: &Repositories, lost: &[PathBuf]) -> Vec<String> {
    let mut found = repositories.found();
    let words = |(path, made): (&Path, Made)| match made {
        Made::Repository(repository) => match made::worktree(path).filter(|tree| lost.contains(tree)) {
            Some(tree) => {
                let hint = worktree_hint(&tree);
                format!("the worktree {} was made in a private place and is gone; hint: {hint}", shown(&tree))
            }
            None => format!("a repository was made inside: {}", shown(&repository)),
        },
        Made::LeadsTo(target) => format!(
            "{} was made inside and leads git to {}: examine that directory before you use git here",
            shown(path),
            harmless(&target)
        ),
    };
    let mut lines: Vec<String> = found.by_ref().take(NAMED).map(words).collect();
    let more = found.count();
    if more > 0 {
        let least = if repositories.overflowed() { "at least " } else { "" };
        lines.push(format!("and {least}{more} more that git would use as repositories"));
    }
    lines
}

/// The worktrees among the paths that are gone with the sandbox.
pub(crate) fn lost_worktrees(repositories: &Repositories, gone: &[PathBuf]) -> Vec<PathBuf> {
    repositories
        .found()
        .filter_map(|(path, _made)| made::worktree(path))
        .filter(|tree| gone.contains(tree))
        .collect()
}

/// Git knows the worktree's name already, so it needs `-f`.
fn worktree_hint(tree: &Path) -> String {
    format!("git worktree add -f {}   # outside of the sandbox", quoted(&tree.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_sandbox::plan::repository::made::REMEMBERED;

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
        assert_eq!(lines(&made, &[]), [tree(&paths[0]), tree(&paths[2])]);
    }

    #[test]
    fn twenty_are_named_and_the_rest_counted() {
        let (_root, paths) = place(NAMED + 7);
        let mut made = Repositories::default();
        paths.iter().for_each(|path| made.note(path));
        let lines = lines(&made, &[]);
        assert_eq!(lines.len(), NAMED + 1);
        assert_eq!(lines[NAMED], "and 7 more that git would use as repositories");
    }

    #[test]
    fn at_the_limit_no_more_are_remembered() {
        let (_root, paths) = place(REMEMBERED + 5);
        let mut made = Repositories::default();
        paths.iter().for_each(|path| made.note(path));
        assert_eq!(made.remembered(), REMEMBERED);
        let last = format!("and at least {} more that git would use as repositories", REMEMBERED - NAMED);
        assert_eq!(lines(&made, &[]).last(), Some(&last));
    }
}
