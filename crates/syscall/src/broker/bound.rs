// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records which sockets got their name inside the sandbox: the command may connect to these.
//!
//! Another socket may lie at the name later: a socket of the host that another sandbox moved there meanwhile. So only
//! a socket whose birth time lies after the start of the `bind` is recorded, and none where the file system keeps no
//! birth time. The birth time also tells a socket from a later one with the same inode number. A socket is forgotten
//! when it loses its last name.

use crate::broker::identity::{Identity, Moment};
use crate::broker::resolve::Place;
use rustix::fs::{FileType, Mode, OFlags, fstat};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many sockets are remembered. Beyond that the oldest are forgotten, and connecting to them is refused.
const REMEMBERED: usize = 16 * 1024;

/// The remembered sockets, oldest first.
struct Remembered {
    limit: usize,
    next: u64,
    by_age: BTreeMap<u64, Identity>,
    ages: HashMap<Identity, u64>,
}

impl Remembered {
    fn new(limit: usize) -> Self {
        Self { limit, next: 0, by_age: BTreeMap::new(), ages: HashMap::new() }
    }

    fn add(&mut self, socket: Identity) {
        self.remove(&socket);
        if self.ages.len() >= self.limit
            && let Some((_age, oldest)) = self.by_age.pop_first()
        {
            self.ages.remove(&oldest);
        }
        self.by_age.insert(self.next, socket);
        self.ages.insert(socket, self.next);
        self.next += 1;
    }

    fn remove(&mut self, socket: &Identity) {
        if let Some(age) = self.ages.remove(socket) {
            self.by_age.remove(&age);
        }
    }
}

/// The sockets that got their name inside.
pub(crate) struct Bound {
    /// Whether there was any. Most commands have none; removing a name then costs nothing more.
    any: AtomicBool,
    sockets: Mutex<Remembered>,
}

impl Default for Bound {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), sockets: Mutex::new(Remembered::new(REMEMBERED)) }
    }
}

/// A socket that is losing a name. While this descriptor is open, the kernel doesn't reuse the inode.
pub(crate) struct Leaving(OwnedFd);

impl Bound {
    fn sockets(&self) -> MutexGuard<'_, Remembered> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a socket got the name `place`. `before` is a moment before the `bind`.
    pub(crate) fn add(&self, place: &Place, before: Moment) {
        if let Some((_file, socket)) = open(place).filter(|(_, socket)| socket.is_born_since(before)) {
            self.any.store(true, Ordering::Release);
            self.sockets().add(socket);
        }
    }

    /// Whether this file is one of the recorded sockets.
    pub(crate) fn has(&self, file: impl AsFd) -> bool {
        let socket = Identity::of(file, c"", FileType::Socket);
        socket.is_some_and(|socket| self.sockets().ages.contains_key(&socket))
    }

    /// Call this before the file at `place` loses that name. Pass the result to [`left`](Self::left) afterwards.
    pub(crate) fn leaving(&self, place: &Place) -> Option<Leaving> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let stat = place.stat().ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
            .then(|| open(place))?
            .map(|(file, _)| Leaving(file))
    }

    /// Forgets a socket that has no name left.
    pub(crate) fn left(&self, leaving: Option<Leaving>) {
        let Some(Leaving(file)) = leaving else { return };
        let is_gone = fstat(&file).is_ok_and(|stat| stat.st_nlink == 0);
        if is_gone && let Some(socket) = Identity::of(&file, c"", FileType::Socket) {
            self.sockets().remove(&socket);
        }
    }
}

/// The socket at a place.
fn open(place: &Place) -> Option<(OwnedFd, Identity)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&place.parent, &*place.name, flags, Mode::empty()).ok()?;
    let socket = Identity::of(&file, c"", FileType::Socket)?;
    Some((file, socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_at_the_limit() {
        let mut sockets = Remembered::new(REMEMBERED);
        let of = |number: usize| Identity::numbered(number as u64);
        (0..REMEMBERED + 3).for_each(|number| sockets.add(of(number)));
        assert_eq!((sockets.ages.len(), sockets.by_age.len()), (REMEMBERED, REMEMBERED));
        let has = |number| sockets.ages.contains_key(&of(number));
        assert!([0, 1, 2].iter().all(|number| !has(*number)));
        assert!([3, 4, REMEMBERED + 2].iter().all(|number| has(*number)));
    }

    #[test]
    fn what_is_added_again_is_young_again_and_what_is_removed_leaves_nothing() {
        let mut sockets = Remembered::new(2);
        let of = Identity::numbered;
        for number in [1, 2, 1, 3] {
            sockets.add(of(number));
        }
        assert!(sockets.ages.contains_key(&of(1)) && !sockets.ages.contains_key(&of(2)));
        sockets.remove(&of(1));
        sockets.remove(&of(3));
        assert_eq!((sockets.ages.len(), sockets.by_age.len()), (0, 0));
    }
}
