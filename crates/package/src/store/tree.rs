// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes and removes the files of a package on a disk. They are read-only, to prevent accidental changes.

use crate::content::Content;
use crate::error::PackageError;
use crate::manifest::{Manifest, What};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// How often progress is reported, in bytes.
const STRIDE: u64 = 4 << 20;

fn times(modified: i64) -> Timestamps {
    let time = Timespec { tv_sec: modified, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

/// Writes all files of a package into an empty directory, which no other user can write to.
///
/// The manifest's paths are plain, and each is in a directory of the manifest, so none leads elsewhere. Links are
/// made last, when nothing more is written.
pub(super) fn write(
    to: &Path,
    manifest: &Manifest,
    content: &mut Content<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), PackageError> {
    let (mut done, mut told, total) = (0, 0, manifest.size());
    for entry in &manifest.entries {
        let path = to.join(entry.path());
        let failed = |source: std::io::Error| PackageError::Unpack { path: path.clone(), source };
        match &entry.what {
            What::Directory { .. } => {
                std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            }
            What::File { size, modified, executable } => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600));
                let mut file = File::from(file.map_err(|errno| failed(errno.into()))?);
                let mut left = *size;
                while left > 0 {
                    let bytes = content.next(left)?;
                    if bytes.is_empty() {
                        return Err(PackageError::Damaged { what: "its content ends too early" });
                    }
                    file.write_all(bytes).map_err(failed)?;
                    left -= bytes.len() as u64;
                }
                let mode = if *executable { 0o555 } else { 0o444 };
                file.set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
                rustix::fs::futimens(&file, &times(*modified)).map_err(|errno| failed(errno.into()))?;
                done += size;
                if done - told >= STRIDE {
                    told = done;
                    progress(done, total);
                }
            }
            What::Link { .. } => {}
        }
    }
    for entry in &manifest.entries {
        if let What::Link { target } = &entry.what {
            let path = to.join(entry.path());
            symlink(OsStr::from_bytes(target), &path)
                .map_err(|source| PackageError::Unpack { path, source })?;
        }
    }
    // The deepest first: making a name in a directory changes the directory's time.
    for entry in manifest.entries.iter().rev() {
        if let What::Directory { modified } = &entry.what {
            let directory = to.join(entry.path());
            finish(&directory)?;
            rustix::fs::utimensat(CWD, &directory, &times(*modified), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| PackageError::Unpack { path: directory, source: errno.into() })?;
        }
    }
    // The top directory keeps the current time, which records its last use.
    finish(to)
}

/// Makes a directory read-only.
fn finish(directory: &Path) -> Result<(), PackageError> {
    let failed = |source| PackageError::Unpack { path: directory.to_owned(), source };
    std::fs::set_permissions(directory, Permissions::from_mode(0o555)).map_err(failed)
}

/// Removes a directory with all that is in it, as far as that is possible.
pub(super) fn remove(directory: &Path) {
    let mut pending: Vec<PathBuf> = vec![directory.to_owned()];
    // What isn't writable can't be emptied.
    while let Some(path) = pending.pop() {
        let _not_ours = std::fs::set_permissions(&path, Permissions::from_mode(0o700));
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    let _what_is_left_goes_later = std::fs::remove_dir_all(directory);
}
