// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which sockets were given a name inside: these may be connected to.
//!
//! A number of an inode is used again as soon as its file is gone, by a socket of the host's too. So a socket is known by
//! its time of birth as well, and forgotten with its last name. Where the file system keeps no such time, a descriptor
//! holds the inode: while it is open, its number is nobody else's.

use crate::broker::identity::Identity;
use crate::broker::resolve::Place;
use rustix::fs::{FileType, Mode, OFlags, fstat};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many sockets are remembered; then the oldest are forgotten, and connecting to them is refused.
const REMEMBERED: usize = 16 * 1024;
/// So many of them by a descriptor, of which a process has 1,024 as a rule.
const HELD: usize = 256;

/// Sockets with the oldest first, and what is kept of each.
struct Remembered<T> {
    limit: usize,
    next: u64,
    by_age: BTreeMap<u64, Identity>,
    kept: HashMap<Identity, (u64, T)>,
}

impl<T> Remembered<T> {
    fn new(limit: usize) -> Self {
        Self { limit, next: 0, by_age: BTreeMap::new(), kept: HashMap::new() }
    }

    fn add(&mut self, socket: Identity, with: T) {
        self.remove(&socket);
        if self.kept.len() >= self.limit
            && let Some((_age, oldest)) = self.by_age.pop_first()
        {
            self.kept.remove(&oldest);
        }
        self.by_age.insert(self.next, socket);
        self.kept.insert(socket, (self.next, with));
        self.next += 1;
    }

    fn remove(&mut self, socket: &Identity) {
        if let Some((age, _with)) = self.kept.remove(socket) {
            self.by_age.remove(&age);
        }
    }
}

/// The sockets that were given a name inside.
pub(crate) struct Bound {
    /// Whether there was one: most commands have none, and removing a name then costs nothing more.
    any: AtomicBool,
    sockets: Mutex<(Remembered<()>, Remembered<OwnedFd>)>,
}

impl Default for Bound {
    fn default() -> Self {
        let sockets = (Remembered::new(REMEMBERED), Remembered::new(HELD));
        Self { any: AtomicBool::new(false), sockets: Mutex::new(sockets) }
    }
}

/// A socket that loses a name. Its inode isn't used again while this lives.
pub(crate) struct Leaving(OwnedFd);

impl Bound {
    fn sockets(&self) -> MutexGuard<'_, (Remembered<()>, Remembered<OwnedFd>)> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket at `place` was given this name.
    pub(crate) fn add(&self, place: &Place) {
        if let Some((file, socket)) = open(place) {
            self.remember(socket, file);
        }
    }

    fn remember(&self, socket: Identity, file: OwnedFd) {
        self.any.store(true, Ordering::Release);
        let (known, held) = &mut *self.sockets();
        if socket.outlives() { known.add(socket, ()) } else { held.add(socket, file) }
    }

    /// Whether this file is one of them.
    pub(crate) fn has(&self, file: impl AsFd) -> bool {
        let Some(socket) = Identity::of(file, c"", FileType::Socket) else { return false };
        let (known, held) = &*self.sockets();
        known.kept.contains_key(&socket) || held.kept.contains_key(&socket)
    }

    /// To be asked before what is at `place` loses that name; [`left`](Self::left) is told afterwards.
    pub(crate) fn leaving(&self, place: &Place) -> Option<Leaving> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let stat = place.stat().ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
            .then(|| open(place))?
            .map(|(file, _)| Leaving(file))
    }

    /// Forgets a socket that has no name any more.
    pub(crate) fn left(&self, leaving: Option<Leaving>) {
        let Some(Leaving(file)) = leaving else { return };
        let is_gone = fstat(&file).is_ok_and(|stat| stat.st_nlink == 0);
        if is_gone && let Some(socket) = Identity::of(&file, c"", FileType::Socket) {
            let (known, held) = &mut *self.sockets();
            known.remove(&socket);
            held.remove(&socket);
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
        (0..REMEMBERED + 3).for_each(|number| sockets.add(of(number), ()));
        assert_eq!((sockets.kept.len(), sockets.by_age.len()), (REMEMBERED, REMEMBERED));
        let has = |number| sockets.kept.contains_key(&of(number));
        assert!([0, 1, 2].iter().all(|number| !has(*number)));
        assert!([3, 4, REMEMBERED + 2].iter().all(|number| has(*number)));
    }

    #[test]
    fn what_is_added_again_is_young_again_and_what_is_removed_leaves_nothing() {
        let mut sockets = Remembered::new(2);
        let of = Identity::numbered;
        for number in [1, 2, 1, 3] {
            sockets.add(of(number), ());
        }
        assert!(sockets.kept.contains_key(&of(1)) && !sockets.kept.contains_key(&of(2)));
        sockets.remove(&of(1));
        sockets.remove(&of(3));
        assert_eq!((sockets.kept.len(), sockets.by_age.len()), (0, 0));
    }

    /// What a descriptor holds is as many as there may be descriptors.
    #[test]
    fn sockets_without_a_time_of_birth_are_held() {
        let bound = Bound::default();
        let open = |_number| OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        (0..300).for_each(|number| bound.remember(Identity::numbered(number), open(number)));
        let (known, held) = &*bound.sockets();
        assert_eq!((known.kept.len(), held.kept.len()), (0, HELD));
        assert!(held.kept.contains_key(&Identity::numbered(299)));
        assert!(!held.kept.contains_key(&Identity::numbered(0)));
    }
}
