// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes mount points in homes and caches of sandboxes, because a mount needs an existing path.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// Makes an empty directory or file at `path`, if that is below one of `trees`, and the directories above it. An existing
/// file or directory stays. Returns whether the path exists now.
///
/// Programs inside may have put links there. They aren't followed, because they could lead to names outside.
pub(crate) fn make(trees: &[PathBuf], path: &Path, file: bool) -> bool {
    let below = |tree: &PathBuf| path.strip_prefix(tree).is_ok();
    trees.iter().find(|tree| below(tree)).is_some_and(|tree| make_below(tree, path, file.then_some(&[])))
}

/// Like [`make`] for a file in one tree. A file that is made gets this content.
pub(crate) fn make_file(tree: &Path, path: &Path, content: &[u8]) -> bool {
    make_below(tree, path, Some(content))
}

/// What keeps `path`, if it is below one of `trees`, from being a mount point: a link, or a file in a directory's place, or
/// a directory in a file's.
pub(crate) fn in_the_way(trees: &[PathBuf], path: &Path, file: bool) -> Option<PathBuf> {
    let (tree, names) = trees.iter().find_map(|tree| Some((tree, path.strip_prefix(tree).ok()?)))?;
    let mut names = names.components().peekable();
    let mut at = tree.clone();
    while let Some(name) = names.next() {
        at.push(name);
        let directory = !file || names.peek().is_some();
        // What isn't there can be made.
        let found = at.symlink_metadata().ok()?.file_type();
        if found.is_symlink() || found.is_dir() != directory {
            return Some(at);
        }
    }
    None
}

/// `content`: of a file; `None` for a directory.
fn make_below(tree: &Path, path: &Path, content: Option<&[u8]>) -> bool {
    let Ok(names) = path.strip_prefix(tree) else { return false };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(mut at) = openat(CWD, tree, flags, Mode::empty()) else { return false };
    let mut names = names.components().peekable();
    while let Some(name) = names.next() {
        let Component::Normal(name) = name else { return false };
        if let Some(content) = content
            && names.peek().is_none()
        {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            return match openat(&at, name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(made) => File::from(made).write_all(content).is_ok(),
                // Another launch made it first.
                Err(Errno::EXIST) => statat(&at, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|there| FileType::from_raw_mode(there.st_mode).is_file()),
                Err(_) => false,
            };
        }
        let _there_already = mkdirat(&at, name, Mode::RWXU);
        match openat(&at, name, flags, Mode::empty()) {
            Ok(next) => at = next,
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_are_made_and_links_are_not_followed() {
        let homes = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let (homes, elsewhere) = (homes.path(), elsewhere.path());
        let trees = [PathBuf::from("/nowhere"), homes.to_owned()];
        assert!(make(&trees, &homes.join("home/a/b/file"), true));
        assert!(homes.join("home/a/b/file").is_file());
        assert!(make(&trees, &homes.join("home/a/b/directory"), false));
        assert!(homes.join("home/a/b/directory").is_dir());
        std::fs::write(homes.join("home/a/kept"), "content").unwrap();
        assert!(make(&trees, &homes.join("home/a/kept"), true));
        assert_eq!(std::fs::read_to_string(homes.join("home/a/kept")).unwrap(), "content");
        symlink(elsewhere, homes.join("home/link")).unwrap();
        assert!(!make(&trees, &homes.join("home/link"), false));
        assert!(!make(&trees, &homes.join("home/link/planted"), false));
        assert!(!make(&trees, &homes.join("home/link/planted"), true));
        symlink(elsewhere.join("planted"), homes.join("home/dangling")).unwrap();
        assert!(!make(&trees, &homes.join("home/dangling/x"), true));
        assert!(!make(&trees, &homes.join("home/dangling"), true));
        assert!(!make(&trees, &homes.join("home/../../x"), true));
        assert!(!make(&trees, &elsewhere.join("x"), true));
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let homes = tempfile::tempdir().unwrap();
        let homes = homes.path();
        let trees = [homes.to_owned()];
        std::fs::create_dir_all(homes.join("home/directory")).unwrap();
        std::fs::write(homes.join("home/file"), "").unwrap();
        symlink("/etc", homes.join("home/link")).unwrap();
        for (path, file, found) in [
            ("home/directory", false, None),
            ("home/directory/new", true, None),
            ("home/new/file", true, None),
            ("home/file", true, None),
            ("home/directory", true, Some("home/directory")),
            ("home/file", false, Some("home/file")),
            ("home/file/x", true, Some("home/file")),
            ("home/link", false, Some("home/link")),
            ("home/link/passwd", true, Some("home/link")),
        ] {
            assert_eq!(
                in_the_way(&trees, &homes.join(path), file),
                found.map(|found| homes.join(found)),
                "{path}"
            );
        }
        assert_eq!(in_the_way(&trees, Path::new("/etc"), true), None);
    }
}
