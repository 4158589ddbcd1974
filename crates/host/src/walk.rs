// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds paths below a directory, for patterns such as `**/.env`.
//!
//! The directory's content may be hostile. So the number of entries is bounded, and no symbolic link is followed,
//! neither in the last component nor in any other, even if a directory is replaced by a link during the walk
//! (`openat2` with `RESOLVE_NO_SYMLINKS` below a descriptor of the base).

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// How many entries a walk reads before it gives up: about ten times a large monorepo, some seconds.
pub const DEFAULT_LIMIT: usize = 2_000_000;

/// The buffer for one `getdents64`: 32 KiB hold about a thousand entries.
const BUFFER: usize = 32 * 1024;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link (never followed).
    Symlink,
    /// A socket, FIFO or device.
    Other,
}

/// The visitor's decision about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// It matches. A matching directory isn't descended into: the decision about it applies to everything below.
    Match,
    /// Look below it, if it is a directory.
    Descend,
    /// Skip it and everything below.
    Skip,
}

/// What a walk found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// The matches, sorted.
    pub matches: Vec<PathBuf>,
    /// Directories that couldn't be read: a rule may not apply to entries below them.
    pub unreadable: Vec<Unreadable>,
    /// How many entries were read.
    pub entries: usize,
    /// How many directories were removed, renamed or replaced between being listed and being opened: their content
    /// may be where the walk has been already.
    pub moved: usize,
}

/// A directory that couldn't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The directory.
    pub path: PathBuf,
    /// What the kernel said.
    pub error: Errno,
}

/// Why a walk failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The base can't be opened as a directory.
    #[error("can't read the directory {path}: {source}")]
    Base {
        /// The base.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// There are more entries than the bound.
    #[error("{path} holds more than {limit} entries; name a deeper directory in the pattern")]
    TooMany {
        /// The base.
        path: PathBuf,
        /// The bound.
        limit: usize,
    },
    /// Directories are renamed, replaced or removed faster than the walk can read them.
    #[error(
        "can't find what matches the pattern: directories below {path} are renamed or removed again and again"
    )]
    Moving {
        /// The base.
        path: PathBuf,
    },
}

/// Walks below `base` and calls `visit` for each entry (with its absolute path if `base` is absolute). `base` itself
/// is opened as given, with its own links followed, and isn't passed to `visit`.
///
/// # Errors
/// When the base can't be read, or holds more than `limit` entries (nothing is returned then:
/// half a walk would leave half of the secrets visible).
pub fn walk(
    base: &Path,
    limit: usize,
    mut visit: impl FnMut(&Path, FileKind) -> Visit,
) -> Result<Walk, WalkError> {
    let base_error = |source: Errno| WalkError::Base { path: base.to_owned(), source: source.into() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let base_fd = rustix::fs::open(base, flags, Mode::empty()).map_err(base_error)?;

    let mut found = Walk::default();
    let mut buffer = vec![MaybeUninit::<u8>::uninit(); BUFFER];
    // Directories still to be read, relative to the base; the base itself is the empty one.
    let mut pending: Vec<PathBuf> = vec![PathBuf::new()];
    // One buffer for all entries' paths: 100,000 allocations would be a fifth of a walk's time.
    let mut path: Vec<u8> = Vec::new();

    while let Some(relative) = pending.pop() {
        let directory = base.join(&relative);
        let fd: OwnedFd = match open_below(&base_fd, &relative, flags) {
            Ok(fd) => fd,
            // The directory was removed or replaced since it was listed.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                found.moved += 1;
                continue;
            }
            Err(error) => {
                found.unreadable.push(Unreadable { path: directory, error });
                continue;
            }
        };
        path.clear();
        path.extend_from_slice(directory.as_os_str().as_bytes());
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        let prefix = path.len();

        let mut entries = RawDir::new(fd.as_fd(), &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    found.unreadable.push(Unreadable { path: directory.clone(), error });
                    break;
                }
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            found.entries += 1;
            if found.entries > limit {
                return Err(WalkError::TooMany { path: base.to_owned(), limit });
            }
            let kind = match entry.file_type() {
                // Some file systems don't report the type in the directory.
                FileType::Unknown => {
                    match rustix::fs::statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        Err(_) => continue,
                    }
                }
                known => known,
            };
            let kind = FileKind::from(kind);
            path.truncate(prefix);
            path.extend_from_slice(name);
            let full = Path::new(OsStr::from_bytes(&path));
            match visit(full, kind) {
                Visit::Match => found.matches.push(full.to_owned()),
                Visit::Descend if kind == FileKind::Directory => {
                    pending.push(relative.join(OsStr::from_bytes(name)));
                }
                Visit::Descend | Visit::Skip => {}
            }
        }
    }
    found.matches.sort();
    Ok(found)
}

fn open_below(base: &OwnedFd, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let name = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
    loop {
        match rustix::fs::openat2(base, name, flags, Mode::empty(), resolve) {
            // EAGAIN: a rename elsewhere on the system interfered with the kernel's check that `..` stays beneath.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(path: &Path, kind: FileKind) -> Visit {
        if path.file_name() == Some(OsStr::new(".env")) {
            Visit::Match
        } else if path.file_name() == Some(OsStr::new("node_modules")) {
            Visit::Skip
        } else {
            let _ = kind;
            Visit::Descend
        }
    }

    #[test]
    fn finds_at_any_depth_and_skips_what_it_is_told_to() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/b/c", "node_modules/x", ".env-like"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        for path in [".env", "a/b/c/.env", "node_modules/x/.env", "a/other"] {
            fs::write(dir.path().join(path), "").unwrap();
        }
        let found = walk(dir.path(), 100, names).unwrap();
        assert_eq!(found.matches, [dir.path().join(".env"), dir.path().join("a/b/c/.env")]);
        assert!(found.unreadable.is_empty());
        assert_eq!(found.entries, 8);
    }

    #[test]
    fn links_are_entries_and_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join(".env"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).unwrap();
        let mut kinds = Vec::new();
        let found = walk(dir.path(), 100, |path, kind| {
            kinds.push(kind);
            names(path, kind)
        })
        .unwrap();
        assert!(found.matches.is_empty());
        assert_eq!(kinds, [FileKind::Symlink, FileKind::Symlink]);
    }

    #[test]
    fn a_directory_swapped_for_a_link_during_the_walk_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join(".env"), "").unwrap();
        let victim = dir.path().join("victim");
        fs::create_dir(&victim).unwrap();
        let found = walk(dir.path(), 100, |path, kind| {
            if kind == FileKind::Directory {
                fs::remove_dir(path).unwrap();
                std::os::unix::fs::symlink(outside.path(), path).unwrap();
            }
            names(path, kind)
        })
        .unwrap();
        assert!(found.matches.is_empty());
    }

    #[test]
    fn the_bound_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for index in 0..5 {
            fs::write(dir.path().join(index.to_string()), "").unwrap();
        }
        assert!(walk(dir.path(), 5, names).is_ok());
        let error = walk(dir.path(), 4, names).unwrap_err();
        assert!(error.to_string().contains("more than 4 entries"));
    }

    #[test]
    fn a_missing_base_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(walk(&dir.path().join("none"), 5, names), Err(WalkError::Base { .. })));
    }

    #[test]
    fn unreadable_directories_are_reported() {
        if rustix::process::geteuid().is_root() {
            return; // root reads everything
        }
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("closed");
        fs::create_dir(&closed).unwrap();
        let set = |mode| {
            fs::set_permissions(
                &closed,
                <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode),
            )
            .unwrap();
        };
        set(0o000);
        let found = walk(dir.path(), 5, names).unwrap();
        set(0o700);
        assert_eq!(found.unreadable[0].path, closed);
        assert_eq!(found.unreadable[0].error, Errno::ACCESS);
    }

    #[test]
    fn a_large_tree_takes_well_under_a_second() {
        let dir = tempfile::tempdir().unwrap();
        for outer in 0..100 {
            let sub = dir.path().join(format!("d{outer}"));
            fs::create_dir(&sub).unwrap();
            for inner in 0..200 {
                fs::write(sub.join(format!("file-{inner}")), "").unwrap();
            }
        }
        let start = std::time::Instant::now();
        let found = walk(dir.path(), DEFAULT_LIMIT, names).unwrap();
        let took = start.elapsed();
        assert_eq!(found.entries, 100 * 200 + 100);
        // Optimised, 165,000 entries take 0.15 s with a warm cache; the bound leaves room for an
        // unoptimised build on a busy machine, and still catches a walk that stats each entry
        // several times.
        assert!(took.as_millis() < 1000, "{took:?}");
    }
}
