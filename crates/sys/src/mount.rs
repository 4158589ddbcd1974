// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes detached trees for a privileged launcher, with owners mapped for the sandbox; and gives a thread a private
//! mount namespace.

use crate::operation::Attributes;
use crate::raw::{self, MountAttr};
use core::ffi::CStr;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::MountPropagationFlags;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const IDMAP: u64 = 0x0010_0000;
const OPEN_TREE: u32 = 1
    | libc::O_CLOEXEC.cast_unsigned()
    | libc::AT_RECURSIVE.cast_unsigned()
    | libc::AT_EMPTY_PATH.cast_unsigned();

/// A detached, private clone of the tree at `path`, with what is mounted beneath. It follows no symbolic link: `path`
/// was looked up before, and another process may have replaced a part of it by a link since.
///
/// # Errors
/// `ELOOP` where there is a link now; as `open_tree(2)` and `mount_setattr(2)`; needs `CAP_SYS_ADMIN`.
pub fn detached(path: &CStr, attributes: Attributes) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let at = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)?;
    let tree = raw::open_tree(at.as_raw_fd(), c"", OPEN_TREE)?;
    // SAFETY: needed to own it. Sound: the kernel just made this descriptor for us.
    let tree = unsafe { OwnedFd::from_raw_fd(tree) };
    let set = attributes.and(Attributes::NOSUID).0;
    let attr = MountAttr { set, clear: 0, propagation: libc::MS_PRIVATE, userns: 0 };
    raw::mount_setattr(tree.as_raw_fd(), true, &attr)?;
    Ok(tree)
}

/// Maps the owners of files in `tree` as user namespace `namespace` maps users: a file of host user 0 belongs to user
/// 0 of the namespace, and the other way round.
///
/// # Errors
/// `EINVAL` where the file system can't (overlayfs), `EPERM` without `CAP_SYS_ADMIN`.
pub fn map_owners(tree: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> Result<(), Errno> {
    let userns = u64::from(namespace.as_raw_fd().unsigned_abs());
    let attr = MountAttr { set: IDMAP, clear: 0, propagation: 0, userns };
    raw::mount_setattr(tree.as_raw_fd(), true, &attr)
}

/// Gives this thread, and what it starts from now on, mounts that no other process sees and that end with them.
///
/// # Errors
/// As `unshare(2)` and `mount(2)`; needs `CAP_SYS_ADMIN`.
pub fn of_ones_own() -> Result<(), Errno> {
    raw::unshare(libc::CLONE_NEWNS)?;
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// Between the plan and the launch another process may have replaced a directory by a link.
    #[test]
    fn a_tree_is_opened_through_no_link() {
        if !rustix::process::geteuid().is_root() {
            // Only root can open one.
            return;
        }
        let temporary = std::env::temp_dir().canonicalize().unwrap();
        let real = temporary.join(format!("palisade-mount-{}", std::process::id()));
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", real.join("link")).unwrap();
        let open = |path: &Path| {
            let path = CString::new(path.as_os_str().as_bytes()).unwrap();
            detached(&path, Attributes::default()).map(drop)
        };
        assert_eq!(open(&real.join("a/b")), Ok(()));
        assert_eq!(open(&real.join("link")), Err(Errno::LOOP));
        assert_eq!(open(&real.join("link/b")), Err(Errno::LOOP));
        assert_eq!(detached(c".", Attributes::default()).map(drop), Ok(()));
        std::fs::remove_dir_all(real).unwrap();
    }
}
