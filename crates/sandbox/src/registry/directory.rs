// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runtime directory: checks its owner, and opens the registry's file in it.
//!
//! In `/tmp` any user could have made it first. So it is opened without following a link in its place, and used only if
//! it belongs to the user and no other user can write to it.

use super::RegistryError;
use palisade_host::places;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The registry's file.
const FILE: &str = "sandboxes";
/// Longer paths are opened component by component.
const LONGEST_PATH: usize = 256;

/// A runtime directory that was checked.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
}

/// Why the directory can't be used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It doesn't exist.
    Absent,
    /// It can't be used.
    Error(RegistryError),
}

/// Whether launches of this process's user can be listed in this directory, which the plan names.
///
/// # Errors
/// Why they can't.
pub fn check(path: &Path) -> Result<(), RegistryError> {
    Directory::of_launch(path, rustix::process::geteuid().as_raw()).map(drop)
}

impl Directory {
    /// Opens the directory if it exists and only this user can write to it.
    pub(super) fn find(path: &Path, uid: u32) -> Result<Self, Unusable> {
        let failed =
            |source| Unusable::Error(RegistryError::Directory { directory: path.to_owned(), source });
        let distrusted = |reason: String| {
            Unusable::Error(RegistryError::Distrusted { directory: path.to_owned(), reason })
        };
        let descriptor = match open_in_place(path, uid) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT) => return Err(Unusable::Absent),
            Err(Errno::XDEV) => return Err(distrusted("something is mounted there".to_owned())),
            Err(Errno::NOTDIR | Errno::LOOP) if rustix::fs::lstat(path).is_ok() => {
                return Err(distrusted("it is no directory".to_owned()));
            }
            Err(errno) => return Err(failed(errno)),
        };
        let stat = rustix::fs::fstat(&descriptor).map_err(failed)?;
        if stat.st_uid != uid {
            return Err(distrusted(format!("it belongs to user {}", stat.st_uid)));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(distrusted(format!("others may write to it (mode {:04o})", stat.st_mode & 0o7777)));
        }
        if stat.st_mode & 0o077 != 0 {
            // An earlier version made it with the usual mask. No other user can have replaced it meanwhile.
            let _still_nobody_writes = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        }
        Ok(Self { path: path.to_owned(), descriptor })
    }

    /// Like `find`, but makes the directory if it doesn't exist.
    pub(super) fn make(path: &Path, uid: u32) -> Result<Self, RegistryError> {
        for may_make in [true, false] {
            match Self::find(path, uid) {
                Ok(directory) => return Ok(directory),
                Err(Unusable::Error(error)) => return Err(error),
                Err(Unusable::Absent) if may_make => {
                    // Directories above aren't made: if a session's directory is missing, the session has ended or
                    // never existed.
                    match fs::DirBuilder::new().mode(0o700).create(path) {
                        Ok(()) => {}
                        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                        Err(error) => {
                            let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                            return Err(RegistryError::Directory { directory: path.to_owned(), source });
                        }
                    }
                }
                Err(Unusable::Absent) => break,
            }
        }
        Err(RegistryError::Directory { directory: path.to_owned(), source: Errno::NOENT })
    }

    /// The directory of a launch: the one that its plan names, else the one for users without a session.
    pub(crate) fn of_launch(path: &Path, uid: u32) -> Result<Self, RegistryError> {
        Self::make(path, uid).or_else(|error| {
            let other = places::without_session(uid);
            if other == path { Err(error) } else { Self::make(&other, uid) }
        })
    }

    /// The open directory.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }

    /// The registry's file for a launch. It is made if it doesn't exist.
    fn open(&self) -> Result<OwnedFd, RegistryError> {
        self.opened(OFlags::RDWR | OFlags::CREATE, false)
            .map_err(|source| RegistryError::file("open", &self.path, source))
    }

    /// The registry's file for a reader, if it exists.
    pub(super) fn look(&self, write: bool, uid: u32) -> Result<Option<OwnedFd>, RegistryError> {
        let failed = |action| move |source| RegistryError::file(action, &self.path, source);
        let file = match self.opened(if write { OFlags::RDWR } else { OFlags::RDONLY }, is_anothers(uid)) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed("open")(errno)),
        };
        let stat = rustix::fs::fstat(&file).map_err(failed("examine"))?;
        if is_own_file(&stat, uid) {
            return Ok(Some(file));
        }
        let reason = format!("{FILE} in it isn't a regular file that only its user can access");
        Err(RegistryError::Distrusted { directory: self.path.clone(), reason })
    }

    fn opened(&self, flags: OFlags, anothers: bool) -> Result<OwnedFd, Errno> {
        let flags = flags | FLAGS;
        if anothers {
            return rustix::fs::openat2(&self.descriptor, FILE, flags, Mode::empty(), ResolveFlags::NO_XDEV);
        }
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o600) } else { Mode::empty() };
        rustix::fs::openat(&self.descriptor, FILE, flags, mode)
    }
}

/// With these flags a link, a terminal, or a pipe without a writer can't cause harm.
const FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// The registry's file for a launch. `path`: the directory that its plan names.
///
/// In the usual case the directory isn't checked. A file that belongs to the user, that no other user may open, and
/// that has no other name can't have got into another user's directory. This saves one call for each, which is a third
/// of the cost of listing.
pub(super) fn open(path: &Path) -> Result<OwnedFd, RegistryError> {
    let uid = rustix::process::geteuid().as_raw();
    open_quickly(path.as_os_str(), uid).map_or_else(|| Directory::of_launch(path, uid)?.open(), Ok)
}

/// Opens the file if it exists and its path has no link.
fn open_quickly(directory: &OsStr, uid: u32) -> Option<OwnedFd> {
    let mut path = [0; LONGEST_PATH];
    let parts = [directory.as_bytes(), b"/", FILE.as_bytes()];
    let mut length = 0;
    for part in parts {
        path.get_mut(length..length + part.len())?.copy_from_slice(part);
        length += part.len();
    }
    // Reading must not change the access time, which would be a second change of the inode.
    let flags = OFlags::RDWR | OFlags::NOATIME | FLAGS;
    let resolve = ResolveFlags::NO_SYMLINKS;
    let path = &path[..length];
    let file = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve).ok()?;
    is_own_file(&rustix::fs::fstat(&file).ok()?, uid).then_some(file)
}

/// Whether only this user can have made the file and put it in its place.
fn is_own_file(stat: &Stat, uid: u32) -> bool {
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    regular && stat.st_uid == uid && stat.st_mode & 0o077 == 0 && stat.st_nlink == 1
}

/// Opens a directory without following a link in its place. For another user's directory no mount point is crossed
/// either: the server of that mount might never answer root.
fn open_in_place(path: &Path, uid: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (true, Some(above), Some(name)) = (is_anothers(uid), path.parent(), path.file_name()) else {
        return rustix::fs::open(path, flags, Mode::empty());
    };
    let above = rustix::fs::open(above, flags, Mode::empty())?;
    rustix::fs::openat2(above, name, flags, Mode::empty(), ResolveFlags::NO_XDEV)
}

fn is_anothers(uid: u32) -> bool {
    rustix::process::geteuid().as_raw() != uid
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn reason(found: Result<Directory, RegistryError>) -> String {
        match found {
            Err(RegistryError::Distrusted { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_is_made_private_and_nothing_above_it_is() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("palisade");
        assert!(matches!(Directory::find(&path, uid()), Err(Unusable::Absent)));
        Directory::make(&path, uid()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let deep = above.path().join("a/palisade");
        assert!(matches!(Directory::make(&deep, uid()), Err(RegistryError::Directory { .. })));
        assert!(!above.path().join("a").exists());
        // As made by an earlier version.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Directory::make(&path, uid()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_others_have_a_hand_in_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("palisade");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(reason(Directory::make(&path, uid())).contains("mode 0770"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(reason(Directory::make(&path, uid() + 1)).contains("belongs to user"));
        let link = above.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(reason(Directory::make(&link, uid())).contains("no directory"));
        symlink(above.path().join("nothing"), above.path().join("dangling")).unwrap();
        assert!(Directory::make(&above.path().join("dangling"), uid()).is_err());
        fs::write(above.path().join("file"), "").unwrap();
        assert!(reason(Directory::make(&above.path().join("file"), uid())).contains("no directory"));
    }

    #[test]
    fn the_file_is_neither_a_link_nor_a_pipe() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("palisade");
        let directory = Directory::make(&path, uid()).unwrap();
        assert!(directory.look(false, uid()).unwrap().is_none());
        drop(directory.open().unwrap());
        let file = path.join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(directory.look(true, uid()).unwrap().is_some());
        assert!(open_quickly(path.as_os_str(), uid()).is_some());
        // Another user's directory could hold such a file, if links to other users' files are allowed.
        fs::hard_link(&file, above.path().join("second")).unwrap();
        assert!(directory.look(true, uid()).is_err() && open_quickly(path.as_os_str(), uid()).is_none());
        fs::remove_file(above.path().join("second")).unwrap();
        for (mode, opens) in [(0o644, false), (0o620, false), (0o600, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open_quickly(path.as_os_str(), uid()).is_some(), opens, "{mode:o}");
        }
        assert!(open_quickly(path.as_os_str(), uid() + 1).is_none());
        symlink(&path, above.path().join("link")).unwrap();
        assert!(open_quickly(above.path().join("link").as_os_str(), uid()).is_none());
        assert!(open_quickly(OsStr::new(&"x".repeat(300)), uid()).is_none());
        fs::hard_link(&file, above.path().join("second")).unwrap();
        fs::remove_file(&file).unwrap();
        symlink(above.path().join("second"), &file).unwrap();
        assert!(directory.open().is_err());
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        // Reading must also return when the file is a pipe without a writer.
        assert!(directory.look(false, uid()).is_err());
    }
}
