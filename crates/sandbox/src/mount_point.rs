// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names in the homes of applications for what is shown there: a mount needs something to be mounted on.

use crate::facts::Facts;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use std::path::{Component, Path, PathBuf};

/// Makes the name that a mount is to have on the host if it lies in an application's home. The user's names aren't
/// there by themselves, and nobody else would make them.
pub(crate) fn at_home(facts: &Facts, host: Option<PathBuf>, file: bool) {
    let homes = facts.places.data.join("homes");
    if let Some(host) = host.filter(|host| host.starts_with(&homes)) {
        // Who looks afterwards sees whether it worked.
        let _made = make(&homes, &host, file);
    }
}

/// Makes an empty directory or file at `path` below `top`, and the directories above it; what is there stays.
///
/// The application that owns the home may have put links there, which aren't followed: else it had names made
/// elsewhere. Whether it worked is seen by looking.
///
/// # Errors
/// The kernel's.
fn make(top: &Path, path: &Path, file: bool) -> Result<(), Errno> {
    let names = path.strip_prefix(top).map_err(|_elsewhere| Errno::INVAL)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at = openat(CWD, top, flags, Mode::empty())?;
    let mut names = names.components().peekable();
    while let Some(name) = names.next() {
        let Component::Normal(name) = name else { return Err(Errno::INVAL) };
        if file && names.peek().is_none() {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            return match openat(&at, name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(_) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error),
            };
        }
        match mkdirat(&at, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => at = openat(&at, name, flags, Mode::empty())?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_are_made_and_links_are_not_followed() {
        let top = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let (top, elsewhere) = (top.path(), elsewhere.path());
        make(top, &top.join("home/a/b/file"), true).unwrap();
        assert!(top.join("home/a/b/file").is_file());
        make(top, &top.join("home/a/b/directory"), false).unwrap();
        assert!(top.join("home/a/b/directory").is_dir());
        std::fs::write(top.join("home/a/kept"), "content").unwrap();
        make(top, &top.join("home/a/kept"), true).unwrap();
        assert_eq!(std::fs::read_to_string(top.join("home/a/kept")).unwrap(), "content");
        symlink(elsewhere, top.join("home/link")).unwrap();
        assert!(make(top, &top.join("home/link/planted"), false).is_err());
        assert!(make(top, &top.join("home/link/planted"), true).is_err());
        symlink(elsewhere.join("planted"), top.join("home/dangling")).unwrap();
        assert!(make(top, &top.join("home/dangling/x"), true).is_err());
        make(top, &top.join("home/dangling"), true).unwrap();
        assert!(make(top, &top.join("home/../../x"), true).is_err());
        assert!(make(top, &elsewhere.join("x"), true).is_err());
        assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}
