// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The store of project files that the user has allowed.
//!
//! A project's file comes with the project, so its author may be anyone. The file has no effect until the user has seen its
//! statements and allowed it. The user allows this content at this path: any edit, by any user, makes the permission invalid.
//!
//! The store has one small file for each project, which is replaced as a whole: two processes that use the store at
//! once never see half an entry. A process that is killed leaves at worst a temporary file, which is removed later.

use palisade_host::file::{self, FileError, Links};
use palisade_host::fingerprint::Fingerprint;
use palisade_host::places::{self, TrustError, Trustee};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A file larger than this isn't a policy file, and isn't read further.
pub const LARGEST_FILE: usize = palisade_policy::parse::LARGEST_FILE;
/// The first line of an entry.
const MAGIC: &[u8] = b"palisade project 1\n";
/// The longest path that the kernel accepts, and the two lines before it.
const LARGEST_ENTRY: usize = 4096 + 256;
/// A temporary file this old was left behind by a process that was killed.
const STALE: Duration = Duration::from_secs(60);

/// What the user has decided about a project file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// This content was allowed at this place.
    Allowed,
    /// Another content was allowed.
    Changed,
    /// The user has decided nothing.
    Unknown,
}

/// Why the store can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Other users could have changed the store.
    #[error("refusing the store of allowed projects: {source}")]
    Distrusted {
        /// Why the store isn't trusted.
        source: TrustError,
    },
    /// An entry can't be read.
    #[error("can't read the store of allowed projects: {source}")]
    Read {
        /// Why.
        source: FileError,
    },
    /// The directory can't be made.
    #[error("can't make {directory:?}: {source}")]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An entry can't be written or removed.
    #[error("can't {action} {path:?}: {source}")]
    Entry {
        /// The action that failed.
        action: &'static str,
        /// The entry.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl StoreError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Distrusted { source } => distrust_hint(source),
            _ => None,
        }
    }
}

/// The command that makes a path trusted.
pub(crate) fn distrust_hint(error: &TrustError) -> Option<String> {
    let TrustError::Distrusted { path, reason } = error else { return None };
    let path = crate::error::quoted(&path.to_string_lossy());
    Some(match reason {
        places::Distrust::Owner { .. } => {
            // Only root can make an owner of another user.
            let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
            format!("look at it, then: {sudo}chown -h $(id -u) {path}")
        }
        places::Distrust::GroupWritable { .. } | places::Distrust::WorldWritable { .. } => {
            format!("look at it, then: chmod go-w {path}")
        }
    })
}

/// The store of one user.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
    trustee: Trustee,
}

impl Store {
    /// The store below the state directory `state` (`…/palisade`). Reads and writes nothing yet.
    #[must_use]
    pub fn new(state: &Path, trustee: Trustee) -> Self {
        Self { directory: state.join("projects"), trustee }
    }

    /// The entry for a project file, existing or not. `file` is without links.
    #[must_use]
    pub fn entry(&self, file: &Path) -> PathBuf {
        let name = blake3::hash(file.as_os_str().as_bytes()).to_hex();
        self.directory.join(name.as_str())
    }

    /// What the user has decided about this content of a project file.
    ///
    /// # Errors
    /// When the store can't be read, or other users could have changed it.
    pub fn status(&self, file: &Path, content: &[u8]) -> Result<Status, StoreError> {
        let entry = self.entry(file);
        if matches!(Fingerprint::of_link(&entry), Ok(Fingerprint::Absent)) {
            return Ok(Status::Unknown);
        }
        let real = places::check(&entry, self.trustee).map_err(|source| StoreError::Distrusted { source })?;
        let found = match file::read(&real, LARGEST_ENTRY, Links::Refuse) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(Status::Unknown),
            Err(source) => return Err(StoreError::Read { source }),
        };
        // The entry holds the path, too, so that an entry that is copied to another name allows nothing.
        Ok(if found == Self::content(file, content) { Status::Allowed } else { Status::Changed })
    }

    /// Allows this content of a project file.
    ///
    /// # Errors
    /// When the entry can't be written.
    pub fn allow(&self, file: &Path, content: &[u8]) -> Result<(), StoreError> {
        let entry = self.entry(file);
        self.make_directory()?;
        self.sweep();
        let stamp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let temporary = self.directory.join(format!(".{}.{stamp}", std::process::id()));
        let failed =
            |action, source: std::io::Error| StoreError::Entry { action, path: entry.clone(), source };
        let written = write(&temporary, &Self::content(file, content))
            .and_then(|()| std::fs::rename(&temporary, &entry));
        if let Err(source) = written {
            let _nothing_left = std::fs::remove_file(&temporary);
            return Err(failed("write", source));
        }
        // Makes the permission survive a power failure, if the disk keeps its promise.
        if let Ok(directory) = File::open(&self.directory) {
            let _not_everywhere = directory.sync_all();
        }
        Ok(())
    }

    /// Takes back the permission for a project file. Returns whether there was one.
    ///
    /// # Errors
    /// When the entry can't be removed.
    pub fn revoke(&self, file: &Path) -> Result<bool, StoreError> {
        let path = self.entry(file);
        match rustix::fs::unlinkat(rustix::fs::CWD, &path, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(false),
            Err(source) => Err(StoreError::Entry { action: "remove", path, source: source.into() }),
        }
    }

    fn content(file: &Path, content: &[u8]) -> Vec<u8> {
        let digest = blake3::hash(content).to_hex();
        [MAGIC, digest.as_bytes(), b"\n", file.as_os_str().as_bytes(), b"\n"].concat()
    }

    fn make_directory(&self) -> Result<(), StoreError> {
        let mut builder = std::fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(|source| StoreError::Directory { directory: self.directory.clone(), source })?;
        let checked = places::check(&self.directory, self.trustee);
        checked.map(drop).map_err(|source| StoreError::Distrusted { source })
    }

    /// Removes temporary files that killed processes left.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return };
        for entry in entries.filter_map(Result::ok) {
            let old = entry.metadata().and_then(|metadata| metadata.modified());
            let old = old.is_ok_and(|when| when.elapsed().is_ok_and(|age| age > STALE));
            if old && entry.file_name().as_bytes().starts_with(b".") {
                let _gone_already = std::fs::remove_file(entry.path());
            }
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn store(state: &Path) -> Store {
        Store::new(state, Trustee { uid: rustix::process::geteuid().as_raw(), private_group: None })
    }

    #[test]
    fn allowed_is_this_content_at_this_place() {
        let state = tempfile::tempdir().unwrap();
        let store = store(state.path());
        let file = Path::new("/p/.palisade.toml");
        assert_eq!(store.status(file, b"a").unwrap(), Status::Unknown);
        store.allow(file, b"a").unwrap();
        assert_eq!(store.status(file, b"a").unwrap(), Status::Allowed);
        assert_eq!(store.status(file, b"b").unwrap(), Status::Changed);
        assert_eq!(store.status(Path::new("/q/.palisade.toml"), b"a").unwrap(), Status::Unknown);
        assert!(store.revoke(file).unwrap());
        assert!(!store.revoke(file).unwrap());
        assert_eq!(store.status(file, b"a").unwrap(), Status::Unknown);
    }

    #[test]
    fn an_entry_under_another_name_allows_nothing() {
        let state = tempfile::tempdir().unwrap();
        let store = store(state.path());
        let (one, two) = (Path::new("/p/.palisade.toml"), Path::new("/q/.palisade.toml"));
        store.allow(one, b"a").unwrap();
        std::fs::copy(store.entry(one), store.entry(two)).unwrap();
        assert_eq!(store.status(two, b"a").unwrap(), Status::Changed);
    }

    #[test]
    fn a_store_that_others_may_write_is_not_believed() {
        let state = tempfile::tempdir().unwrap();
        let store = store(state.path());
        let file = Path::new("/p/.palisade.toml");
        store.allow(file, b"a").unwrap();
        let directory = state.path().join("projects");
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = store.status(file, b"a").unwrap_err();
        assert!(matches!(error, StoreError::Distrusted { .. }), "{error}");
        assert!(error.hint().unwrap().contains("chmod go-w"));
        assert!(store.allow(file, b"b").is_err());
    }

    #[test]
    fn writers_at_once_leave_whole_entries() {
        let state = tempfile::tempdir().unwrap();
        let store = store(state.path());
        let file = Path::new("/p/.palisade.toml");
        std::thread::scope(|scope| {
            for writer in 0..8u8 {
                let store = &store;
                scope.spawn(move || {
                    for _round in 0..20 {
                        // Two threads may read the same time from the clock: then one of them fails with an error.
                        let _one_of_two = store.allow(file, &[writer]);
                        let status = store.status(file, &[writer]).unwrap();
                        assert_ne!(status, Status::Unknown);
                    }
                });
            }
        });
        let allowed = (0..8u8).filter(|writer| store.status(file, &[*writer]).unwrap() == Status::Allowed);
        assert_eq!(allowed.count(), 1);
    }

    #[test]
    fn leftovers_of_killed_writers_go() {
        let state = tempfile::tempdir().unwrap();
        let store = store(state.path());
        let file = Path::new("/p/.palisade.toml");
        store.allow(file, b"a").unwrap();
        let left = state.path().join("projects/.1.2");
        let old = File::create(&left).unwrap();
        old.set_modified(SystemTime::now() - STALE * 2).unwrap();
        store.allow(file, b"b").unwrap();
        assert!(!left.exists());
        assert_eq!(store.status(file, b"b").unwrap(), Status::Allowed);
    }

    #[test]
    fn a_link_in_the_store_is_judged_by_where_it_leads() {
        let state = tempfile::tempdir().unwrap();
        let store = store(state.path());
        let file = Path::new("/p/.palisade.toml");
        store.allow(file, b"a").unwrap();
        let entry = store.entry(file);
        std::fs::remove_file(&entry).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &entry).unwrap();
        assert!(store.status(file, b"a").is_err());
    }
}
