// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects the host's files that a package contains, from a plan.
//!
//! Nothing is resolved a second time: the steps of the plan state what is shown and allowed, and which links are made
//! again. A package is given to others, so it leaves out files that only some users of this host may read.

use super::error::PackageError;
use palisade_sandbox::package::{READ_BY_ALL, RESOLVER, is_hosts, is_packed};
use palisade_sandbox::plan::{Bind, Origin, Plan, Step};
use palisade_sys::landlock::Rights;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Where a name's content comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A directory of the host, or one to mount on.
    Directory {
        /// Seconds since 1970.
        modified: i64,
    },
    /// A file of the host.
    File {
        /// Its size.
        size: u64,
        /// Seconds since 1970.
        modified: i64,
        /// It may be executed.
        executable: bool,
    },
    /// An empty file to mount on.
    Empty,
    /// A symbolic link.
    Link(PathBuf),
}

/// What a package takes along.
#[derive(Debug, Default)]
pub struct Selection {
    /// By paths, absolute.
    pub names: BTreeMap<PathBuf, Source>,
    /// Paths that not every user may read; the package leaves them out.
    pub private: Vec<PathBuf>,
    /// Packed paths that the policy hides: the package contains only their names, to be covered.
    covered: BTreeSet<PathBuf>,
}

impl Selection {
    /// The size of all files.
    #[must_use]
    pub fn size(&self) -> u64 {
        let size = |source: &Source| match source {
            Source::File { size, .. } => *size,
            _ => 0,
        };
        self.names.values().map(size).sum()
    }
}

/// Looks at what a plan shows.
///
/// # Errors
/// When a file can't be looked at, or the plan lets something be changed that would be in the package.
pub fn select(profile: &str, plan: &Plan<'_>) -> Result<Selection, PackageError> {
    let mut selection = Selection { covered: covered(plan).collect(), ..Selection::default() };
    for step in &plan.steps {
        match step {
            Step::Bind(bind) => {
                let source = bind.source.as_path();
                if !matches!(bind.origin, Origin::System | Origin::Canonical)
                    || bind.devices
                    || !is_packed(source)
                {
                    continue;
                }
                if bind.write {
                    return Err(PackageError::Writes {
                        profile: profile.to_owned(),
                        path: source.to_owned(),
                    });
                }
                // A bind without a right only lets single files in it be allowed. Those files are taken instead.
                if bind.rights != Rights::default() {
                    selection.take(source)?;
                }
            }
            Step::Allow { path, rights } if *rights != Rights::default() => {
                let path = Path::new("/").join(path.as_path());
                if is_packed(&path) && path.symlink_metadata().is_ok() {
                    selection.take(&path)?;
                }
            }
            _ => {}
        }
    }
    for (path, source) in made(plan) {
        if selection.private.contains(&path) {
            continue;
        }
        match source {
            // The host's own file is mounted here. The link that this host has at the path would prevent that.
            Source::Link(_) if is_hosts(&path) => selection.make(&path, Source::Empty),
            _ if path.ancestors().any(is_packed) => selection.make(&path, source),
            _ => {}
        }
    }
    for path in READ_BY_ALL.iter().chain([&RESOLVER]) {
        selection.make(Path::new(path), Source::Empty);
    }
    Ok(selection)
}

/// The names that a plan covers with placeholders.
fn covered<'p>(plan: &'p Plan<'_>) -> impl Iterator<Item = PathBuf> + use<'p> {
    plan.steps.iter().filter_map(|step| match step {
        Step::Bind(bind) if bind.origin == Origin::Inside && bind.rights == Rights::default() => {
            Some(Path::new("/").join(bind.target.as_path()))
        }
        _ => None,
    })
}

/// The names that a plan makes: in a package they must be there, to be mounted on.
fn made<'p>(plan: &'p Plan<'_>) -> impl Iterator<Item = (PathBuf, Source)> + use<'p> {
    plan.steps.iter().filter_map(|step| {
        let directory = Source::Directory { modified: 0 };
        let (path, source) = match step {
            Step::Directory { path, .. } | Step::Own { path, .. } | Step::Tmpfs { path, .. } => {
                (path, directory)
            }
            Step::Overlay { target, .. } => (target, directory),
            Step::File { path, .. } => (path, Source::Empty),
            Step::Symlink { path, target } => (path, Source::Link(target.as_path().to_owned())),
            Step::Bind(bind) => (&bind.target, mount_point(bind)),
            _ => return None,
        };
        Some((Path::new("/").join(path.as_path()), source))
    })
}

fn mount_point(bind: &Bind<'_>) -> Source {
    match bind.origin {
        Origin::System | Origin::Canonical if bind.source.as_path().is_dir() => {
            Source::Directory { modified: 0 }
        }
        Origin::WorkingDirectory => Source::Directory { modified: 0 },
        _ => Source::Empty,
    }
}

impl Selection {
    /// Takes a file, or a directory with all that is in it.
    fn take(&mut self, path: &Path) -> Result<(), PackageError> {
        let mut pending = vec![path.to_owned()];
        while let Some(path) = pending.pop() {
            if !is_packed(&path) || path.ancestors().skip(1).any(|above| self.covered.contains(above)) {
                continue;
            }
            let failed = |source| PackageError::Take { path: path.clone(), source };
            let found = path.symlink_metadata().map_err(failed)?;
            if self.covered.contains(&path) {
                let empty = Source::Directory { modified: found.mtime() };
                self.insert(&path, if found.is_dir() { empty } else { Source::Empty });
            } else if found.is_symlink() {
                let target = std::fs::read_link(&path).map_err(failed)?;
                self.insert(&path, Source::Link(target));
            } else if found.is_dir() {
                if found.mode() & 0o005 != 0o005 {
                    self.private.push(path);
                    continue;
                }
                let entries = std::fs::read_dir(&path).map_err(failed)?;
                for entry in entries {
                    pending.push(entry.map_err(failed)?.path());
                }
                self.insert(&path, Source::Directory { modified: found.mtime() });
            } else if found.is_file() {
                self.file(path, &found);
            }
        }
        Ok(())
    }

    fn file(&mut self, path: PathBuf, found: &Metadata) {
        let executable = found.mode() & 0o111 != 0;
        if found.mode() & 0o004 == 0 {
            self.private.push(path);
        } else {
            self.insert(&path, Source::File { size: found.len(), modified: found.mtime(), executable });
        }
    }

    /// Makes a name that a plan makes, unless it is there.
    fn make(&mut self, path: &Path, source: Source) {
        if !self.names.contains_key(path) {
            self.insert(path, source);
        }
    }

    /// Adds a name and the directories above it. It skips a name behind a link, which is added by its real path.
    fn insert(&mut self, path: &Path, source: Source) {
        let is_link = |name: &Path| matches!(self.names.get(name), Some(Source::Link(_)));
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|name| name.parent().is_some()).collect();
        if above.iter().any(|name| is_link(name)) {
            return;
        }
        for name in above {
            let modified = name.symlink_metadata().map(|found| found.mtime()).unwrap_or_default();
            self.names.entry(name.to_owned()).or_insert(Source::Directory { modified });
        }
        let source = match source {
            Source::Link(target) => Source::Link(relative(path, target)),
            Source::Directory { modified: 0 } => Source::Directory {
                modified: path.symlink_metadata().map(|found| found.mtime()).unwrap_or_default(),
            },
            other => other,
        };
        self.names.insert(path.to_owned(), source);
    }
}

/// The target that a link gets in a package. A target that is packed, too, becomes relative to the link, so it is found
/// wherever the package is unpacked. A target on the host stays absolute.
fn relative(link: &Path, target: PathBuf) -> PathBuf {
    let plain = target.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !target.is_absolute() || !plain || !is_packed(&target) {
        return target;
    }
    let mut out = PathBuf::new();
    for _above in link.components().skip(2) {
        out.push("..");
    }
    out.extend(target.components().skip(1));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_within_a_package_lead_there_from_anywhere() {
        for (link, target, expected) in [
            ("/usr/bin/vi", "/etc/alternatives/vi", "../../etc/alternatives/vi"),
            ("/bin", "/usr/bin", "usr/bin"),
            ("/bin", "usr/bin", "usr/bin"),
            ("/usr/lib/x", "/proc/self/fd", "/proc/self/fd"),
            ("/etc/x", "/etc/resolv.conf", "/etc/resolv.conf"),
        ] {
            assert_eq!(relative(Path::new(link), target.into()), Path::new(expected), "{link}");
        }
    }

    #[test]
    fn nothing_lies_behind_a_link() {
        let mut selection = Selection::default();
        selection.insert(Path::new("/bin"), Source::Link("usr/bin".into()));
        selection.insert(Path::new("/bin/sh"), Source::Empty);
        selection.insert(Path::new("/usr/bin/sh"), Source::Empty);
        let names: Vec<&Path> = selection.names.keys().map(PathBuf::as_path).collect();
        let expected = ["/bin", "/usr", "/usr/bin", "/usr/bin/sh"].map(Path::new);
        assert_eq!(names, expected);
    }
}
