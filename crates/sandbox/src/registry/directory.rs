// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runtime directory: whose it is, and what the registry's file is called there.
//!
//! In `/tmp` anybody could have made it first. So it is opened without following a link in its place, and used only if
//! it belongs to the user and nobody else can write to it.

use super::RegistryError;
use palisade_host::places;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, StatFs};
use rustix::io::Errno;
use std::borrow::Cow;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The registry's file. On a file system that outlives the machine's next start, the boot's number follows: what runs
/// is looked for among what was started in this boot.
const FILE: &str = "sandboxes";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A runtime directory that is what it should be.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    descriptor: OwnedFd,
}

/// What stands in the way.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It isn't there.
    Absent,
    /// It can't be used.
    Error(RegistryError),
}

/// Whether launches of this process's user can be listed, of which the plan names this directory.
///
/// # Errors
/// Why not.
pub fn check(path: &Path) -> Result<(), RegistryError> {
    Directory::of_launch(path, rustix::process::geteuid().as_raw()).map(drop)
}

impl Directory {
    /// Opens the directory if it is there and is this user's alone.
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
            // Of an earlier version, made by the usual mask. Nobody else can have put another in its place meanwhile.
            let _still_nobody_writes = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        }
        Ok(Self { path: path.to_owned(), descriptor })
    }

    /// The same, and makes it if it isn't there.
    pub(super) fn make(path: &Path, uid: u32) -> Result<Self, RegistryError> {
        for may_make in [true, false] {
            match Self::find(path, uid) {
                Ok(directory) => return Ok(directory),
                Err(Unusable::Error(error)) => return Err(error),
                Err(Unusable::Absent) if may_make => {
                    // Not what is above: a session's directory that isn't there has ended or never was.
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

    /// The directory of a launch: the one that its plan names, else the one without a session.
    pub(super) fn of_launch(path: &Path, uid: u32) -> Result<Self, RegistryError> {
        Self::make(path, uid).or_else(|error| {
            let other = places::without_session(uid);
            if other == path { Err(error) } else { Self::make(&other, uid) }
        })
    }

    /// The registry's file for a launch; it is made if it isn't there.
    pub(super) fn open(&self) -> Result<OwnedFd, RegistryError> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        self.opened(flags, false).map_err(|source| self.error("open", source))
    }

    /// The registry's file for a look, if it is there.
    pub(super) fn look(&self, write: bool, uid: u32) -> Result<Option<OwnedFd>, RegistryError> {
        let flags = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let file = match self.opened(flags, is_anothers(uid)) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.error("open", errno)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|source| self.error("examine", source))?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !regular || stat.st_uid != uid || stat.st_nlink != 1 {
            let reason = format!("{FILE} in it isn't a file of its own user");
            return Err(RegistryError::Distrusted { directory: self.path.clone(), reason });
        }
        Ok(Some(file))
    }

    fn opened(&self, flags: OFlags, anothers: bool) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
        let forgets = forgets(&rustix::fs::fstatfs(&self.descriptor)?);
        let name = if forgets { Cow::Borrowed(FILE) } else { Cow::Owned(of_boot()?) };
        if anothers {
            return rustix::fs::openat2(
                &self.descriptor,
                &*name,
                flags,
                Mode::empty(),
                ResolveFlags::NO_XDEV,
            );
        }
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o600) } else { Mode::empty() };
        rustix::fs::openat(&self.descriptor, &*name, flags, mode)
    }

    /// Removes files of earlier boots.
    pub(super) fn forget_boots(&self) {
        let Ok(own) = of_boot() else { return };
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let other = name.to_str().is_some_and(|name| name.starts_with("sandboxes-") && name != own);
            if other {
                let _gone_already = fs::remove_file(entry.path());
            }
        }
    }

    pub(super) fn error(&self, action: &'static str, source: Errno) -> RegistryError {
        RegistryError::File { action, directory: self.path.clone(), source }
    }
}

/// Opens a directory without following a link in its place. In another user's place no mount point is crossed either:
/// its server might never answer root.
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

/// Whether nothing of a file system is left after the machine's next start.
fn forgets(file_system: &StatFs) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    u64::try_from(file_system.f_type).is_ok_and(|kind| kind == TMPFS)
}

/// The file of this boot.
fn of_boot() -> Result<String, Errno> {
    let mut text = [0; 64];
    let file = rustix::fs::open(BOOT, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(&file, &mut text)?;
    let id = std::str::from_utf8(&text[..length]).map_err(|_no_text| Errno::IO)?.trim_end();
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if plain { Ok(format!("{FILE}-{id}")) } else { Err(Errno::IO) }
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
        // Of an earlier version.
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
        let file = fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(directory.look(true, uid()).unwrap().is_some());
        fs::hard_link(&file, above.path().join("second")).unwrap();
        assert!(directory.look(true, uid()).is_err());
        fs::remove_file(&file).unwrap();
        symlink(above.path().join("second"), &file).unwrap();
        assert!(directory.open().is_err());
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        // Also a look that could wait for somebody to write comes back.
        assert!(directory.look(false, uid()).is_err());
    }

    #[test]
    fn files_of_earlier_boots_go() {
        let above = tempfile::tempdir().unwrap();
        let directory = Directory::make(&above.path().join("palisade"), uid()).unwrap();
        let names =
            ["sandboxes", "sandboxes-0b6e0cb4-0000-4000-8000-000000000000", "socket", &of_boot().unwrap()];
        for name in names {
            fs::write(directory.path.join(name), "").unwrap();
        }
        directory.forget_boots();
        let mut left: Vec<String> = fs::read_dir(&directory.path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["sandboxes", &of_boot().unwrap(), "socket"]);
    }
}
