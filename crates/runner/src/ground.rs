// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where tests write: file systems in memory of this run's own, in place of `/tmp`, of `/var/tmp` and of the homes of the tests' users.
//!
//! Tests make and remove a few hundred thousand files. An ext4 without a journal looks at each inode that was freed within the last minute before
//! it gives a new one (`recently_deleted` in the kernel's fs/ext4/ialloc.c), so that a third of a run's time went there; and
//! what a killed test leaves behind goes with the run. `./x test all` and whoever isn't root use the machine's own directories.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

/// Set by who has started the runner in a mount namespace of its own.
pub(crate) const VARIABLE: &str = "PALISADE_TEST_GROUND";

const PUBLIC: [&str; 2] = ["/tmp", "/var/tmp"];

/// Whether mounts of this process are nobody else's.
pub(crate) fn is_own() -> bool {
    rustix::process::geteuid().is_root() && std::env::var_os(VARIABLE).is_some_and(|word| word == "own")
}

/// Replaces the directories that everybody may write to. What lies there of `needed` stays where it is.
///
/// # Errors
/// If one of them can't be replaced.
pub(crate) fn replace(needed: &[PathBuf]) -> io::Result<()> {
    for place in PUBLIC.map(Path::new) {
        let mut kept: BTreeMap<PathBuf, File> = BTreeMap::new();
        for path in needed {
            if let Some(top) = below(place, path)
                && let Ok(found) = File::open(&top)
            {
                kept.insert(top, found);
            }
        }
        cover(place, "mode=1777")?;
        for (top, found) in kept {
            if found.metadata()?.is_dir() {
                fs::create_dir(&top)?;
            } else {
                File::create(&top)?;
            }
            mount_bind(format!("/proc/self/fd/{}", found.as_raw_fd()), &top)?;
        }
    }
    Ok(())
}

/// Covers a user's home with one in memory that begins with the same files.
///
/// # Errors
/// If it can't be mounted or filled.
pub(crate) fn cover_home(home: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let metadata = fs::metadata(home)?;
    let files: Vec<PathBuf> = fs::read_dir(home)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_file())
        .collect();
    let read = |path: PathBuf| fs::read(&path).map(|content| (path, content));
    let files: Vec<(PathBuf, Vec<u8>)> = files.into_iter().map(read).collect::<Result<_, _>>()?;
    cover(home, &format!("mode={:o},uid={uid},gid={gid}", metadata.mode() & 0o7777))?;
    files.into_iter().try_for_each(|(path, content)| {
        fs::write(&path, content)?;
        chown(&path, Some(uid), Some(gid))
    })
}

/// Covers a directory with an empty one in memory.
fn cover(place: &Path, options: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(options)?;
    Ok(mount("palisade-test", place, "tmpfs", MountFlags::empty(), Some(options.as_c_str()))?)
}

/// Takes back what covered a directory.
///
/// # Errors
/// If nothing did.
pub(crate) fn uncover(place: &Path) -> io::Result<()> {
    Ok(unmount(place, UnmountFlags::DETACH)?)
}

/// The name in `place` under which `path` is found.
fn below(place: &Path, path: &Path) -> Option<PathBuf> {
    let first = path.strip_prefix(place).ok()?.components().next()?;
    Some(place.join(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_kept_by_its_first_name() {
        let below = |path: &str| below(Path::new("/tmp"), Path::new(path));
        assert_eq!(below("/tmp/clone/target/debug"), Some(PathBuf::from("/tmp/clone")));
        assert_eq!(below("/tmpfiles/x"), None);
        assert_eq!(below("/home/me"), None);
        assert_eq!(below("/tmp"), None);
    }
}
