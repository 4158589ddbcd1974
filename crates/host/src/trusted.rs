// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a file that only the reader and root can have written or put in its place.
//!
//! Each directory on the path is opened by its name in the one before, and judged by its descriptor. The file is
//! judged and read by the same descriptor. A link on the path is followed if it belongs to the reader or root, and
//! lies where no other user can replace it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file::{self, FileError};
use crate::links::prepend;
use crate::places::{Distrust, Permissions, Trustee, judge};

/// The most links that the kernel follows in one path.
const LINKS: usize = 40;
/// The access control list of a file.
const ACL: &str = "system.posix_acl_access";

/// Why the file wasn't read.
#[derive(Debug, thiserror::Error)]
pub enum TrustedError {
    /// The path isn't absolute.
    #[error("{path} isn't an absolute path")]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// The file, a directory above it or a link on the way can't be opened.
    #[error("can't open {path}: {source}")]
    Open {
        /// The path that can't be opened.
        path: PathBuf,
        /// What the kernel said.
        source: Errno,
    },
    /// Other users can change the file, or replace it.
    #[error("{path} (owner {}, mode {:04o}) isn't trusted: {reason}", permissions.uid, permissions.mode & 0o7777)]
    Distrusted {
        /// The file, a directory above it or a link on the way.
        path: PathBuf,
        /// Its owner and mode.
        permissions: Permissions,
        /// Why.
        reason: Fault,
    },
    /// It isn't a regular file, is larger than the cap, or can't be read to its end.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A fault of a file's owner or permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its owner and mode.
    #[error(transparent)]
    Mode(#[from] Distrust),
    /// Its group is the reader's own, and an access control list may name other users.
    #[error("an access control list may let others write to it")]
    Acl,
}

/// Reads a regular file of at most `cap` bytes that only `trustee` and root can change or replace. `path` is absolute.
///
/// # Errors
/// [`TrustedError`] with the path of the file, directory or link that is the reason.
pub fn read(path: &Path, trustee: Trustee, cap: usize) -> Result<Vec<u8>, TrustedError> {
    if !path.is_absolute() {
        return Err(TrustedError::Relative { path: path.to_owned() });
    }
    let file = open(path, trustee)?;
    Ok(file::read_open(file.into(), path, cap)?)
}

/// Opens the file for reading, component by component.
fn open(path: &Path, trustee: Trustee) -> Result<OwnedFd, TrustedError> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TrustedError::Open { path, source }
    };
    // The directories so far, each with its path, so that `..` leads back.
    let root = PathBuf::from("/");
    let mut way = vec![(rustix::fs::open(&root, directory, Mode::empty()).map_err(failed(&root))?, root)];
    check(way.last(), trustee)?;
    let mut left = VecDeque::new();
    prepend(&mut left, path);
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            if way.len() > 1 {
                way.pop();
            }
            continue;
        }
        let Some((above, at)) = way.last() else { break };
        let at = at.join(&name);
        let any = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let found = rustix::fs::openat(above, &name, any, Mode::empty()).map_err(failed(&at))?;
        let stat = rustix::fs::fstat(&found).map_err(failed(&at))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                links += 1;
                if links > LINKS {
                    return Err(TrustedError::Open { path: at, source: Errno::LOOP });
                }
                // A link has no permissions of its own.
                let permissions = Permissions::from(&stat);
                if permissions.uid != 0 && permissions.uid != trustee.uid {
                    let reason = Fault::Mode(Distrust::Owner { uid: permissions.uid });
                    return Err(TrustedError::Distrusted { path: at, permissions, reason });
                }
                let target = rustix::fs::readlinkat(&found, "", Vec::new()).map_err(failed(&at))?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    way.truncate(1);
                }
                prepend(&mut left, &target);
            }
            FileType::Directory => {
                way.push((found, at));
                check(way.last(), trustee)?;
            }
            FileType::RegularFile if left.is_empty() => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                let file = rustix::fs::openat(above, &name, flags, Mode::empty()).map_err(failed(&at))?;
                let stat = rustix::fs::fstat(&file).map_err(failed(&at))?;
                // The opened file is judged, because it may have been replaced by now.
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(FileError::NotRegular { path: at }.into());
                }
                judge_open(file.as_fd(), &at, Permissions::from(&stat), trustee, false)?;
                return Ok(file);
            }
            FileType::RegularFile => return Err(TrustedError::Open { path: at, source: Errno::NOTDIR }),
            _ => return Err(FileError::NotRegular { path: at }.into()),
        }
    }
    Err(FileError::NotRegular { path: path.to_owned() }.into())
}

/// Judges the last directory of the path.
fn check(last: Option<&(OwnedFd, PathBuf)>, trustee: Trustee) -> Result<(), TrustedError> {
    let Some((directory, path)) = last else { return Ok(()) };
    let stat =
        rustix::fs::fstat(directory).map_err(|source| TrustedError::Open { path: path.clone(), source })?;
    judge_open(directory.as_fd(), path, Permissions::from(&stat), trustee, true)
}

/// Judges an open file or directory.
fn judge_open(
    fd: BorrowedFd<'_>,
    path: &Path,
    permissions: Permissions,
    trustee: Trustee,
    ancestor: bool,
) -> Result<(), TrustedError> {
    let distrusted = |reason| TrustedError::Distrusted { path: path.to_owned(), permissions, reason };
    judge(permissions, trustee, ancestor).map_err(|reason| distrusted(Fault::Mode(reason)))?;
    let sticky = ancestor && permissions.mode & 0o1000 != 0;
    // With an access control list, the group's bits are the most that the list gives to any user. So a list matters
    // only if those bits permit writing by a group that was just trusted.
    if !sticky && permissions.mode & 0o020 != 0 && has_acl(fd) {
        return Err(distrusted(Fault::Acl));
    }
    Ok(())
}

/// Whether an open file has an access control list, or that is unknown.
fn has_acl(fd: BorrowedFd<'_>) -> bool {
    // The descriptor may be one without rights to the content (`O_PATH`): its attributes can be read by this path.
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mut value = [0_u8; 1024];
    !matches!(rustix::fs::getxattr(path, ACL, &mut value), Err(Errno::NODATA | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn us() -> Trustee {
        Trustee { uid: rustix::process::geteuid().as_raw(), private_group: None }
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn it_is_read_where_only_its_reader_can_write() {
        // Below a directory that every user may write to, with the sticky bit.
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        let file = root.join("a/b/file");
        std::fs::write(&file, "content").unwrap();
        symlink("../b/./file", root.join("a/b/link")).unwrap();
        symlink(root.join("a"), root.join("absolute")).unwrap();
        for path in ["a/b/file", "a/b/link", "absolute/b/../b/link", "a//b/file"] {
            assert_eq!(read(&root.join(path), us(), 7).unwrap(), b"content", "{path}");
        }
        assert!(matches!(read(&file, us(), 6), Err(TrustedError::File(FileError::TooLarge { cap: 6, .. }))));
        assert!(matches!(
            read(&root.join("a"), us(), 9),
            Err(TrustedError::File(FileError::NotRegular { .. }))
        ));
        assert!(matches!(read(&root.join("none"), us(), 9), Err(TrustedError::Open { .. })));
        assert!(matches!(read(&file.join("x"), us(), 9), Err(TrustedError::Open { .. })));
        assert!(matches!(read(Path::new("a"), us(), 9), Err(TrustedError::Relative { .. })));
        symlink("loop", root.join("loop")).unwrap();
        assert!(matches!(
            read(&root.join("loop"), us(), 9),
            Err(TrustedError::Open { source: Errno::LOOP, .. })
        ));
        let fifo = root.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(matches!(read(&fifo, us(), 9), Err(TrustedError::File(FileError::NotRegular { .. }))));
    }

    #[test]
    fn what_others_may_write_is_named_with_owner_and_mode() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir(root.join("a")).unwrap();
        let file = root.join("a/file");
        std::fs::write(&file, "").unwrap();
        for (path, bits, good) in
            [("a/file", 0o666, 0o644), ("a/file", 0o620, 0o600), ("a", 0o777, 0o755), ("a", 0o770, 0o700)]
        {
            let path = root.join(path);
            // Root's own group is trusted, because it has no other member.
            let of_root = path.metadata().is_ok_and(|found| {
                use std::os::unix::fs::MetadataExt;
                found.gid() == 0
            });
            mode(&path, bits);
            if bits & 0o002 != 0 || !of_root {
                let error = read(&file, us(), 9).unwrap_err();
                assert!(
                    matches!(&error, TrustedError::Distrusted { path: found, .. } if *found == path),
                    "{error}"
                );
                assert!(
                    error.to_string().contains(&format!("(owner {}, mode {bits:04o})", us().uid)),
                    "{error}"
                );
            }
            mode(&path, good);
            assert!(read(&file, us(), 9).is_ok());
        }
        mode(&root.join("a"), 0o1777);
        assert!(read(&file, us(), 9).is_ok(), "nobody else can replace what isn't theirs");
    }

    #[test]
    fn what_is_somebody_elses_isnt_read() {
        if !rustix::process::geteuid().is_root() {
            // Only root can change a file's owner.
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir(root.join("a")).unwrap();
        let (file, link) = (root.join("a/file"), root.join("link"));
        std::fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let distrusts = |what: &Path, by: &Path| {
            std::os::unix::fs::lchown(what, Some(12345), None).unwrap();
            let error = read(by, us(), 9).unwrap_err();
            assert!(matches!(&error, TrustedError::Distrusted { path, .. } if path == what), "{error}");
            std::os::unix::fs::lchown(what, Some(0), None).unwrap();
            read(by, us(), 9).unwrap();
        };
        distrusts(&file, &file);
        distrusts(&root.join("a"), &file);
        distrusts(&link, &link);
    }
}
