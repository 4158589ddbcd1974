// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system's store of plans: what users open by, and what programs of theirs can't change.
//!
//! Where root has made `/var/lib/palisade/plans`, ordinary users' launches believe nothing else: no plan of the user's
//! own cache, no policy file or profile of theirs, no project's. Root makes plans ahead in their names; what there is
//! none for, or none that still fits, is planned anew at each launch. [`user::ForUser`]: who they are made for.

pub mod user;

use crate::plan::cache::{Cache, Key};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where it is.
pub const STORE: &str = "/var/lib/palisade/plans";

/// Whether root has made it.
#[must_use]
pub fn is_there() -> bool {
    rustix::fs::lstat(STORE).is_ok_and(|stat| {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        directory && stat.st_uid == 0 && stat.st_mode & 0o022 == 0
    })
}

/// Whether a user's launches go by it.
#[must_use]
pub fn holds_for(uid: u32) -> bool {
    uid != 0 && is_there()
}

/// The plans of a user in it.
#[must_use]
pub fn plans_of(uid: u32) -> Cache {
    Cache::new(Path::new(STORE).join(uid.to_string()), 0)
}

/// The cache of a user: the system's where there is one, else `own`.
#[must_use]
pub fn cache(own: PathBuf, uid: u32) -> Cache {
    if holds_for(uid) { plans_of(uid) } else { Cache::new(own, uid) }
}

/// Makes the store.
///
/// # Errors
/// When the directories can't be made, or somebody else's are there.
pub fn make() -> rustix::io::Result<()> {
    for directory in Path::new(STORE).ancestors().take(2).collect::<Vec<_>>().into_iter().rev() {
        match rustix::fs::mkdir(directory, rustix::fs::Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        // Whatever mask it was made with.
        rustix::fs::chmod(directory, rustix::fs::Mode::from_raw_mode(0o755))?;
    }
    if is_there() { Ok(()) } else { Err(Errno::PERM) }
}

/// Removes the store with all plans in it; whether there was one.
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

/// The users for whom there are plans, and how many.
#[must_use]
pub fn users() -> BTreeMap<u32, usize> {
    let entries = std::fs::read_dir(STORE).into_iter().flatten().flatten();
    let plans = entries.filter_map(|entry| {
        let uid = entry.file_name().to_str()?.parse().ok()?;
        Some((uid, std::fs::read_dir(entry.path()).map_or(0, Iterator::count)))
    });
    plans.collect()
}

/// A plan and what it is for, in one piece.
#[must_use]
pub fn packed(key: &Key, body: &[u8]) -> Vec<u8> {
    let key = key.bytes();
    [&(key.len() as u64).to_le_bytes()[..], key, body].concat()
}

/// What was [`packed`].
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
