// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The store: the user's own history, in a database that only the user can read.
//!
//! - [`Row`]: an entry with its number; [`Filter`]: which entries
//! - `change`: adds and deletes entries
//! - `layout`: the tables
//!
//! Each change is one transaction: a process that is killed loses only what it didn't commit. Committed changes may be
//! lost when the power fails, because the shell doesn't wait for the disk at each command. The file stays consistent.

mod change;
mod layout;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use palisade_database::{Identity, Place};
use rusqlite::{Connection, OpenFlags, params};

use super::Entry;

pub(super) use change::{Change, hash as line_hash};

pub use palisade_database::StoreError;

/// An entry with its number. A number is never used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub id: i64,
    /// The command.
    pub entry: Entry,
    /// The name of the program from whose file it was imported; `None` if it was run under `palisade shell`.
    pub source: Option<String>,
}

/// A selection of entries. An entry must match all fields that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The line contains this text.
    pub contains: Option<String>,
    /// The line begins with this text.
    pub begins: Option<String>,
    /// It was run in this directory.
    pub directory: Option<String>,
    /// It was run in this session.
    pub session: Option<String>,
    /// It was started at this time or later, in nanoseconds since 1970, UTC.
    pub since: Option<i64>,
    /// It ended with a code other than 0 (`true`), or with 0 (`false`).
    pub failed: Option<bool>,
    /// Its context has a step that begins with these words (`ssh`, `ssh prod`), or is [`LOCAL`](super::LOCAL).
    pub context: Option<String>,
    /// At most this many entries, the newest ones.
    pub most: Option<usize>,
}

/// Statistics about a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The number of entries.
    pub entries: i64,
    /// The number of different lines.
    pub lines: i64,
    /// The number of entries that ended with another code than 0.
    pub failed: i64,
    /// The number of imported entries.
    pub imported: i64,
    /// When the first and the last one started, in nanoseconds since 1970, UTC.
    pub span: Option<(i64, i64)>,
    /// The lines that were run most often, with their numbers of runs.
    pub frequent: Vec<(String, i64)>,
    /// The directories in which most commands were run, with their numbers of runs.
    pub directories: Vec<(String, i64)>,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    place: Place,
    identity: Identity,
    connection: Connection,
    /// The SQL for an entry's context: the column, or `NULL` for a store of version 1 that is opened for reading.
    context: &'static str,
    aside: Option<PathBuf>,
}

/// The columns that are read of an entry, in the order of [`row`]. `{context}` stands for [`Store::context`].
const COLUMNS: &str = "e.id, e.line, coalesce(d.value, ''), coalesce(h.value, ''), coalesce(u.value, ''),
    coalesce(s.value, ''), e.started, e.duration, e.exit, o.value, coalesce(c.value, '')";
const FROM: &str = "FROM entry e LEFT JOIN word d ON d.id = e.directory LEFT JOIN word h ON h.id = e.host
    LEFT JOIN word u ON u.id = e.user LEFT JOIN word s ON s.id = e.session LEFT JOIN word o ON o.id = e.source
    LEFT JOIN word c ON c.id = {context}";
/// The condition for [`Filter`].
const WHERE: &str = "WHERE (?1 IS NULL OR instr(e.line, ?1) > 0)
    AND (?2 IS NULL OR substr(e.line, 1, length(?2)) = ?2)
    AND (?3 IS NULL OR e.directory = (SELECT id FROM word WHERE value = ?3))
    AND (?4 IS NULL OR e.session = (SELECT id FROM word WHERE value = ?4))
    AND (?5 IS NULL OR e.started >= ?5)
    AND (?6 IS NULL OR e.exit IS NOT NULL AND (e.exit <> 0) = ?6)
    AND (?8 IS NULL OR {context} IN
        (SELECT id FROM word WHERE instr(' > ' || value || ' ', ' > ' || ?8 || ' ') > 0))";

impl Store {
    /// Opens the store at `file` for writing. If there is none, creates it (mode 0600) and its directories (0700). A
    /// damaged store is moved aside ([`Store::take_aside`]). A store of an older version is upgraded.
    ///
    /// # Errors
    /// When the store can't be created, opened or trusted, is locked, or belongs to a newer program.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let place = Place::make(file)?;
        let (store, aside) = place
            .open(layout::make, |seen| Self::connect(&place, OpenFlags::SQLITE_OPEN_READ_WRITE, seen))?;
        Ok(Self { aside, ..store })
    }

    /// Opens the store at `file` for reading; `None` if there is none. Creates no store.
    ///
    /// # Errors
    /// When the store can't be opened or trusted, is locked, is damaged, or belongs to a newer program.
    pub fn read(file: &Path) -> Result<Option<Self>, StoreError> {
        let Some(place) = Place::find(file)? else { return Ok(None) };
        place.read(|seen| Self::connect(&place, OpenFlags::SQLITE_OPEN_READ_ONLY, seen))
    }

    /// Opens the existing file. Sets `seen` to the file's identity, also if the file is no store.
    fn connect(
        place: &Place,
        access: OpenFlags,
        seen: &mut Option<Identity>,
    ) -> Result<Option<Self>, StoreError> {
        let _lock = place.lock_shared()?;
        *seen = place.identity()?;
        let Some(identity) = *seen else { return Ok(None) };
        let (connection, context) = layout::connect(&place.file, access)?;
        Ok(Some(Self { place: place.clone(), identity, connection, context, aside: None }))
    }

    /// Where a damaged store was moved to. Reported once.
    pub fn take_aside(&mut self) -> Option<PathBuf> {
        self.aside.take()
    }

    /// The store's file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.place.file
    }

    /// The entries that match, the oldest first.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn rows(&self, filter: &Filter) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.each(filter, |row| {
            rows.push(row);
            true
        })?;
        rows.reverse();
        Ok(rows)
    }

    /// Passes entries to `wanted`, the newest first, until it returns `false`.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn each(&self, filter: &Filter, mut wanted: impl FnMut(Row) -> bool) -> Result<(), StoreError> {
        let Filter { contains, begins, directory, session, since, failed, context, most } = filter;
        let most = most.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX));
        let query = self.query(&format!("{WHERE} ORDER BY e.started DESC, e.id DESC LIMIT ?7"));
        let read = || {
            let mut statement = self.connection.prepare(&query)?;
            let mut rows = statement
                .query(params![contains, begins, directory, session, since, failed, most, context])?;
            while let Some(found) = rows.next()? {
                if !wanted(row(found)?) {
                    break;
                }
            }
            Ok(())
        };
        self.reading(read)
    }

    /// The query that reads entries.
    fn query(&self, which: &str) -> String {
        format!("SELECT {COLUMNS} {FROM} {which}").replace("{context}", self.context)
    }

    /// Those of these numbers that belong to no entry.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn unknown(&self, ids: &[i64]) -> Result<Vec<i64>, StoreError> {
        let mut unknown = Vec::new();
        for id in ids {
            unknown.extend(self.row(*id)?.is_none().then_some(*id));
        }
        Ok(unknown)
    }

    /// The entry with this number.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn row(&self, id: i64) -> Result<Option<Row>, StoreError> {
        let query = self.query("WHERE e.id = ?1");
        self.reading(|| {
            let mut statement = self.connection.prepare(&query)?;
            let mut rows = statement.query([id])?;
            rows.next()?.map(row).transpose()
        })
    }

    /// Whether the user had this line forgotten. Such a line isn't imported again.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn is_forgotten(&self, line: &str) -> Result<bool, StoreError> {
        self.reading(|| {
            self.connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM forgotten WHERE line = ?1)")?
                .query_row([change::hash(line)], |row| row.get(0))
        })
    }

    /// Hashes of all lines that the user had forgotten.
    pub(super) fn forgotten(&self) -> Result<HashSet<[u8; 16]>, StoreError> {
        self.reading(|| {
            self.connection.prepare("SELECT line FROM forgotten")?.query_map((), |row| row.get(0))?.collect()
        })
    }

    /// Statistics, with the `most` most frequent lines and directories.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn statistics(&self, most: usize) -> Result<Statistics, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.reading(|| {
            // One transaction, so that all figures are of the same moment.
            let transaction = self.connection.unchecked_transaction()?;
            let mut statistics = transaction.query_row(
                "SELECT count(*), count(DISTINCT line), count(*) FILTER (WHERE exit <> 0), count(source),
                        min(started), max(started) FROM entry",
                (),
                |row| {
                    let span = (row.get::<_, Option<i64>>(4)?).zip(row.get::<_, Option<i64>>(5)?);
                    Ok(Statistics {
                        entries: row.get(0)?,
                        lines: row.get(1)?,
                        failed: row.get(2)?,
                        imported: row.get(3)?,
                        span,
                        ..Statistics::default()
                    })
                },
            )?;
            let counted = |query: &str| -> rusqlite::Result<Vec<(String, i64)>> {
                let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                transaction.prepare(query)?.query_map([most], pair)?.collect()
            };
            statistics.frequent = counted(
                "SELECT line, count(*) AS n FROM entry GROUP BY line ORDER BY n DESC, line LIMIT ?1",
            )?;
            statistics.directories = counted(
                "SELECT w.value, count(*) AS n FROM entry e JOIN word w ON w.id = e.directory
                 GROUP BY w.id ORDER BY n DESC, w.value LIMIT ?1",
            )?;
            Ok(statistics)
        })
    }

    fn reading<T>(&self, read: impl FnOnce() -> rusqlite::Result<T>) -> Result<T, StoreError> {
        read().map_err(|source| StoreError::of("read", &self.place.file, source))
    }
}

/// Reads a row with [`COLUMNS`].
fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        id: row.get(0)?,
        entry: Entry {
            line: row.get(1)?,
            directory: row.get(2)?,
            host: row.get(3)?,
            user: row.get(4)?,
            session: row.get(5)?,
            context: row.get(10)?,
            started: row.get(6)?,
            duration: row.get(7)?,
            exit: row.get(8)?,
        },
        source: row.get(9)?,
    })
}

#[cfg(test)]
mod tests;
