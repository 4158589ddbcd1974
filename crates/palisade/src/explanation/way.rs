// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the links on the way to the file that a path names.

use crate::Situation;
use palisade_host::links;
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::inside::{self, Inside, Seen};
use std::path::{Component, Path, PathBuf};

/// A path and the links on the way to what it names.
#[derive(Debug)]
pub struct Way {
    /// The path as given, made absolute.
    pub given: PathBuf,
    /// The paths of the links. Each path has no links before its last name.
    links: Vec<PathBuf>,
    /// The path without links, as far as it exists. The policy is about real paths.
    pub real: PathBuf,
}

impl Way {
    /// Follows a path on the host, as the planner does.
    #[must_use]
    pub fn to(situation: &Situation, given: &Path) -> Self {
        let home = &situation.facts.account.home;
        let whole = match given.strip_prefix("~") {
            Ok(rest) => home.join(rest),
            Err(_) => situation.facts.cwd.join(given),
        };
        let given = lexical(&whole);
        // What these show depends on the process that looks.
        let is_own = whole.starts_with("/proc") || whole.starts_with("/dev");
        match if is_own { None } else { situation.facts.way(&whole).ok() } {
            Some(links::Way { links, end: real, .. }) => {
                Self { given, links: links.into_iter().map(|link| link.place).collect(), real }
            }
            // The target can't be found: the links form a circle, or a directory can't be searched.
            None => Self { real: given.clone(), given, links: Vec::new() },
        }
    }

    /// The first link that doesn't exist inside.
    pub(super) fn lost_link(&self, plan: &Plan<'_>) -> Option<&Path> {
        let there = |link: &Path| match inside::look(plan, link) {
            // Palisade makes this link, and `look` has followed it.
            Inside { path, .. } if path != link => true,
            Inside { seen: Seen::Host { path, .. }, .. } => path.symlink_metadata().is_ok(),
            _ => false,
        };
        self.links.iter().find(|link| !there(link)).map(PathBuf::as_path)
    }
}

fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::of_administrator;

    #[test]
    fn a_way_names_each_link_and_ends() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        std::os::unix::fs::symlink("real", base.join("one")).unwrap();
        std::os::unix::fs::symlink(base.join("one/file"), base.join("two")).unwrap();
        std::os::unix::fs::symlink("loop", base.join("loop")).unwrap();
        let situation = of_administrator("");
        let way = Way::to(&situation, &base.join("two"));
        assert_eq!(way.real, base.join("real/file"));
        assert_eq!(way.links, [base.join("two"), base.join("one")]);
        let circle = Way::to(&situation, &base.join("loop"));
        assert_eq!((circle.real, circle.links.len()), (base.join("loop"), 0));
    }
}
