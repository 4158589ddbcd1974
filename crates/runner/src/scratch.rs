// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mounts the scratch file systems of a run: root's tests get a tmpfs in place of `/tmp`, of `/var/tmp`, of each test
//! user's home and of the directory for root's files beside it.
//!
//! The tests create and delete some hundred thousand files. An ext4 without a journal checks every inode that was freed within
//! the last minute before it allocates one (`recently_deleted()` in the kernel's fs/ext4/ialloc.c). On such a machine all tests
//! took 1000 s on the disk and 725 s on tmpfs. The mounts lie in a mount namespace of the run, so nothing of them stays.
//! `./x test all` and an ordinary user's tests use the disk.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

/// The caller's mount namespace, as `readlink /proc/self/ns/mnt` prints it: set by a caller that has unshared it since.
/// `disk` means: the caller wants no tmpfs.
const CALLER: &str = "PALISADE_TEST_SCRATCH";
/// The value that keeps the tests on the disk.
const DISK: &str = "disk";
/// Directories that every user may write to.
const PUBLIC: [&str; 2] = ["/tmp", "/var/tmp"];

/// Whether this process may mount: it runs as root, in another mount namespace than its caller. The variable alone proves
/// nothing, because it may have been inherited.
pub(crate) fn is_private() -> bool {
    let Some(caller) = std::env::var_os(CALLER) else { return false };
    let here = fs::read_link("/proc/self/ns/mnt");
    rustix::process::geteuid().is_root()
        && caller.as_encoded_bytes().starts_with(b"mnt:[")
        && here.is_ok_and(|here| here.as_os_str() != caller)
}

/// Whether the caller wants the tests on the disk.
pub(crate) fn is_disk_wanted() -> bool {
    std::env::var_os(CALLER).is_some_and(|word| word == DISK)
}

/// Mounts a tmpfs on `/tmp` and on `/var/tmp`. A top-level entry of theirs that holds one of the `needed` paths is bound
/// into the tmpfs under its name.
///
/// # Errors
/// If a mount fails.
pub(crate) fn mount_public(needed: &[PathBuf]) -> io::Result<()> {
    for directory in PUBLIC.map(Path::new) {
        let mut kept: BTreeMap<PathBuf, File> = BTreeMap::new();
        for path in needed {
            if let Some(entry) = entry_of(directory, path)
                && let Ok(file) = File::open(&entry)
            {
                kept.insert(entry, file);
            }
        }
        mount_tmpfs(directory, "mode=1777")?;
        for (entry, file) in kept {
            if file.metadata()?.is_dir() {
                fs::create_dir(&entry)?;
            } else {
                File::create(&entry)?;
            }
            mount_bind(format!("/proc/self/fd/{}", file.as_raw_fd()), &entry)?;
        }
    }
    Ok(())
}

/// Mounts a tmpfs on a home, with copies of the files that `useradd` has put there.
///
/// # Errors
/// If the mount or a copy fails. Nothing stays mounted then.
pub(crate) fn mount_home(home: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let mode = fs::metadata(home)?.mode() & 0o7777;
    let mut files = Vec::new();
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        if path.is_file() {
            files.push((fs::read(&path)?, path));
        }
    }
    mount_tmpfs(home, &format!("mode={mode:o},uid={uid},gid={gid}"))?;
    let copied = files.into_iter().try_for_each(|(content, path)| {
        fs::write(&path, content)?;
        chown(&path, Some(uid), Some(gid))
    });
    if copied.is_err() {
        unmount_home(home)?;
    }
    copied
}

/// Unmounts the tmpfs of [`mount_home`], also while a process still uses it.
///
/// # Errors
/// If nothing is mounted there.
pub(crate) fn unmount_home(home: &Path) -> io::Result<()> {
    Ok(unmount(home, UnmountFlags::DETACH)?)
}

fn mount_tmpfs(directory: &Path, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    Ok(mount("palisade-test", directory, "tmpfs", MountFlags::empty(), Some(options.as_c_str()))?)
}

/// The entry of `directory` through which `path` leads.
fn entry_of(directory: &Path, path: &Path) -> Option<PathBuf> {
    let name = path.strip_prefix(directory).ok()?.components().next()?;
    Some(directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needed_path_leads_through_a_top_level_entry() {
        let entry = |path: &str| entry_of(Path::new("/tmp"), Path::new(path));
        assert_eq!(entry("/tmp/clone/target/debug"), Some(PathBuf::from("/tmp/clone")));
        assert_eq!(entry("/tmpfiles/x"), None);
        assert_eq!(entry("/home/me"), None);
        assert_eq!(entry("/tmp"), None);
    }
}
