// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the symbolic links along a path, each with its own place and target.
//!
//! A sandboxed command that can write to a directory controls where the links in it lead. If Palisade followed such a
//! link for a grant, or passed its target on, the command could choose any file. So a path is walked name by name,
//! and each link is reported before it is followed: [`Way::escape`] finds the link that leads out of such
//! directories.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use crate::names::Names;

/// The most links that the kernel follows in one path.
const LINKS: usize = 40;

/// A symbolic link along a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The link's path: absolute, without links in the directories above.
    pub place: PathBuf,
    /// The link's content, unresolved: it may be relative to the link's directory.
    pub target: PathBuf,
}

/// The result of walking a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The links in the order in which they are met.
    pub links: Vec<Link>,
    /// Where the path ends: absolute, without links, `.` and `..`. The part from the first missing name on is
    /// appended unchanged.
    pub end: PathBuf,
    /// Whether the end exists.
    pub there: bool,
}

impl Way {
    /// The link at or below one of the directories `trees` that leads the path out of them; the last one, if there
    /// are several. `None`: the path meets no link there, or still ends in one of them.
    ///
    /// `trees` are absolute and without links. A link above a tree isn't in the tree.
    #[must_use]
    pub fn escape<'w>(&'w self, trees: &[&Path]) -> Option<&'w Link> {
        let within = |path: &Path| trees.iter().any(|tree| path.starts_with(tree));
        if within(&self.end) {
            return None;
        }
        self.links.iter().rev().find(|link| within(&link.place))
    }
}

/// Walks an absolute path.
///
/// # Errors
/// `ELOOP` when there are more links than the kernel would follow, `EINVAL` for a path that isn't absolute, and the
/// error of `readlink` where a directory can't be searched.
pub fn walk(names: &Names, path: &Path) -> Result<Way, Errno> {
    if !path.is_absolute() {
        return Err(Errno::INVAL);
    }
    let mut way = Way { links: Vec::new(), end: PathBuf::from("/"), there: true };
    let mut left = VecDeque::new();
    prepend(&mut left, path);
    while let Some(name) = left.pop_front() {
        if name == ".." {
            way.end.pop();
            continue;
        }
        let at = way.end.join(&name);
        if !way.there {
            way.end = at;
            continue;
        }
        match names.link(&at) {
            Ok(target) => {
                if way.links.len() == LINKS {
                    return Err(Errno::LOOP);
                }
                if target.is_absolute() {
                    way.end = PathBuf::from("/");
                }
                prepend(&mut left, &target);
                way.links.push(Link { place: at, target });
            }
            Err(Errno::INVAL) => way.end = at,
            Err(Errno::NOENT | Errno::NOTDIR) => {
                way.there = false;
                way.end = at;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(way)
}

/// Puts the names of `path` before the remaining ones.
pub(crate) fn prepend(left: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(_) | Component::ParentDir => left.push_front(part.as_os_str().to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn link(place: PathBuf, target: &str) -> Link {
        Link { place, target: target.into() }
    }

    #[test]
    fn each_link_is_told_with_its_own_place() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "").unwrap();
        symlink("a", root.join("first")).unwrap();
        symlink("../first/b", root.join("a/second")).unwrap();
        symlink(root.join("a/second/file"), root.join("third")).unwrap();
        let names = Names::default();
        let way = walk(&names, &root.join("first/./second/../b/file")).unwrap();
        let links = [
            link(root.join("first"), "a"),
            link(root.join("a/second"), "../first/b"),
            link(root.join("first"), "a"),
        ];
        assert_eq!(way, Way { links: links.into(), end: root.join("a/b/file"), there: true });
        let way = walk(&names, &root.join("third")).unwrap();
        assert_eq!(way.links.len(), 3);
        assert_eq!(way.links[0].place, root.join("third"));
        assert_eq!(way.end, root.join("a/b/file"));
        assert_eq!(walk(&names, Path::new("/")).unwrap().end, Path::new("/"));
    }

    #[test]
    fn it_ends_where_the_kernel_ends() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        for (target, link) in [("a/b", "in"), ("..", "a/b/up"), ("in/c", "chain"), ("/usr/bin", "bin")] {
            symlink(target, at(link)).unwrap();
        }
        for path in
            ["a", "in", "in/c", "in/up", "in/up/b/c", "chain/..", "chain/../up/b", "bin/..", "a//b/./c/"]
        {
            let way = walk(&Names::default(), &at(path)).unwrap();
            assert_eq!(way.end, at(path).canonicalize().unwrap(), "{path}");
            assert!(way.there, "{path}");
        }
    }

    #[test]
    fn what_leads_nowhere_is_told_from_what_cant_be_walked() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        symlink("none", root.join("dangling")).unwrap();
        symlink("loop-2", root.join("loop-1")).unwrap();
        symlink("loop-1", root.join("loop-2")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        let names = Names::default();
        let way = walk(&names, &root.join("dangling/x/../y")).unwrap();
        assert_eq!((way.there, way.links.len()), (false, 1));
        assert_eq!(way.end, root.join("none/y"));
        assert!(!walk(&names, &root.join("file/x")).unwrap().there);
        assert_eq!(walk(&names, &root.join("loop-1")), Err(Errno::LOOP));
        assert_eq!(walk(&names, Path::new("relative")), Err(Errno::INVAL));
    }

    #[test]
    fn a_link_escapes_that_leads_out_of_all_trees() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for path in ["real/tree/sub", "other", "outside"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        symlink("real", root.join("above")).unwrap();
        symlink("../../outside", root.join("real/tree/out")).unwrap();
        symlink("out", root.join("real/tree/again")).unwrap();
        symlink("sub", root.join("real/tree/in")).unwrap();
        symlink("../../other", root.join("real/tree/side")).unwrap();
        symlink("../real/tree", root.join("outside/back")).unwrap();
        let tree = root.join("real/tree");
        let other = root.join("other");
        let names = Names::default();
        let escape = |path: &str, trees: &[&Path]| {
            walk(&names, &root.join(path)).unwrap().escape(trees).map(|link| link.place.clone())
        };
        let trees = [tree.as_path()];
        assert_eq!(escape("above/tree/sub", &trees), None);
        assert_eq!(escape("above/tree/in/x", &trees), None);
        assert_eq!(escape("above/tree/out/x", &trees), Some(tree.join("out")));
        assert_eq!(escape("real/tree/again", &trees), Some(tree.join("out")), "the one that leads out");
        assert_eq!(escape("real/tree/side", &trees), Some(tree.join("side")));
        assert_eq!(escape("real/tree/side", &[&tree, &other]), None);
        assert_eq!(escape("real/tree/out/back/sub", &trees), None, "it comes back");
        assert_eq!(escape("outside/none", &trees), None);
        assert_eq!(
            escape("real/tree/out", &[&tree.join("out")]),
            Some(tree.join("out")),
            "at the tree itself"
        );
    }
}
