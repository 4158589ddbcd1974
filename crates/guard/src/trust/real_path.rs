// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the real paths of files below a root directory.
//!
//! Packages still list `/bin/ls` where `/bin` is a link to `/usr/bin`, but look-ups use the path that the kernel
//! returns, which has no links. Each directory is resolved once. A file's last component is never followed.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most links in one path, as in the kernel.
const MOST_LINKS: usize = 40;

/// Resolves directories below a root, and remembers them.
#[derive(Debug)]
pub struct RealPaths {
    root: PathBuf,
    known: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

impl RealPaths {
    /// Resolves below `root`: links to absolute paths, and `..`, don't lead out of it.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.into(), known: HashMap::new() }
    }

    /// The real path of the file with this absolute path, with links in its directory followed; `None` if the directory
    /// doesn't exist.
    pub fn of(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let slash = path.iter().rposition(|byte| *byte == b'/')?;
        let (directory, name) = (&path[..slash], &path[slash + 1..]);
        if matches!(name, b"" | b"." | b"..") {
            return None;
        }
        if !self.known.contains_key(directory) {
            let real = self.resolve(directory);
            self.known.insert(directory.to_vec(), real);
        }
        let real = self.known.get(directory)?.as_deref()?;
        Some([real, b"/", name].concat())
    }

    /// The same path below the root, for system calls.
    #[must_use]
    pub fn on_disk(&self, path: &[u8]) -> PathBuf {
        below(&self.root, path)
    }

    fn resolve(&self, directory: &[u8]) -> Option<Vec<u8>> {
        let mut left: VecDeque<Vec<u8>> = components(directory).collect();
        let mut real: Vec<u8> = Vec::new();
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            if name == b".." {
                real.truncate(real.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
                continue;
            }
            let next = [&real[..], b"/", &name].concat();
            let about = fs::symlink_metadata(below(&self.root, &next)).ok()?;
            if !about.is_symlink() {
                if !about.is_dir() {
                    return None;
                }
                real = next;
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            let target = fs::read_link(below(&self.root, &next)).ok()?;
            let target = target.as_os_str().as_bytes();
            if target.starts_with(b"/") {
                real.clear();
            }
            for name in components(target).collect::<Vec<_>>().into_iter().rev() {
                left.push_front(name);
            }
        }
        Some(real)
    }
}

/// `path`, which is absolute, below `root`.
#[must_use]
pub fn below(root: &Path, path: &[u8]) -> PathBuf {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    root.join(OsStr::from_bytes(relative))
}

fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        symlink("usr/bin", root.path().join("bin")).unwrap();
        symlink("/usr/../../../usr", root.path().join("absolute")).unwrap();
        symlink("loop", root.path().join("loop")).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let mut paths = RealPaths::new(root.path());
        for (path, real) in [
            ("/bin/ls", Some("/usr/bin/ls")),
            ("/usr/bin/ls", Some("/usr/bin/ls")),
            ("/absolute/bin/ls", Some("/usr/bin/ls")),
            ("/../bin/./ls", Some("/usr/bin/ls")),
            ("/ls", Some("/ls")),
            ("/loop/ls", None),
            ("/file/ls", None),
            ("/nowhere/ls", None),
            ("/bin/..", None),
        ] {
            let found = paths.of(path.as_bytes()).map(|path| String::from_utf8(path).unwrap());
            assert_eq!(found.as_deref(), real, "{path}");
        }
    }
}
