// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user's store has, and what comes into it.

use super::printer::Printer;
use super::{Options, Trouble};
use crate::output;
use palisade_event::Kind;
use palisade_events::{Filter, Store, StoreError};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What has been shown of the store so far.
pub(super) struct Recorded<'a> {
    options: &'a Options,
    path: PathBuf,
    filter: Filter,
    begun: SystemTime,
    store: Option<Store>,
    /// In the store; none before the first look.
    position: Option<i64>,
    said_waiting: bool,
    said_damaged: bool,
}

impl<'a> Recorded<'a> {
    pub(super) fn new(options: &'a Options, path: &Path, filter: Filter, begun: SystemTime) -> Self {
        Self {
            options,
            path: path.to_owned(),
            filter,
            begun,
            store: None,
            position: None,
            said_waiting: false,
            said_damaged: false,
        }
    }

    /// Which events are wanted.
    pub(super) const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether what is wanted may be in the store.
    fn is_asked(&self) -> bool {
        [Kind::Sandbox, Kind::Network].into_iter().any(|kind| self.filter.wants_kind(kind))
    }

    /// Shows what is new.
    pub(super) fn look(&mut self, printer: &mut Printer) -> Result<(), Trouble> {
        if !self.is_asked() {
            return Ok(());
        }
        match self.read(printer) {
            Ok(()) => self.said_damaged = false,
            // The next refusal moves it aside.
            Err(Trouble::Store(error @ StoreError::Damaged { .. })) if !self.options.no_follow => {
                self.store = None;
                if !std::mem::replace(&mut self.said_damaged, true) {
                    output::note(&format_args!("{error}; waiting for another"));
                }
            }
            Err(Trouble::Store(StoreError::Busy { .. })) if !self.options.no_follow => {}
            // It went away or was replaced while it was read.
            Err(Trouble::Store(StoreError::Sqlite { .. }))
                if self.store.as_ref().is_some_and(|store| !store.is_current()) =>
            {
                self.store = None;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Says once that there is nothing yet.
    pub(super) fn say_waiting(&mut self, printer: &Printer) {
        if printer.printed() > 0 || std::mem::replace(&mut self.said_waiting, true) {
            return;
        }
        let recorded = self.store.as_ref().is_some_and(|store| store.end().is_ok_and(|end| end > 0));
        if !self.is_asked() {
            output::note(&"waiting for what palisaded tells");
        } else if recorded {
            output::note(&"waiting for refusals; for those before: palisade watch --all");
        } else {
            output::note(&format_args!("nothing was refused yet; waiting for {:?} to be written", self.path));
        }
    }

    fn read(&mut self, printer: &mut Printer) -> Result<(), Trouble> {
        if self.store.as_ref().is_some_and(|store| !store.is_current()) {
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
            if page.strange > 0 {
                output::note(&format_args!("{} events of a newer palisade aren't shown", page.strange));
            }
            self.position = Some(page.position);
            printer.print(page.entries)?;
            if !page.more || printer.is_full() {
                return Ok(());
            }
        }
    }

    /// Where to begin in a store.
    fn start(&mut self, store: &Store) -> Result<i64, StoreError> {
        if self.position.is_some() {
            // It has come to be since, or has taken the place of another: what is in it is new, unless
            // somebody put an old one there.
            if !self.options.all && self.filter.since.is_none() {
                self.filter.since = Some(self.begun);
            }
            return Ok(0);
        }
        match self.options.limit.and_then(|limit| usize::try_from(limit).ok()) {
            _ if !self.options.backlog() => store.end(),
            Some(limit) => store.before_newest(limit, &self.filter),
            None => Ok(0),
        }
    }
}
