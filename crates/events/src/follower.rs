// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a store has, and what comes into it.

use crate::store::{Filter, Page, Store, StoreError};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// With what to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Everything that is wanted.
    All,
    /// The newest of it.
    Newest(usize),
    /// What comes from now on.
    Now,
}

/// What is known of a store's state after a look.
#[derive(Debug)]
pub enum Look {
    /// All was told.
    Told,
    /// It can't be read now; a later look may see more.
    Later,
    /// It is damaged, which is told once. The next refusal moves it aside.
    Damaged(StoreError),
}

/// Follows a store that may come, go and be replaced.
#[derive(Debug)]
pub struct StoreFollower {
    path: PathBuf,
    filter: Filter,
    beginning: Beginning,
    /// Events of before are wanted also if they come to be here later.
    is_old_wanted: bool,
    /// Nothing is waited for: what is wrong is an error at once.
    ends: bool,
    begun: SystemTime,
    store: Option<Store>,
    /// In the store; none before the first look.
    position: Option<i64>,
    told_damaged: bool,
}

/// Why reading ended.
enum Stop<E> {
    Store(StoreError),
    Taker(E),
}

impl<E> From<StoreError> for Stop<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl StoreFollower {
    /// Follows the store at `path`, since `begun`. `is_old_wanted`: also what happened before but comes to be there later.
    /// `ends`: there is one look only.
    #[must_use]
    pub fn new(
        path: &Path,
        filter: Filter,
        beginning: Beginning,
        (is_old_wanted, ends): (bool, bool),
        begun: SystemTime,
    ) -> Self {
        Self {
            path: path.to_owned(),
            filter,
            beginning,
            is_old_wanted,
            ends,
            begun,
            store: None,
            position: None,
            told_damaged: false,
        }
    }

    /// Which events are wanted.
    #[must_use]
    pub const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether the store has anything, wanted or not.
    #[must_use]
    pub fn has_something(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.end().is_ok_and(|end| end > 0))
    }

    /// Hands on what is new; `take` says whether there is to be more.
    ///
    /// # Errors
    /// The store can't be read, or what `take` says.
    pub fn look<E: From<StoreError>>(
        &mut self,
        take: &mut dyn FnMut(Page) -> Result<bool, E>,
    ) -> Result<Look, E> {
        match self.read(take) {
            Ok(()) => {
                self.told_damaged = false;
                Ok(Look::Told)
            }
            Err(Stop::Store(error @ StoreError::Damaged { .. })) if !self.ends => {
                self.store = None;
                let told = std::mem::replace(&mut self.told_damaged, true);
                Ok(if told { Look::Later } else { Look::Damaged(error) })
            }
            Err(Stop::Store(StoreError::Busy { .. })) if !self.ends => Ok(Look::Later),
            // It went away or was replaced while it was read.
            Err(Stop::Store(StoreError::Sqlite { .. })) if self.is_gone() => {
                self.store = None;
                Ok(Look::Later)
            }
            Err(Stop::Store(error)) => Err(error.into()),
            Err(Stop::Taker(error)) => Err(error),
        }
    }

    fn is_gone(&self) -> bool {
        self.store.as_ref().is_some_and(|store| !store.is_current())
    }

    fn read<E>(&mut self, take: &mut dyn FnMut(Page) -> Result<bool, E>) -> Result<(), Stop<E>> {
        if self.is_gone() {
            self.store = None;
        }
        if self.store.is_none() {
            let Some(store) = Store::find(&self.path)? else {
                // What comes to be from now on is new.
                self.position.get_or_insert(0);
                return Ok(());
            };
            self.position = Some(self.start(&store)?);
            self.store = Some(store);
        }
        loop {
            let (Some(store), Some(position)) = (&self.store, self.position) else { return Ok(()) };
            let page = store.after(position, &self.filter)?;
            self.position = Some(page.position);
            let more = page.more;
            if !take(page).map_err(Stop::Taker)? || !more {
                return Ok(());
            }
        }
    }

    /// Where to begin in a store.
    fn start(&mut self, store: &Store) -> Result<i64, StoreError> {
        if self.position.is_some() {
            // It has come to be since, or has taken the place of another: what is in it is new, unless
            // somebody put an old one there.
            if !self.is_old_wanted && self.filter.since.is_none() {
                self.filter.since = Some(self.begun);
            }
            return Ok(0);
        }
        match self.beginning {
            Beginning::Now => store.end(),
            Beginning::Newest(count) => store.before_newest(count, &self.filter),
            Beginning::All => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{launch, refusal};

    /// A store that comes to be, gets more, and is replaced.
    #[test]
    fn what_comes_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("palisade/events.sqlite");
        let mut follower =
            StoreFollower::new(&path, Filter::default(), Beginning::Now, (false, false), SystemTime::now());
        let heard = |follower: &mut StoreFollower| {
            let mut objects = Vec::new();
            let look = follower.look(&mut |page| {
                objects.extend(page.entries.iter().map(|entry| entry.event.object.to_string()));
                Ok::<_, StoreError>(true)
            });
            assert!(matches!(look, Ok(Look::Told)), "{look:?}");
            objects
        };
        assert_eq!(heard(&mut follower), Vec::<String>::new());
        assert!(!follower.has_something());
        let write = |object: &str| {
            let mut event = refusal(object);
            event.launch = Some(launch(&["x"]));
            Store::open(&path).unwrap().append(&[event]).unwrap();
        };
        write("/one");
        assert_eq!(heard(&mut follower), ["/one"]);
        assert_eq!(heard(&mut follower), Vec::<String>::new());
        assert!(follower.has_something());
        std::fs::remove_file(&path).unwrap();
        write("/two");
        assert_eq!(heard(&mut follower), ["/two"]);
    }
}
