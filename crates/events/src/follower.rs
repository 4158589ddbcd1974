// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a store's events, and follows new ones.

use crate::store::{Filter, Page, Store, StoreError};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// With all wanted events.
    All,
    /// With this many of the newest wanted events.
    Newest(usize),
    /// With events from now on.
    Now,
}

/// The result of reading a store once.
#[derive(Debug)]
pub enum Look {
    /// All events were passed on.
    Told,
    /// The store can't be read now. A later attempt may succeed.
    Later,
    /// The store is damaged. This is reported once. The next writer moves the store aside.
    Damaged(StoreError),
}

/// Follows a store that may be created, removed and replaced.
#[derive(Debug)]
pub struct StoreFollower {
    path: PathBuf,
    filter: Filter,
    beginning: Beginning,
    /// Older events are also wanted if they appear in the store later.
    is_old_wanted: bool,
    /// The store is read only once, and every problem is an error at once.
    ends: bool,
    begun: SystemTime,
    store: Option<Store>,
    /// The position in the store. `None` before the first look.
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
    /// Follows the store at `path` since `begun`. `is_old_wanted`: also pass on events from before `begun` that
    /// appear in the store later. `ends`: the store is read only once.
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

    /// The filter for wanted events.
    #[must_use]
    pub const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether the store contains any event, wanted or not.
    #[must_use]
    pub fn has_something(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.end().is_ok_and(|end| end > 0))
    }

    /// Passes new events to `take`, which returns whether it wants more.
    ///
    /// # Errors
    /// When the store can't be read, and errors of `take`.
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
            // The store was removed or replaced while it was read.
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
                // If the store is created from now on, all its events are new.
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

    /// The position from which to read a store.
    fn start(&mut self, store: &Store) -> Result<i64, StoreError> {
        if self.position.is_some() {
            // The store was created or replaced since the last look. Its events are new, unless an old store was put
            // there.
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

    /// A store that is created, grows, and is replaced.
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
