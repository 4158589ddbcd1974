// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds entries to a store and deletes them.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, Transaction, params};

use super::{Store, StoreError};
use crate::history::Entry;
use crate::history::import::Taken;

/// One change of [`Store::change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::history) enum Change {
    /// A command started. `marks` records its number in the store under this mark.
    Started(u64, Box<Entry>),
    /// The command of this mark ended: its code, its duration, its context.
    Finished(u64, Option<i32>, Option<i64>, String),
    /// A line is to be forgotten.
    Forget(String),
}

/// A hash that identifies a line.
pub(in crate::history) fn hash(line: &str) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(line.as_bytes()).to_be_bytes()
}

impl Store {
    /// Adds an entry and returns its number.
    ///
    /// # Errors
    /// When the entry can't be written.
    pub fn add(&mut self, entry: &Entry) -> Result<i64, StoreError> {
        self.transact("write to", |transaction| insert(transaction, entry))
    }

    /// Makes all changes or none. `marks` has the numbers of commands that started; it is updated if all changes
    /// succeed.
    pub(in crate::history) fn change<'a>(
        &mut self,
        changes: impl Iterator<Item = &'a Change> + Clone,
        marks: &mut HashMap<u64, i64>,
    ) -> Result<(), StoreError> {
        let changed = self.transact("write to", |transaction| {
            let mut marks = marks.clone();
            for change in changes.clone() {
                match change {
                    Change::Started(mark, entry) => {
                        marks.insert(*mark, insert(transaction, entry)?);
                    }
                    Change::Finished(mark, exit, duration, context) => {
                        // A missing mark means that the line was forgotten, or that its start was lost.
                        if let Some(id) = marks.remove(mark) {
                            let context = word(transaction, context)?;
                            transaction
                                .prepare_cached(
                                    "UPDATE entry SET exit = ?2, duration = ?3,
                                     context = coalesce(?4, context) WHERE id = ?1",
                                )?
                                .execute(params![id, exit, duration, context])?;
                        }
                    }
                    Change::Forget(line) => {
                        forget(transaction, line)?;
                    }
                }
            }
            Ok(marks)
        })?;
        *marks = changed;
        if changes.clone().any(|change| matches!(change, Change::Forget(_))) {
            self.empty_log();
        }
        Ok(())
    }

    /// Imports the entries of a file of `source` (`bash`, `zsh`…) that aren't in the store yet, the oldest first.
    /// Returns how many there were. An entry with a time is in the store if one of the same source has its line and its
    /// time. An entry without a time is in the store if the source has as many of this line. Lines that the user had
    /// forgotten are left out.
    ///
    /// # Errors
    /// When the entries can't be written. Earlier entries stay intact.
    pub fn import(&mut self, source: &str, entries: &[Taken]) -> Result<usize, StoreError> {
        self.transact("write to", |transaction| {
            let origin = word(transaction, source)?;
            let mut seen: HashMap<&str, u64> = HashMap::new();
            let mut new = 0;
            for Taken { entry, timed } in entries.iter().filter(|taken| taken.entry.is_usable()) {
                let nth = if *timed {
                    u64::from_ne_bytes(entry.started.to_ne_bytes())
                } else {
                    let count = seen.entry(&entry.line).or_default();
                    *count += 1;
                    *count
                };
                let mut told_by = xxhash_rust::xxh3::Xxh3::new();
                for part in
                    [source.as_bytes(), &[u8::from(*timed)], &nth.to_be_bytes(), entry.line.as_bytes()]
                {
                    told_by.update(part);
                }
                let forgotten: bool = transaction
                    .prepare_cached("SELECT EXISTS (SELECT 1 FROM forgotten WHERE line = ?1)")?
                    .query_row([hash(&entry.line)], |row| row.get(0))?;
                if !forgotten {
                    let imported = told_by.digest128().to_be_bytes();
                    new += put(transaction, entry, origin, Some(imported))?;
                }
            }
            Ok(new)
        })
    }

    /// Deletes the entries with these numbers and returns how many there were. Lines of which no entry remains aren't
    /// imported again.
    ///
    /// # Errors
    /// When the change can't be written. Earlier entries stay intact.
    pub fn delete(&mut self, ids: &[i64]) -> Result<usize, StoreError> {
        let gone = self.transact("delete from", |transaction| {
            let mut gone = 0;
            for id in ids {
                let line: Option<String> = transaction
                    .prepare_cached("DELETE FROM entry WHERE id = ?1 RETURNING line")?
                    .query_row([id], |row| row.get(0))
                    .optional()?;
                let Some(line) = line else { continue };
                gone += 1;
                transaction
                    .prepare_cached(
                        "INSERT OR IGNORE INTO forgotten (line)
                         SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM entry WHERE line = ?2)",
                    )?
                    .execute(params![hash(&line), line])?;
            }
            Ok(gone)
        })?;
        self.empty_log();
        Ok(gone)
    }

    /// Deletes all entries of a line, and returns how many there were. The line isn't imported any more.
    ///
    /// # Errors
    /// When the change can't be written. Earlier entries stay intact.
    pub fn forget(&mut self, line: &str) -> Result<usize, StoreError> {
        let gone = self.transact("delete from", |transaction| forget(transaction, line))?;
        self.empty_log();
        Ok(gone)
    }

    /// Removes deleted text from the write-ahead log. While another process reads, the text stays there a little
    /// longer.
    fn empty_log(&self) {
        let _done = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_row| Ok(()));
    }

    /// Changes the file that is at the path now. It may be another file than when the store was opened.
    fn transact<T>(
        &mut self,
        action: &'static str,
        change: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if self.place.identity()? != Some(self.identity) {
            *self = Self::open(&self.place.file)?;
        }
        match self.attempt(action, &change) {
            Err(StoreError::Damaged { .. }) => {
                let aside = self.place.set_aside(self.identity)?;
                let fresh = Self::open(&self.place.file)?;
                *self = fresh;
                self.aside = aside.or(self.aside.take());
                self.attempt(action, &change)
            }
            changed => changed,
        }
    }

    fn attempt<T>(
        &mut self,
        action: &'static str,
        change: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        palisade_database::change(&mut self.connection, &self.place.file, action, change)
    }
}

fn insert(transaction: &Transaction<'_>, entry: &Entry) -> rusqlite::Result<i64> {
    // A line that is run again is remembered again.
    transaction.prepare_cached("DELETE FROM forgotten WHERE line = ?1")?.execute([hash(&entry.line)])?;
    put(transaction, entry, None, None)?;
    Ok(transaction.last_insert_rowid())
}

fn put(
    transaction: &Transaction<'_>,
    entry: &Entry,
    source: Option<i64>,
    imported: Option<[u8; 16]>,
) -> rusqlite::Result<usize> {
    let Entry { line, directory, host, user, session, context, started, duration, exit } = entry;
    let [directory, host, user, session, context] =
        [directory, host, user, session, context].map(|value| word(transaction, value));
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO entry
             (line, directory, host, user, session, context, started, duration, exit, source, imported)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            line, directory?, host?, user?, session?, context?, started, duration, exit, source, imported
        ])
}

/// The number of a word; `None` for an empty word.
fn word(transaction: &Transaction<'_>, value: &str) -> rusqlite::Result<Option<i64>> {
    if value.is_empty() {
        return Ok(None);
    }
    let mut found = transaction.prepare_cached("SELECT id FROM word WHERE value = ?1")?;
    if let Some(id) = found.query_row([value], |row| row.get(0)).optional()? {
        return Ok(Some(id));
    }
    transaction.prepare_cached("INSERT INTO word (value) VALUES (?1)")?.execute([value])?;
    Ok(Some(transaction.last_insert_rowid()))
}

fn forget(transaction: &Transaction<'_>, line: &str) -> rusqlite::Result<usize> {
    let gone = transaction.prepare_cached("DELETE FROM entry WHERE line = ?1")?.execute([line])?;
    transaction
        .prepare_cached("INSERT OR IGNORE INTO forgotten (line) VALUES (?1)")?
        .execute([hash(line)])?;
    Ok(gone)
}
