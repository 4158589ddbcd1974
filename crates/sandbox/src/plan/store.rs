// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system store of plans: users launch with these plans, and their programs can't change them.
//!
//! If root has made `/var/lib/palisade/plans`, launches of ordinary users use nothing else: no plan of the user's own
//! cache, no policy file or profile of the user, and no project file. Root makes plans in advance on the users' behalf.
//! If the store has no plan for a request, or none that is still valid, each launch makes one. See [`user::ForUser`].

pub mod user;

use crate::plan::cache::{Cache, Key};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The store's directory.
pub const STORE: &str = "/var/lib/palisade/plans";

/// Whether root has made the store.
#[must_use]
pub fn is_there() -> bool {
    rustix::fs::lstat(STORE).is_ok_and(|stat| {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        directory && stat.st_uid == 0 && stat.st_mode & 0o022 == 0
    })
}

/// Whether a user's launches must use the store.
#[must_use]
pub fn holds_for(uid: u32) -> bool {
    uid != 0 && is_there()
}

/// The plans of a user in the store.
#[must_use]
pub fn plans_of(uid: u32) -> Cache {
    Cache::new(Path::new(STORE).join(uid.to_string()), 0)
}

/// The cache of a user: the system store if it exists, else `own`.
#[must_use]
pub fn cache(own: PathBuf, uid: u32) -> Cache {
    if holds_for(uid) { plans_of(uid) } else { Cache::new(own, uid) }
}

/// Makes the store.
///
/// # Errors
/// When the directories can't be made, or directories of another user exist there.
pub fn make() -> rustix::io::Result<()> {
    for directory in Path::new(STORE).ancestors().take(2).collect::<Vec<_>>().into_iter().rev() {
        match rustix::fs::mkdir(directory, rustix::fs::Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        // The mode that counts, whatever the umask was.
        rustix::fs::chmod(directory, rustix::fs::Mode::from_raw_mode(0o755))?;
    }
    if is_there() { Ok(()) } else { Err(Errno::PERM) }
}

/// Removes the store with all its plans. Returns whether there was one.
///
/// # Errors
/// When something can't be removed.
pub fn remove() -> std::io::Result<bool> {
    match std::fs::remove_dir_all(STORE) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The users with plans, and the number of each user's plans.
#[must_use]
pub fn users() -> BTreeMap<u32, usize> {
    let entries = std::fs::read_dir(STORE).into_iter().flatten().flatten();
    let plans = entries.filter_map(|entry| {
        let uid = entry.file_name().to_str()?.parse().ok()?;
        Some((uid, std::fs::read_dir(entry.path()).map_or(0, Iterator::count)))
    });
    plans.collect()
}

/// A plan and its key, in one piece.
#[must_use]
pub fn packed(key: &Key, body: &[u8]) -> Vec<u8> {
    let key = key.bytes();
    [&(key.len() as u64).to_le_bytes()[..], key, body].concat()
}

/// The parts of a [`packed`] plan.
#[must_use]
pub fn unpacked(bytes: &[u8]) -> Option<(Key, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (key, body) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((Key::from_bytes(key), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut key = Key::default();
        key.add(b"x");
        let bytes = packed(&key, b"body");
        assert_eq!(unpacked(&bytes), Some((key, &b"body"[..])));
        assert_eq!(unpacked(&bytes[..10]), None);
        assert_eq!(unpacked(b""), None);
    }
}
