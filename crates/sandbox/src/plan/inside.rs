// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out what a plan shows at one path, from its steps as they will be applied.

use crate::caches;
use crate::plan::{Bind, Namespace, Origin, Plan, Step};
use palisade_sys::landlock::Rights;
use std::path::{Component, Path, PathBuf};

/// What a path inside is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Nothing exists there.
    Nothing,
    /// A directory or file that Palisade makes, read-only.
    Made,
    /// A link that Palisade makes.
    Link(PathBuf),
    /// A path of the host.
    Host {
        /// The host's path.
        path: PathBuf,
        /// The mount allows changes.
        write: bool,
        /// The mount allows execution.
        execute: bool,
    },
    /// A cache of the project.
    Cache {
        /// Where it is kept.
        path: PathBuf,
        /// It can be changed.
        write: bool,
    },
    /// A private, writable place, empty at first.
    Private,
    /// An empty placeholder.
    Hidden,
    /// A placeholder that can't be opened.
    Denied,
    /// The processes inside.
    Processes,
    /// The terminals inside.
    Terminals,
}

/// A path inside, under a plan.
#[derive(Clone, Debug)]
pub struct Inside<'p> {
    /// The path, links of the plan followed.
    pub path: PathBuf,
    /// What it is.
    pub seen: Seen,
    /// The step that decides: its index in the plan, and itself.
    pub step: Option<(usize, &'p Step<'p>)>,
    /// The rights that Landlock gives there; `None`: it isn't used.
    pub landlock: Option<Rights>,
}

impl Inside<'_> {
    /// Whether files there can be read and directories listed.
    #[must_use]
    pub fn can_read(&self) -> bool {
        let there = match self.seen {
            Seen::Nothing | Seen::Denied | Seen::Hidden => false,
            Seen::Made
            | Seen::Link(_)
            | Seen::Host { .. }
            | Seen::Cache { .. }
            | Seen::Private
            | Seen::Processes
            | Seen::Terminals => true,
        };
        there && (self.allowed(Rights::READ_FILE) || self.allowed(Rights::READ_DIR))
    }

    /// Whether it can be changed.
    #[must_use]
    pub fn can_write(&self) -> bool {
        let writable = matches!(
            self.seen,
            Seen::Host { write: true, .. } | Seen::Cache { write: true, .. } | Seen::Private
        );
        writable && self.allowed(Rights::WRITE_FILE)
    }

    /// Whether files there can be executed.
    #[must_use]
    pub fn can_execute(&self) -> bool {
        let executable =
            matches!(self.seen, Seen::Host { execute: true, .. } | Seen::Cache { .. } | Seen::Private);
        executable && self.allowed(Rights::EXECUTE)
    }

    fn allowed(&self, right: Rights) -> bool {
        self.landlock.is_none_or(|rights| rights.intersection(right) == right)
    }
}

/// The path of a step's result, and the rights that Landlock gives from there on.
fn place<'p>(step: &'p Step<'p>) -> Option<(&'p Path, Rights)> {
    Some(match step {
        Step::Bind(Bind { target, rights, .. }) => (target.as_path(), *rights),
        Step::Own { path, rights, .. }
        | Step::Tmpfs { path, rights }
        | Step::Queues { path, rights }
        | Step::Processes { path, rights } => (path.as_path(), *rights),
        Step::Allow { path, rights } | Step::Overlay { target: path, rights, .. } => {
            (path.as_path(), *rights)
        }
        Step::Directory { path, .. }
        | Step::File { path, .. }
        | Step::Socket { path, .. }
        | Step::Information { path, .. }
        | Step::Refusals { path }
        | Step::Symlink { path, .. }
        | Step::Terminals { path }
        | Step::Console { path } => (path.as_path(), Rights::default()),
        Step::Root { .. } | Step::Enter => return None,
    })
}

/// A step's path as a path inside. It may be `usr`, `/usr` or, for the root, `.`.
fn absolute(path: &Path) -> PathBuf {
    let mut whole = PathBuf::from("/");
    whole.extend(path.components().filter(|component| matches!(component, Component::Normal(_))));
    whole
}

/// What the plan shows at `path`, which is absolute.
#[must_use]
pub fn look<'p>(plan: &'p Plan<'p>, path: &Path) -> Inside<'p> {
    look_through(&plan.steps, plan.namespaces.contains(&Namespace::Mount), plan.landlock.is_some(), path)
}

/// What steps show at `path`, which is absolute. `own_tree`: they make a new tree; `landlock`: it is used.
pub(crate) fn look_through<'p>(
    steps: &'p [Step<'p>],
    own_tree: bool,
    landlock: bool,
    path: &Path,
) -> Inside<'p> {
    let path = resolve(steps, path);
    let mut rights = Rights::default();
    let mut found: (Seen, Option<(usize, &Step<'_>)>) = (Seen::Nothing, None);
    for (index, step) in steps.iter().enumerate() {
        let Some((at, allowed)) = place(step) else { continue };
        let at = absolute(at);
        if path.starts_with(&at) {
            // The root's rule allows listing only the root itself.
            if at != Path::new("/") || allowed != Rights::READ_DIR || path == at {
                rights = rights.union(allowed);
            }
            if let Some(seen) = covered(step, &at, &path, &found.0) {
                found = (seen, Some((index, step)));
            }
        } else if at.starts_with(&path)
            && matches!(found.0, Seen::Nothing)
            && !matches!(step, Step::Allow { .. })
        {
            // A directory above a step's path: it is made with that path.
            found = (Seen::Made, Some((index, step)));
        }
    }
    let (seen, step) = found;
    if own_tree {
        return Inside { path, seen, step, landlock: landlock.then_some(rights) };
    }
    let seen = Seen::Host { path: path.clone(), write: true, execute: true };
    Inside { path, seen, step: None, landlock: landlock.then_some(rights) }
}

/// What a step at or above a path makes of the path, given what was there before.
fn covered(step: &Step<'_>, at: &Path, path: &Path, before: &Seen) -> Option<Seen> {
    let exactly = at == path;
    Some(match step {
        Step::Bind(Bind { origin: Origin::Inside, source, target, .. }) if source == target => match before {
            Seen::Host { path, execute, .. } => {
                Seen::Host { path: path.clone(), write: false, execute: *execute }
            }
            Seen::Private => Seen::Made,
            other => other.clone(),
        },
        Step::Bind(Bind { origin: Origin::Inside, source, .. })
            if source.as_bytes().starts_with(b".palisade/file-") =>
        {
            Seen::Made
        }
        Step::Bind(Bind { origin: Origin::Inside, source, .. }) => {
            let denied = source.as_bytes().windows(6).any(|part| part == b"denied");
            if denied { Seen::Denied } else { Seen::Hidden }
        }
        Step::Bind(Bind { source, write, execute, .. }) => {
            let rest = path.strip_prefix(at).ok()?;
            let source = source.as_path();
            let host = if rest.as_os_str().is_empty() { source.to_owned() } else { source.join(rest) };
            if caches::is_place(at) {
                return Some(Seen::Cache { path: host, write: *write });
            }
            Seen::Host { path: host, write: *write, execute: *execute }
        }
        Step::Own { .. } | Step::Tmpfs { .. } | Step::Queues { .. } | Step::Overlay { .. } => Seen::Private,
        Step::Terminals { .. } | Step::Console { .. } => Seen::Terminals,
        Step::Processes { .. } => Seen::Processes,
        Step::Symlink { target, .. } if exactly => Seen::Link(target.as_path().to_owned()),
        // A directory that is made in a private place belongs to that place.
        Step::Directory { .. } if exactly && *before != Seen::Private => Seen::Made,
        Step::File { .. } | Step::Socket { .. } | Step::Information { .. } | Step::Refusals { .. }
            if exactly =>
        {
            Seen::Made
        }
        _ => return None,
    })
}

/// `path` with the plan's own links followed.
fn resolve(steps: &[Step<'_>], path: &Path) -> PathBuf {
    let links: Vec<(PathBuf, &Path)> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Symlink { path, target } => Some((absolute(path.as_path()), target.as_path())),
            _ => None,
        })
        .collect();
    let mut resolved = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                resolved.push(name);
                // Palisade's links lead to directories that aren't links, so one step is enough.
                if let Some((link, target)) = links.iter().find(|(link, _target)| *link == resolved) {
                    let base = link.parent().unwrap_or(Path::new("/")).join(target);
                    resolved = normal(&base);
                }
            }
            Component::ParentDir => {
                resolved.pop();
            }
            _ => {}
        }
    }
    resolved
}

/// A path without `.` and `..`, computed from its text.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            _ => {}
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::layers;
    use crate::plan::planner::{self, Isolation};
    use palisade_host::environment::Environment;
    use palisade_policy::{Access, LayerPolicy};

    #[test]
    fn agrees_with_the_policy_where_it_speaks_and_with_the_view_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        let project = home.join("project");
        for directory in ["project/private", "secret", "data"] {
            std::fs::create_dir_all(home.join(directory)).unwrap();
        }
        for file in ["project/.env", "secret/key", "data/x"] {
            std::fs::write(home.join(file), "x").unwrap();
        }
        let environment = Environment::from_iter([("HOME", home.as_os_str().to_owned())]);
        let facts = Facts::gather(environment, project.clone()).unwrap();
        let mut layer = LayerPolicy::command_line();
        layer.add_path(Access::Read, home.join("data"), 1).unwrap();
        layer.add_path(Access::Hide, "**/.env", 2).unwrap();
        layer.add_path(Access::Deny, "./private", 3).unwrap();
        let loaded = layers::load(&facts, layers::Request::default(), layer).unwrap();
        let plan = planner::make(&facts, &loaded.policy, None, Isolation::Full).unwrap();
        let see = |path: &Path| {
            let inside = look(&plan, path);
            (inside.seen.clone(), inside.can_read(), inside.can_write(), inside.can_execute())
        };
        let host = |path: &Path, write, execute| Seen::Host { path: path.to_owned(), write, execute };

        let file = project.join("src");
        assert_eq!(see(&file), (host(&file, true, true), true, true, true));
        assert_eq!(see(&project.join(".env")).0, Seen::Hidden);
        assert_eq!(see(&project.join("private/x")), (Seen::Denied, false, false, false));
        let data = home.join("data/x");
        assert_eq!(see(&data), (host(&data, false, false), true, false, false));
        assert_eq!(see(Path::new("/tmp/x")), (Seen::Private, true, true, true));
        assert_eq!(see(&home.join("secret/key")).0, Seen::Private, "an own home, empty");
        assert_eq!(see(Path::new("/proc/1/status")).0, Seen::Processes);
        assert_eq!(see(Path::new("/none/such")), (Seen::Nothing, false, false, false));
        let (seen, read, write, execute) = see(Path::new("/usr/bin/env"));
        assert!(matches!(seen, Seen::Host { .. }));
        assert_eq!((read, write, execute), (true, false, true));
    }
}
