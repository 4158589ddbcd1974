// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Caches lookups in the file tree while one plan is made: most paths share the same directories.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use foldhash::fast::RandomState;
use rustix::io::Errno;

/// The most links that the kernel follows in one path.
const LINKS: usize = 40;
/// The most entries of a directory that is listed in order to look for a name in it.
const LISTED: usize = 50_000;

/// The cache.
#[derive(Debug, Default)]
pub struct Names {
    links: RefCell<HashMap<PathBuf, Result<PathBuf, Errno>, RandomState>>,
    real: RefCell<HashMap<PathBuf, Option<PathBuf>, RandomState>>,
    listings: RefCell<HashMap<PathBuf, Rc<Listing>, RandomState>>,
}

impl Names {
    /// The content of a symbolic link; `EINVAL` if the path isn't a link.
    ///
    /// # Errors
    /// As `readlink`.
    pub fn link(&self, path: &Path) -> Result<PathBuf, Errno> {
        if let Some(known) = self.links.borrow().get(path) {
            return known.clone();
        }
        let found = rustix::fs::readlink(path, Vec::new())
            .map(|target| PathBuf::from(OsString::from_vec(target.into_bytes())));
        self.links.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }

    /// An absolute path without links and `..`, if it exists.
    #[must_use]
    pub fn canonical(&self, path: &Path) -> Option<PathBuf> {
        self.follow(path, &mut 0)
    }

    fn follow(&self, path: &Path, links: &mut usize) -> Option<PathBuf> {
        if let Some(known) = self.real.borrow().get(path) {
            return known.clone();
        }
        let found = match path.components().next_back()? {
            Component::RootDir => Some(PathBuf::from("/")),
            // If the path leads elsewhere, it is the parent there.
            Component::ParentDir => self.follow(path.parent()?, links).map(|mut real| {
                real.pop();
                real
            }),
            Component::Normal(name) => {
                let above = self.follow(path.parent()?, links)?;
                let at = above.join(name);
                match self.link(&at) {
                    Ok(target) => {
                        *links += 1;
                        if *links > LINKS {
                            return None;
                        }
                        self.follow(&above.join(target), links)
                    }
                    Err(Errno::INVAL) => Some(at),
                    Err(_) => None,
                }
            }
            Component::CurDir | Component::Prefix(_) => None,
        };
        self.real.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }

    /// Whether a directory may have an entry of this name. The directory is listed, which pays off only for many
    /// names.
    #[must_use]
    pub fn may_have(&self, directory: &Path, name: &OsStr) -> bool {
        self.listing(directory).may_have(name)
    }

    /// The entries of a directory, which is listed once.
    #[must_use]
    pub fn listing(&self, directory: &Path) -> Rc<Listing> {
        if let Some(known) = self.listings.borrow().get(directory) {
            return Rc::clone(known);
        }
        let listing = Rc::new(Listing(list(directory)));
        self.listings.borrow_mut().insert(directory.to_owned(), Rc::clone(&listing));
        listing
    }
}

/// The names in a directory, if it can be listed.
#[derive(Debug)]
pub struct Listing(Option<HashSet<OsString, RandomState>>);

impl Listing {
    /// Whether the directory may have an entry of this name.
    #[must_use]
    pub fn may_have(&self, name: &OsStr) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }
}

/// The names in a directory; `None` if it can't be listed.
fn list(directory: &Path) -> Option<HashSet<OsString, RandomState>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(HashSet::default()),
        // A directory may permit searching but not listing.
        Err(_) => return None,
    };
    let mut names = HashSet::default();
    for entry in entries {
        names.insert(entry.ok()?.file_name());
        if names.len() > LISTED {
            return None;
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn it_agrees_with_the_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        std::fs::write(at("a/file"), "").unwrap();
        for (target, link) in [
            ("a/b", "relative"),
            ("../a/./b", "a/dots"),
            ("/usr/bin", "absolute"),
            ("relative/c", "chain"),
            ("..", "a/b/up"),
            ("loop-2", "loop-1"),
            ("loop-1", "loop-2"),
            ("nowhere", "dangling"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let names = Names::default();
        for path in [
            "",
            "a",
            "a/b/c",
            "relative",
            "relative/c",
            "a/dots/c",
            "a/dots/../file",
            "absolute",
            "absolute/env",
            "chain",
            "chain/..",
            "chain/../..",
            "relative/up",
            "relative/up/file",
            "loop-1",
            "loop-1/x",
            "dangling",
            "dangling/x",
            "missing",
            "a/file/x",
            "a/file/..",
            "missing/..",
            "a//b/./c/",
        ] {
            let path = at(path);
            for _again in 0..2 {
                let expected = match path.to_str().unwrap() {
                    // The kernel refuses to go up from a file. Real requests don't contain such paths.
                    path if path.ends_with("a/file/..") => Some(at("a").canonicalize().unwrap()),
                    path if path.ends_with("missing/..") => None,
                    _ => path.canonicalize().ok(),
                };
                assert_eq!(names.canonical(&path), expected, "{path:?}");
            }
        }
        assert_eq!(names.canonical(Path::new("/")), Some("/".into()));
        assert_eq!(names.canonical(Path::new("relative")), None);
    }

    #[test]
    fn what_isnt_listed_isnt_there() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x"), "").unwrap();
        let names = Names::default();
        assert!(names.may_have(directory.path(), OsStr::new("x")));
        assert!(!names.may_have(directory.path(), OsStr::new("y")));
        assert!(!names.may_have(&directory.path().join("none"), OsStr::new("x")));
    }
}
