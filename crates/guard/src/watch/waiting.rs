// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions that wait: until what is trusted is up to date, or until a large file has been read.
//!
//! Each holds a descriptor, so there are so many at most, and so many of one user. Users take turns: what one of them asks holds up
//! that user alone. Root waits for nobody: there is room and a thread for root that others don't get.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Questions that wait, at most.
const MOST: usize = 4096;
/// Of one user.
const MOST_OF_ONE: usize = 1024;
/// So many of one user's are worked on at the same time.
const AT_WORK: usize = 2;
/// So many threads work on them; one of these for root alone.
pub const READERS: usize = 4;
/// Who waits for nobody.
const ROOT: u32 = 0;

/// What waits, by user.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    lines: Mutex<Lines<T>>,
    came: Condvar,
}

#[derive(Debug)]
struct Lines<T> {
    of: BTreeMap<u32, Line<T>>,
    count: usize,
    /// How many of others than root are worked on.
    at_work: usize,
    /// Whose turn was last.
    last: u32,
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
            lines: Mutex::new(Lines { of: BTreeMap::new(), count: 0, at_work: 0, last: 0 }),
            came: Condvar::new(),
        }
    }
}

/// One that is worked on, until this is dropped.
pub(super) struct AtWork<'w, T> {
    user: u32,
    from: &'w Waiting<T>,
}

impl<T> Drop for AtWork<'_, T> {
    fn drop(&mut self) {
        let mut lines = self.from.lines();
        lines.at_work -= usize::from(self.user != ROOT);
        if let Some(line) = lines.of.get_mut(&self.user) {
            line.at_work -= 1;
            if line.at_work == 0 && line.waiting.is_empty() {
                lines.of.remove(&self.user);
            }
        }
        self.from.came.notify_one();
    }
}

impl<T> Lines<T> {
    /// The next whose user has not too many at work: root's, or of the user after the one whose turn was last.
    fn next(&mut self) -> Option<(u32, T)> {
        let others = self.at_work < READERS - 1;
        let is_next = |(user, line): &(&u32, &Line<T>)| {
            !line.waiting.is_empty() && (**user == ROOT || others && line.at_work < AT_WORK)
        };
        let after = self.last.saturating_add(1);
        let roots = self.of.get_key_value(&ROOT).filter(is_next);
        let next = || self.of.range(after..).find(is_next).or_else(|| self.of.iter().find(is_next));
        let (&user, _) = roots.or_else(next)?;
        let line = self.of.get_mut(&user)?;
        let what = line.waiting.pop_front()?;
        line.at_work += 1;
        if user != ROOT {
            self.last = user;
            self.at_work += 1;
        }
        self.count -= 1;
        Some((user, what))
    }
}

impl<T> Waiting<T> {
    fn lines(&self) -> MutexGuard<'_, Lines<T>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `user` asks this; it is given back where too many wait.
    pub(super) fn put(&self, user: u32, what: T) -> Result<(), T> {
        let mut lines = self.lines();
        let most = if user == ROOT { MOST } else { MOST - MOST_OF_ONE };
        let has_room =
            lines.count < most && lines.of.get(&user).is_none_or(|line| line.waiting.len() < MOST_OF_ONE);
        if !has_room {
            return Err(what);
        }
        lines.of.entry(user).or_default().waiting.push_back(what);
        lines.count += 1;
        self.came.notify_one();
        Ok(())
    }

    /// Waits for one that is to be worked on.
    pub(super) fn take(&self) -> (T, AtWork<'_, T>) {
        let mut lines = self.lines();
        loop {
            if let Some((user, what)) = lines.next() {
                return (what, AtWork { user, from: self });
            }
            lines = self.came.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until there are some, and takes all, with their users.
    pub(super) fn take_all(&self) -> Vec<(u32, T)> {
        let mut lines = self
            .came
            .wait_while(self.lines(), |lines| lines.count == 0)
            .unwrap_or_else(PoisonError::into_inner);
        lines.count = 0;
        let lines = std::mem::take(&mut lines.of);
        lines
            .into_iter()
            .flat_map(|(user, line)| line.waiting.into_iter().map(move |what| (user, what)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_turns() {
        let waiting = Waiting::default();
        for number in 0..3 {
            assert_eq!(waiting.put(1000, number), Ok(()));
        }
        for user in [1001, 1002] {
            assert_eq!(waiting.put(user, user), Ok(()));
        }
        let (one, two, three) = (waiting.take(), waiting.take(), waiting.take());
        assert_eq!([one.0, two.0, three.0], [0, 1001, 1002]);
        // The last thread is root's.
        assert!(waiting.lines().next().is_none());
        drop((two, three));
        let four = waiting.take();
        assert_eq!(four.0, 1);
        // A third of the same user's has to wait.
        assert!(waiting.lines().next().is_none());
        drop(one);
        assert_eq!(waiting.take().0, 2);
        drop(four);
        assert!(waiting.lines().of.is_empty() && waiting.lines().count == 0 && waiting.lines().at_work == 0);
    }

    /// However many numbers a user has.
    #[test]
    fn root_waits_for_nobody() {
        let waiting = Waiting::default();
        for user in 100_000..110_000 {
            let _some_have_no_room = waiting.put(user, user);
        }
        assert!(waiting.put(100_000, 0).is_err());
        let others: Vec<_> = (0..READERS - 1).map(|_| waiting.take()).collect();
        assert!(waiting.lines().next().is_none());
        for number in 0..MOST_OF_ONE {
            assert_eq!(waiting.put(ROOT, u32::try_from(number).unwrap_or(0)), Ok(()));
        }
        assert_eq!(waiting.take().0, 0);
        drop(others);
        assert_eq!(waiting.take().0, 1);
    }

    #[test]
    fn a_user_fills_only_a_users_share() {
        let waiting = Waiting::default();
        let puts = |user, count: usize| (0..count).filter(|_| waiting.put(user, ()).is_ok()).count();
        assert_eq!(puts(1000, 5000), MOST_OF_ONE);
        assert_eq!([puts(1, 5000), puts(2, 5000), puts(3, 5000)], [1024, 1024, 0]);
        assert_eq!(puts(ROOT, 5000), MOST_OF_ONE);
        assert_eq!(waiting.take_all().len(), MOST);
        assert_eq!(puts(1000, 1), 1);
    }
}
