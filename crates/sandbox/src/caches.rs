// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Caches of projects on disk: `projects/PROJECT/RIGHTS/files`, in Palisade's cache directory.
//!
//! A project is a directory with its inode number and time of birth: a project that is made at the path of another one
//! gets caches of its own. Rights are only stored as a hash, because a policy may have secrets in it.

pub mod projects;

use crate::facts::Facts;
use palisade_host::birth::Birth;
use palisade_host::places::Places;
use palisade_policy::rights::RightsText;
use palisade_text::Show as _;
use rustix::fs::{AtFlags, CWD, FileType, Timespec, Timestamps, UTIME_NOW, lstat, utimensat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The time of the call.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
/// What identifies a project.
const PROJECT: &str = "project";
/// The hash of a set's rights, without the network and what is shown of the system.
const RIGHTS: &str = "rights";
/// What the set's launches see of the system in addition.
const SHOWN: &str = "shown";
/// An empty file that only sets with a network have.
const NETWORK: &str = "network";
/// Replaced when a set with a network is made, so that the plans of launches without one can notice that.
const MARK: &str = "mark";
/// What programs inside see.
const FILES: &str = "files";

/// Why caches can't be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{path}: {source}", path = path.shown())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path} belongs to another user, or others may write to it", path = .0.shown())]
    NotOurs(PathBuf),
    #[error("{path} can't be told from a directory that is made at its path later", path = .0.shown())]
    Unknown(PathBuf),
}

/// The caches of one project.
pub(crate) struct Store {
    directory: PathBuf,
}

/// The caches of launches with the same rights.
pub(crate) struct Set {
    files: PathBuf,
}

impl Store {
    /// The caches of the working directory.
    pub(crate) fn open(facts: &Facts) -> Result<Self, StoreError> {
        let birth = facts.depends_on_birth(&facts.cwd);
        let birth = birth.ok_or_else(|| StoreError::Unknown(facts.cwd.clone()))?;
        let identity = identity(&facts.cwd, birth);
        // A home that doesn't exist isn't made.
        for directory in [facts.places.cache.parent(), Some(&facts.places.cache)].into_iter().flatten() {
            let _exists_or_the_next_one_fails = std::fs::DirBuilder::new().mode(0o700).create(directory);
        }
        let projects = facts.projects();
        make_directory(&projects)?;
        let store = Self { directory: make(&projects, &identity)? };
        let file = store.directory.join(PROJECT);
        if provide(&file, &identity)? {
            projects::trim(&projects);
        } else {
            // The time of its last use. A plan is made at least every two months.
            let now = Timestamps { last_access: NOW, last_modification: NOW };
            let _used_at_an_unknown_time = utimensat(CWD, &file, &now, AtFlags::SYMLINK_NOFOLLOW);
        }
        Ok(store)
    }

    /// The set of launches with these rights.
    pub(crate) fn set(&self, rights: &RightsText) -> Result<Set, StoreError> {
        let others = hash(rights.others.as_bytes());
        let mut shown = String::new();
        rights.shown.iter().for_each(|line| shown.extend([line, "\n"]));
        // No statement begins with a space.
        let network = rights.network.as_ref().map(|network| format!(" network\n{network}"));
        let identity = format!("{others}\n{shown}{}", network.as_deref().unwrap_or_default());
        let directory = make(&self.directory, identity.as_bytes())?;
        provide(&directory.join(RIGHTS), others.as_bytes())?;
        provide(&directory.join(SHOWN), shown.as_bytes())?;
        if network.is_some() && provide(&directory.join(NETWORK), b"")? {
            replace(&self.directory.join(MARK), b"")?;
        }
        let files = directory.join(FILES);
        make_directory(&files)?;
        Ok(Set { files })
    }

    /// The sets whose launches have all of these rights, and a network. The newest comes first.
    pub(crate) fn donors(&self, facts: &Facts, rights: &RightsText) -> Result<Vec<Set>, StoreError> {
        let mark = self.directory.join(MARK);
        provide(&mark, b"")?;
        facts.depends_on_birth(&mark).ok_or(StoreError::Unknown(mark))?;
        let others = hash(rights.others.as_bytes());
        let sets = std::fs::read_dir(&self.directory).map_err(failed(&self.directory))?;
        let with_network = sets.filter_map(|entry| {
            let set = entry.ok()?.path();
            let made = set.join(NETWORK).metadata().ok()?.modified().ok()?;
            let shown = std::fs::read_to_string(set.join(SHOWN)).ok()?;
            let shown: BTreeSet<&str> = shown.lines().collect();
            let has_all = std::fs::read(set.join(RIGHTS)).ok()? == others.as_bytes()
                && rights.shown.iter().all(|line| shown.contains(line.as_str()));
            let files = set.join(FILES);
            (has_all && is_ours(&set).is_ok() && is_ours(&files).is_ok()).then_some((made, files))
        });
        let mut donors: Vec<_> = with_network.collect();
        donors.sort();
        Ok(donors.into_iter().rev().map(|(_made, files)| Set { files }).collect())
    }
}

impl Set {
    pub(crate) fn files(&self) -> &Path {
        &self.files
    }

    /// Makes the directory `name`, if nothing has that name.
    pub(crate) fn make(&self, name: &str) -> std::io::Result<()> {
        // Programs inside may have made a link of this name. Neither `mkdir` nor anything else here follows it.
        match std::fs::DirBuilder::new().mode(0o700).create(self.files.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the directory `name` has an entry. A plan that was made while it had none depends on that.
    pub(crate) fn has_content(&self, facts: &Facts, name: &str) -> bool {
        let directory = self.files.join(name);
        let is_directory = |path: &Path| {
            lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        };
        if !is_directory(&directory) {
            return false;
        }
        let has_entry = std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some());
        if !has_entry {
            facts.depends_on_names_in(&directory);
        }
        has_entry
    }
}

/// Where a launch's own set appears inside.
pub(crate) const INSIDE: &str = "/var/cache/palisade";

/// Where the downloads of launches with a network appear inside, read-only: a directory for each set of theirs.
pub(crate) const DOWNLOADS: &str = "/var/cache/palisade-downloads";

/// Whether a mount at this path inside shows a cache.
#[must_use]
pub fn is_place(path: &Path) -> bool {
    path == Path::new(INSIDE) || path.parent() == Some(Path::new(DOWNLOADS))
}

/// Where the caches of projects are.
#[must_use]
pub fn directory(places: &Places) -> PathBuf {
    places.cache.join("projects")
}

/// The text that identifies a project.
fn identity(path: &Path, birth: Birth) -> Vec<u8> {
    let mut text = path.as_os_str().as_bytes().to_vec();
    text.extend(format!("\n{} {} {}\n", birth.inode, birth.seconds, birth.nanoseconds).bytes());
    text
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    |source| StoreError::File { path: path.to_owned(), source }
}

fn hash(text: &[u8]) -> String {
    blake3::hash(text).to_hex().to_string()
}

/// Makes the directory for an identity.
fn make(above: &Path, identity: &[u8]) -> Result<PathBuf, StoreError> {
    let directory = above.join(hash(identity));
    make_directory(&directory)?;
    Ok(directory)
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(failed(path)(error)),
        _ => is_ours(path),
    }
}

/// Checks that a directory is the caller's, and that no other user can write to it.
fn is_ours(path: &Path) -> Result<(), StoreError> {
    let stat = lstat(path).map_err(|errno: Errno| failed(path)(errno.into()))?;
    let ours = FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_mode & 0o022 == 0;
    if ours { Ok(()) } else { Err(StoreError::NotOurs(path.to_owned())) }
}

/// Writes a file that doesn't exist yet, and returns whether it did.
fn provide(path: &Path, content: &[u8]) -> Result<bool, StoreError> {
    let missing = lstat(path).is_err_and(|errno| errno == Errno::NOENT);
    if missing {
        replace(path, content)?;
    }
    Ok(missing)
}

/// Puts a new file in place of a path.
fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let mut temporary = path.to_owned().into_os_string();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(&temporary)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(|error| {
            let _not_there = std::fs::remove_file(&temporary);
            failed(path)(error)
        })
}
