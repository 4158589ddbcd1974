// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes mount points in applications' homes, because a mount needs an existing path.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, statat};
use rustix::io::Errno;
use std::path::{Component, Path};

/// Makes an empty directory or file at `path`, if that is below `homes`, and the directories above it. An existing file
/// or directory stays. Returns whether the path exists now.
///
/// The application may have put links into its home. They aren't followed, because they could lead to names outside the home.
pub(crate) fn make(homes: &Path, path: &Path, file: bool) -> bool {
    let Ok(names) = path.strip_prefix(homes) else { return false };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(mut at) = openat(CWD, homes, flags, Mode::empty()) else { return false };
    let mut names = names.components().peekable();
    while let Some(name) = names.next() {
        let Component::Normal(name) = name else { return false };
        if file && names.peek().is_none() {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            return match openat(&at, name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(_) => true,
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
        assert!(make(homes, &homes.join("home/a/b/file"), true));
        assert!(homes.join("home/a/b/file").is_file());
        assert!(make(homes, &homes.join("home/a/b/directory"), false));
        assert!(homes.join("home/a/b/directory").is_dir());
        std::fs::write(homes.join("home/a/kept"), "content").unwrap();
        assert!(make(homes, &homes.join("home/a/kept"), true));
        assert_eq!(std::fs::read_to_string(homes.join("home/a/kept")).unwrap(), "content");
        symlink(elsewhere, homes.join("home/link")).unwrap();
        assert!(!make(homes, &homes.join("home/link"), false));
        assert!(!make(homes, &homes.join("home/link/planted"), false));
        assert!(!make(homes, &homes.join("home/link/planted"), true));
        symlink(elsewhere.join("planted"), homes.join("home/dangling")).unwrap();
        assert!(!make(homes, &homes.join("home/dangling/x"), true));
        assert!(!make(homes, &homes.join("home/dangling"), true));
        assert!(!make(homes, &homes.join("home/../../x"), true));
        assert!(!make(homes, &elsewhere.join("x"), true));
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}
