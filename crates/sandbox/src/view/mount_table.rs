// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mount table: what is at each path of the new tree, while it is planned.
//!
//! Paths are stored as bytes in which each component begins with a zero byte, which no path contains. Comparing them
//! byte by byte gives the order of paths: everything below a path follows it. [`Path`] compares component by component,
//! which took a fifth of the planning time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What is at a path of the new tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Made {
    /// A directory in the new root's tmpfs.
    Directory,
    /// A file there.
    File,
    /// A link there.
    Link(PathBuf),
    /// A tree of the host, by its path on the host.
    Mount(PathBuf),
}

/// The paths that steps have made. Paths are absolute.
#[derive(Debug, Default)]
pub(crate) struct MountTable(BTreeMap<Vec<u8>, Made>);

impl MountTable {
    /// Sets what is at `path`. Returns what was there before.
    pub(crate) fn insert(&mut self, path: &Path, made: Made) -> Option<Made> {
        self.0.insert(key(path), made)
    }

    /// What was made at exactly this path.
    pub(crate) fn get(&self, path: &Path) -> Option<&Made> {
        self.0.get(&key(path))
    }

    /// Whether something was made at exactly this path.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.get(path).is_some()
    }

    /// What was made at the nearest path at or above `path`, and the rest of `path` from there.
    pub(crate) fn nearest(&self, path: &Path) -> Option<(&Made, PathBuf)> {
        let key = key(path);
        let mut end = key.len();
        loop {
            if let Some(made) = self.0.get(&key[..end]) {
                return Some((made, path_of(key.get(end + 1..).unwrap_or_default())));
            }
            end = key[..end].iter().rposition(|byte| *byte == 0)?;
        }
    }

    /// Removes all entries at and below `path`. In this order they are one range. A search through all entries would be
    /// quadratic: 10 s for 10,000 rules.
    pub(crate) fn forget(&mut self, path: &Path) {
        let key = key(path);
        let is_below = |below: &[u8]| {
            below.strip_prefix(key.as_slice()).is_some_and(|rest| matches!(rest.first(), None | Some(0)))
        };
        let below = self.0.range(key.clone()..).map(|(below, _made)| below);
        let covered: Vec<Vec<u8>> = below.take_while(|below| is_below(below)).cloned().collect();
        for below in covered {
            self.0.remove(&below);
        }
    }

    /// The trees of the host: the path inside, and the path on the host.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = (Name<'_>, &Path)> {
        self.0.iter().filter_map(|(key, made)| match made {
            Made::Mount(source) => Some((Name(key), source.as_path())),
            Made::Directory | Made::File | Made::Link(_) => None,
        })
    }

    /// `path` with the links that steps have made followed.
    ///
    /// The links lead to directories that aren't links, so no link is followed twice.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        let mut at = Vec::with_capacity(path.as_os_str().len() + 1);
        for name in names(path) {
            step(&mut at, name);
            if let Some(Made::Link(target)) = self.0.get(&at) {
                step(&mut at, b"..");
                if target.has_root() {
                    at.clear();
                }
                names(target).for_each(|name| step(&mut at, name));
            }
        }
        Name(&at).path()
    }
}

/// A path in its stored form.
pub(crate) struct Name<'n>(&'n [u8]);

impl Name<'_> {
    /// The path.
    pub(crate) fn path(&self) -> PathBuf {
        if self.0.is_empty() { PathBuf::from("/") } else { path_of(self.0) }
    }
}

/// Appends a component to a path, or removes the last one for `..`.
fn step(at: &mut Vec<u8>, name: &[u8]) {
    if name == b".." {
        at.truncate(at.iter().rposition(|byte| *byte == 0).unwrap_or_default());
    } else {
        at.push(0);
        at.extend_from_slice(name);
    }
}

/// The components of a path, without its root and `.`.
fn names(path: &Path) -> impl Iterator<Item = &[u8]> {
    let names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    names.filter(|name| !name.is_empty() && *name != b".")
}

fn key(path: &Path) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.as_os_str().len() + 1);
    for name in names(path) {
        key.push(0);
        key.extend_from_slice(name);
    }
    key
}

fn path_of(key: &[u8]) -> PathBuf {
    let bytes = key.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect();
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount_table(names: &[&str]) -> MountTable {
        let mut mount_table = MountTable::default();
        for name in names {
            mount_table.insert(Path::new(name), Made::Directory);
        }
        mount_table
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        let mount_table = mount_table(&["/", "/usr/lib"]);
        for name in ["/usr/lib", "//usr/./lib/", "/usr/lib/."] {
            assert!(mount_table.has(Path::new(name)), "{name}");
        }
        for name in ["/usr", "/usr/lib/x", "/usr/li", "/usr/lib64", "/usr/lib/.."] {
            assert!(!mount_table.has(Path::new(name)), "{name}");
        }
        assert!(mount_table.has(Path::new("/")));
    }

    #[test]
    fn the_nearest_is_at_or_above() {
        let mut mount_table = mount_table(&["/", "/usr/lib-x"]);
        mount_table.insert(Path::new("/usr"), Made::Mount("/host/usr".into()));
        for (path, made, rest) in [
            ("/", Made::Directory, ""),
            ("/etc/passwd", Made::Directory, "etc/passwd"),
            ("/usr", Made::Mount("/host/usr".into()), ""),
            ("/usr/lib", Made::Mount("/host/usr".into()), "lib"),
            ("/usr//lib/x", Made::Mount("/host/usr".into()), "lib/x"),
            ("/usr/lib-x/y", Made::Directory, "y"),
            ("/usr-x", Made::Directory, "usr-x"),
        ] {
            assert_eq!(mount_table.nearest(Path::new(path)), Some((&made, rest.into())), "{path}");
        }
        mount_table.forget(Path::new("/"));
        assert_eq!(mount_table.nearest(Path::new("/usr/lib")), None);
    }

    #[test]
    fn what_is_below_is_forgotten_and_what_is_beside_isnt() {
        let all = ["/", "/a", "/a/b", "/a/b/c", "/a/b!", "/a/b-c", "/a/b/d", "/a/ba", "/a/c"];
        let mut mount_table = mount_table(&all);
        mount_table.forget(Path::new("/a/b"));
        let left: Vec<&str> = all.into_iter().filter(|name| mount_table.has(Path::new(name))).collect();
        assert_eq!(left, ["/", "/a", "/a/b!", "/a/b-c", "/a/ba", "/a/c"]);
    }

    #[test]
    fn links_are_followed() {
        let mut mount_table = mount_table(&["/"]);
        for (path, target) in [("/bin", "usr/bin"), ("/var/run", "../run"), ("/lib", "/usr/./lib")] {
            mount_table.insert(Path::new(path), Made::Link(target.into()));
        }
        for (path, real) in [
            ("/bin/sh", "/usr/bin/sh"),
            ("/var/run/x/../y", "/run/y"),
            ("/lib/../lib", "/usr/lib"),
            ("/../bin", "/usr/bin"),
            ("/usr//./bin/", "/usr/bin"),
            ("/", "/"),
        ] {
            assert_eq!(mount_table.resolve(Path::new(path)), Path::new(real), "{path}");
        }
    }

    #[test]
    fn trees_of_the_host_are_told_with_their_names() {
        let mut mount_table = mount_table(&["/", "/x"]);
        mount_table.insert(Path::new("/"), Made::Mount("/new".into()));
        mount_table.insert(Path::new("/x/y"), Made::Mount("/z".into()));
        let mounts: Vec<_> = mount_table.mounts().map(|(name, source)| (name.path(), source)).collect();
        assert_eq!(mounts, [("/".into(), Path::new("/new")), ("/x/y".into(), Path::new("/z"))]);
    }
}
