// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues of questions that wait: until the trust database is up to date, or until a file that takes long has been
//! read.
//!
//! Each question holds a descriptor, so their number is limited, in total and for one user. Users take turns, and so do
//! the disks with a user's files. A slow question delays only the user who caused it, and a disk that doesn't answer
//! delays only the questions about its files. Root never waits behind others: a part of the places and of the threads
//! is for root only.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The most questions that wait.
const MOST: usize = 4096;
/// The most questions of one user.
const MOST_OF_ONE: usize = 1024;
/// The most questions of one user on one disk that are processed at the same time.
const AT_WORK: usize = 2;
/// The most questions of one user on all disks that are processed at the same time.
const AT_WORK_OF_ONE: usize = 4;
/// How many threads process them.
pub const READERS: usize = 12;
/// How many of these threads are for root only.
const ROOTS: usize = 2;
/// The user that never waits behind others.
const ROOT: u32 = 0;

/// A user, and the device of a file system.
type Key = (u32, u64);

/// The waiting items, by user and disk.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    lines: Mutex<Lines<T>>,
    came: Condvar,
}

#[derive(Debug)]
struct Lines<T> {
    of: BTreeMap<Key, Line<T>>,
    count: usize,
    /// How many items of users other than root are being processed.
    at_work: usize,
    /// The user and disk whose turn was last.
    last: Key,
}

#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<T>,
    at_work: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), at_work: 0 }
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            lines: Mutex::new(Lines { of: BTreeMap::new(), count: 0, at_work: 0, last: (0, 0) }),
            came: Condvar::new(),
        }
    }
}

/// An item that is being processed, until this is dropped.
pub(super) struct AtWork<'w, T> {
    key: Key,
    from: &'w Waiting<T>,
}

impl<T> Drop for AtWork<'_, T> {
    fn drop(&mut self) {
        let mut lines = self.from.lines();
        lines.at_work -= usize::from(self.key.0 != ROOT);
        if let Some(line) = lines.of.get_mut(&self.key) {
            line.at_work -= 1;
            if line.at_work == 0 && line.waiting.is_empty() {
                lines.of.remove(&self.key);
            }
        }
        self.from.came.notify_one();
    }
}

impl<T> Lines<T> {
    /// A user's lines.
    fn of_one(&self, user: u32) -> impl Iterator<Item = &Line<T>> {
        self.of.range((user, 0)..=(user, u64::MAX)).map(|(_, line)| line)
    }

    /// The next item from a line that has not too many in progress: one of root's, or the one after the last turn.
    fn next(&mut self) -> Option<(Key, T)> {
        let others = self.at_work < READERS - ROOTS;
        let is_next = |(key, line): &(&Key, &Line<T>)| {
            let at_work = || self.of_one(key.0).map(|line| line.at_work).sum::<usize>();
            let may = key.0 == ROOT || others && at_work() < AT_WORK_OF_ONE;
            !line.waiting.is_empty() && line.at_work < AT_WORK && may
        };
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let roots = self.of.range((ROOT, 0)..=(ROOT, u64::MAX)).find(is_next);
        let next = || self.of.range(after).find(is_next).or_else(|| self.of.iter().find(is_next));
        let (&key, _) = roots.or_else(next)?;
        let line = self.of.get_mut(&key)?;
        let what = line.waiting.pop_front()?;
        line.at_work += 1;
        if key.0 != ROOT {
            self.last = key;
            self.at_work += 1;
        }
        self.count -= 1;
        Some((key, what))
    }
}

impl<T> Waiting<T> {
    fn lines(&self) -> MutexGuard<'_, Lines<T>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an item for `user` about a file on `device`. Gives it back if too many wait.
    pub(super) fn put(&self, user: u32, device: u64, what: T) -> Result<(), T> {
        let mut lines = self.lines();
        let most = if user == ROOT { MOST } else { MOST - MOST_OF_ONE };
        let of_one: usize = lines.of_one(user).map(|line| line.waiting.len()).sum();
        if lines.count >= most || of_one >= MOST_OF_ONE {
            return Err(what);
        }
        lines.of.entry((user, device)).or_default().waiting.push_back(what);
        lines.count += 1;
        self.came.notify_one();
        Ok(())
    }

    /// Waits for an item to process.
    pub(super) fn take(&self) -> (T, AtWork<'_, T>) {
        let mut lines = self.lines();
        loop {
            if let Some((key, what)) = lines.next() {
                return (what, AtWork { key, from: self });
            }
            lines = self.came.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until there are items, and takes all, with their users.
    pub(super) fn take_all(&self) -> Vec<(u32, T)> {
        let mut lines = self
            .came
            .wait_while(self.lines(), |lines| lines.count == 0)
            .unwrap_or_else(PoisonError::into_inner);
        lines.count = 0;
        let lines = std::mem::take(&mut lines.of);
        lines
            .into_iter()
            .flat_map(|((user, _), line)| line.waiting.into_iter().map(move |what| (user, what)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: u64 = 8;

    #[test]
    fn users_take_turns() {
        let waiting = Waiting::default();
        for number in 0..3 {
            assert_eq!(waiting.put(1000, DISK, number), Ok(()));
        }
        for user in [1001, 1002] {
            assert_eq!(waiting.put(user, DISK, user), Ok(()));
        }
        let (one, two, three, four) = (waiting.take(), waiting.take(), waiting.take(), waiting.take());
        assert_eq!([one.0, two.0, three.0, four.0], [0, 1001, 1002, 1]);
        // A third item of the same user has to wait.
        assert!(waiting.lines().next().is_none());
        drop(one);
        assert_eq!(waiting.take().0, 2);
        drop((two, three, four));
        assert!(waiting.lines().of.is_empty() && waiting.lines().count == 0 && waiting.lines().at_work == 0);
    }

    #[test]
    fn a_disk_that_doesnt_answer_holds_up_what_is_on_it() {
        for user in [ROOT, 1000] {
            let waiting = Waiting::default();
            for number in 0..100 {
                assert_eq!(waiting.put(user, DISK, number), Ok(()));
            }
            let _kept = (waiting.take(), waiting.take());
            assert!(waiting.lines().next().is_none());
            assert_eq!(waiting.put(user, DISK + 1, 777), Ok(()));
            assert_eq!(waiting.take().0, 777);
        }
    }

    /// The limit doesn't depend on how many disks a user has.
    #[test]
    fn a_user_keeps_so_many_threads_and_no_more() {
        let waiting = Waiting::default();
        for disk in 0..100 {
            assert_eq!(waiting.put(1000, disk, 1000), Ok(()));
        }
        assert_eq!(waiting.put(1001, DISK, 1001), Ok(()));
        let kept: Vec<_> = (0..=AT_WORK_OF_ONE).map(|_| waiting.take()).collect();
        assert_eq!(kept.iter().filter(|(user, _)| *user == 1000).count(), AT_WORK_OF_ONE);
        assert!(waiting.lines().next().is_none());
    }

    /// The limit doesn't depend on how many user numbers ask.
    #[test]
    fn root_waits_for_nobody() {
        let waiting = Waiting::default();
        for user in 100_000..110_000 {
            let _some_have_no_room = waiting.put(user, DISK, user);
        }
        assert!(waiting.put(100_000, DISK, 0).is_err());
        let others: Vec<_> = (0..READERS - ROOTS).map(|_| waiting.take()).collect();
        assert!(waiting.lines().next().is_none());
        for number in 0..MOST_OF_ONE {
            assert_eq!(waiting.put(ROOT, DISK, u32::try_from(number).unwrap_or(0)), Ok(()));
        }
        assert_eq!(waiting.take().0, 0);
        drop(others);
        assert_eq!(waiting.take().0, 1);
    }

    #[test]
    fn a_user_fills_only_a_users_share() {
        let waiting = Waiting::default();
        let puts =
            |user, count: u64| (0..count).filter(|disk| waiting.put(user, disk % 3, ()).is_ok()).count();
        assert_eq!(puts(1000, 5000), MOST_OF_ONE);
        assert_eq!([puts(1, 5000), puts(2, 5000), puts(3, 5000)], [1024, 1024, 0]);
        assert_eq!(puts(ROOT, 5000), MOST_OF_ONE);
        assert_eq!(waiting.take_all().len(), MOST);
        assert_eq!(puts(1000, 1), 1);
    }
}
