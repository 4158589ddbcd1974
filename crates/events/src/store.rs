// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The store of events, in SQLite. Every launch of the user writes to it, and every `palisade watch` reads it.
//!
//! - [`palisade_database`]: the directory and the files, and whether they are trusted
//! - `layout`: the tables
//! - [`Filter`]: which events are wanted
//! - [`Retention`]: what is kept, and for how long
//!
//! A write is one transaction into a log that isn't synced (`synchronous = NORMAL`). A killed process loses nothing
//! that was appended. A power cut loses at most the last seconds.

mod filter;
mod layout;
mod retention;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use palisade_database::{Identity, Place};
use palisade_event::{Event, Launch};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use serde::Serialize;

use filter::WANTED;

pub use filter::Filter;
pub use palisade_database::StoreError;
pub use retention::Retention;

/// Equal events within this time are one row with a count.
pub(crate) const BURST: Duration = Duration::from_secs(1);
/// The most rows that one call of [`Store::after`] returns.
const PAGE: usize = 1000;
/// The store is pruned again after this many appended events.
const PRUNE_EVERY: usize = 1000;
/// How many rows may still get a higher count. Beyond that they are forgotten: their repetitions become new rows.
const MOST_RECENT: usize = 8192;

/// An open store.
#[derive(Debug)]
pub struct Store {
    /// How long it waits for other writers.
    patience: Duration,
    place: Place,
    identity: Identity,
    connection: Connection,
    retention: Retention,
    /// Events appended since the last pruning. `None` before the first.
    unpruned: Option<usize>,
    /// The launches whose events were appended.
    launches: BTreeSet<Arc<str>>,
    recent: HashMap<u64, Recent>,
    hasher: RandomState,
    aside: Option<PathBuf>,
}

/// A row that may still get a higher count.
#[derive(Debug, Clone, Copy)]
struct Recent {
    id: i64,
    time: SystemTime,
}

/// A row of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The event's number, which never changes. The same number with a higher count is the same event.
    pub id: i64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// Some rows, in the order in which they were appended or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The rows.
    pub entries: Vec<Entry>,
    /// The position for the next call.
    pub position: i64,
    /// Whether more rows may be available now.
    pub more: bool,
    /// How many rows a newer program wrote in a form that this program can't read.
    pub strange: usize,
}

impl Store {
    /// Opens the store at `path` for writing. If there is none, makes it with its directory. A damaged store is moved
    /// aside ([`Store::take_aside`]).
    ///
    /// # Errors
    /// When it can't be made or opened, isn't trusted, or was written by a newer program.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_within(path, layout::PATIENCE)
    }

    /// Like [`Store::open`], but each wait for other writers lasts at most `patience`.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_within(path: &Path, patience: Duration) -> Result<Self, StoreError> {
        let place = Place::make(path)?;
        let (store, aside) = place.open(layout::make, |seen| {
            Self::connect(&place, OpenFlags::SQLITE_OPEN_READ_WRITE, patience, seen)
        })?;
        Ok(Self { aside, ..store })
    }

    /// Opens the store at `path` for reading. `None` if there is none.
    ///
    /// # Errors
    /// When it can't be opened, isn't trusted, is damaged, or was written by a newer program.
    pub fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(place) = Place::find(path)? else { return Ok(None) };
        place.read(|seen| Self::connect(&place, OpenFlags::SQLITE_OPEN_READ_ONLY, layout::PATIENCE, seen))
    }

    /// Opens the existing file. Also returns the file's identity in `seen`, even if the file is no store.
    fn connect(
        place: &Place,
        access: OpenFlags,
        patience: Duration,
        seen: &mut Option<Identity>,
    ) -> Result<Option<Self>, StoreError> {
        let _lock = place.lock_shared()?;
        *seen = place.identity()?;
        let Some(identity) = *seen else { return Ok(None) };
        let connection = layout::connect(&place.file, access, patience)?;
        Ok(Some(Self {
            place: place.clone(),
            patience,
            identity,
            connection,
            retention: Retention::default(),
            unpruned: None,
            launches: BTreeSet::new(),
            recent: HashMap::new(),
            hasher: RandomState::new(),
            aside: None,
        }))
    }

    /// The path to which a damaged store was moved. Returned once.
    pub fn take_aside(&mut self) -> Option<PathBuf> {
        self.aside.take()
    }

    /// Whether the path still leads to this file.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.place.identity().is_ok_and(|found| found == Some(self.identity))
    }

    /// Appends all events or none. If an event equals one of the same launch from less than a second before, that
    /// row's count grows instead.
    ///
    /// # Errors
    /// When they can't be written. Earlier events are unchanged.
    pub fn append(&mut self, events: &[Event]) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        if !self.is_current() {
            self.reopen()?;
        }
        match self.write(events) {
            Err(StoreError::Damaged { .. }) => {
                let aside = self.place.set_aside(self.identity)?;
                self.reopen()?;
                self.aside = aside.or(self.aside.take());
                self.write(events)?;
            }
            written => written?,
        }
        self.launches
            .extend(events.iter().filter_map(|event| Some(Arc::clone(&event.launch.as_ref()?.sandbox))));
        let unpruned = self.unpruned.map(|unpruned| unpruned + events.len());
        self.unpruned = unpruned;
        if unpruned.is_none_or(|unpruned| unpruned >= PRUNE_EVERY) {
            self.unpruned = Some(0);
            // A failure doesn't matter: the events are stored, and the next pruning tries again.
            let retention = self.retention;
            let _later = self.prune(&retention);
        }
        Ok(())
    }

    /// Opens the file that is at the path now.
    fn reopen(&mut self) -> Result<(), StoreError> {
        let fresh = Self::open_within(&self.place.file, self.patience)?;
        let launches = std::mem::take(&mut self.launches);
        let aside = fresh.aside.clone().or(self.aside.take());
        *self = Self { retention: self.retention, launches, aside, ..fresh };
        Ok(())
    }

    fn write(&mut self, events: &[Event]) -> Result<(), StoreError> {
        let mut recent = std::mem::take(&mut self.recent);
        let hasher = &self.hasher;
        let likeness = |event: &Event| hasher.hash_one((&event.launch, event.likeness()));
        let written = transaction(&mut self.connection)
            .and_then(|transaction| {
                insert(&transaction, events, &mut recent, likeness)?;
                transaction.commit()
            })
            .map_err(|source| StoreError::of("write to", &self.place.file, source));
        // After a failure, the rows that it names may not exist.
        if written.is_ok() {
            forget(&mut recent);
            self.recent = recent;
        }
        written
    }

    /// Events that were appended or changed after `position`, oldest first, at most a thousand. Position 0 is before
    /// the first.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn after(&self, position: i64, filter: &Filter) -> Result<Page, StoreError> {
        self.page(position, filter).map_err(|source| self.unreadable(source))
    }

    fn page(&self, position: i64, filter: &Filter) -> rusqlite::Result<Page> {
        let mut page = Page { entries: Vec::new(), position, more: false, strange: 0 };
        let mut statement = self.connection.prepare(&format!(
            "SELECT e.position, e.id, e.count, e.event, e.hint, l.sandbox, l.command
             FROM event e JOIN launch l ON l.id = e.launch
             WHERE e.position > ?1 AND {WANTED} ORDER BY e.position LIMIT ?2"
        ))?;
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let [since, sandbox, pid, verdict, kinds] = filter.parameters();
        let mut rows = statement.query(params![position, limit, since, sandbox, pid, verdict, kinds])?;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            page.position = row.get(0)?;
            found += 1;
            match entry(row)? {
                Some(entry) => page.entries.push(entry),
                None => page.strange += 1,
            }
        }
        page.more = found == PAGE;
        Ok(page)
    }

    /// The present end: no event has a later position yet.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn end(&self) -> Result<i64, StoreError> {
        self.connection
            .query_row("SELECT position FROM counter", (), |row| row.get(0))
            .map_err(|source| self.unreadable(source))
    }

    /// The position before the newest `count` wanted events.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn before_newest(&self, count: usize, filter: &Filter) -> Result<i64, StoreError> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let [since, sandbox, pid, verdict, kinds] = filter.parameters();
        let query = format!(
            "SELECT e.position FROM event e JOIN launch l ON l.id = e.launch
             WHERE e.position > ?1 AND {WANTED} ORDER BY e.position DESC LIMIT 1 OFFSET ?2"
        );
        let found = self
            .connection
            .query_row(&query, params![0, count, since, sandbox, pid, verdict, kinds], |row| row.get(0))
            .optional()
            .map_err(|source| self.unreadable(source))?;
        Ok(found.unwrap_or(0))
    }

    fn unreadable(&self, source: rusqlite::Error) -> StoreError {
        StoreError::of("read", &self.place.file, source)
    }
}

/// A transaction that takes the write lock at its start: one that takes it later can fail at once.
fn transaction(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn insert(
    transaction: &Transaction<'_>,
    events: &[Event],
    recent: &mut HashMap<u64, Recent>,
    likeness: impl Fn(&Event) -> u64,
) -> rusqlite::Result<()> {
    let mut again =
        transaction.prepare("UPDATE event SET count = count + ?2, position = ?3 WHERE id = ?1")?;
    let mut launch = transaction.prepare(
        "INSERT INTO launch (sandbox, command) VALUES (?1, ?2)
         ON CONFLICT (sandbox) DO UPDATE SET command = excluded.command RETURNING id",
    )?;
    let mut row = transaction.prepare(
        "INSERT INTO event (id, position, launch, time, count, event, hint)
         VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut position: i64 = transaction.query_row(
        "UPDATE counter SET position = position + ?1 RETURNING position - ?1",
        [i64::try_from(events.len()).unwrap_or(i64::MAX)],
        |row| row.get(0),
    )?;
    let mut of: Option<(Option<&Launch>, i64)> = None;
    for event in events {
        position += 1;
        let count = i64::try_from(event.count).unwrap_or(i64::MAX);
        let time = event.time;
        let like = likeness(event);
        if let Some(before) = recent.get(&like)
            && apart(time, before.time) < BURST
            && again.execute(params![before.id, count, position])? == 1
        {
            continue;
        }
        let own = event.launch.as_ref();
        let launch = match &of {
            Some((launch, id)) if *launch == own => *id,
            _ => {
                let (sandbox, command) = own.map_or(("", ""), |own| (&*own.sandbox, &*own.command));
                launch.query_row(params![sandbox, command], |row| row.get(0))?
            }
        };
        of = Some((own, launch));
        // Values with a column of their own aren't stored twice.
        let bare = Event { launch: None, hint: None, count: 1, ..event.clone() };
        let bare = serde_json::to_string(&bare)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        row.execute(params![position, launch, nanoseconds(time), count, bare, event.hint])?;
        recent.insert(like, Recent { id: position, time });
    }
    Ok(())
}

/// Forgets rows whose count can't grow any more.
fn forget(recent: &mut HashMap<u64, Recent>) {
    if recent.len() > MOST_RECENT {
        let newest = recent.values().map(|row| row.time).max().unwrap_or(UNIX_EPOCH);
        recent.retain(|_, row| apart(newest, row.time) < BURST);
    }
    if recent.len() > MOST_RECENT {
        recent.clear();
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Option<Entry>> {
    let text = |column| -> rusqlite::Result<String> { row.get(column) };
    let Ok(event) = serde_json::from_str::<Event>(&text(3)?) else { return Ok(None) };
    let event = Event {
        launch: Some(Launch { sandbox: text(5)?.into(), command: text(6)?.into() })
            .filter(|launch| !launch.sandbox.is_empty()),
        hint: row.get(4)?,
        count: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(1),
        ..event
    };
    Ok(Some(Entry { id: row.get(1)?, event }))
}

fn apart(one: SystemTime, other: SystemTime) -> Duration {
    one.duration_since(other).unwrap_or_else(|error| error.duration())
}

fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
