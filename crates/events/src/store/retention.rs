// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prunes the store: what is kept, and for how long.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Transaction, params};

use super::{Store, StoreError, nanoseconds, transaction};

/// Free pages are returned to the file system when they exceed a megabyte.
const WORTH_GIVING_BACK: i64 = 256;

/// How much is kept. The oldest events are removed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Events older than this are removed.
    pub age: Duration,
    /// The most events.
    pub rows: usize,
    /// The most events of one launch, so that one program can't push the refusals of other programs out of the store.
    pub rows_of_one: usize,
    /// The most bytes in the database. The log has some megabytes more.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(30 * 24 * 3600),
            rows: 100_000,
            rows_of_one: 25_000,
            bytes: 128 << 20,
        }
    }
}

impl Store {
    /// Sets the limits for automatic pruning: at the first append, then every thousand events.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Removes events that are too old or too many. Returns how many were removed.
    ///
    /// # Errors
    /// When the store can't be written to.
    pub fn prune(&mut self, retention: &Retention) -> Result<usize, StoreError> {
        let launches: Vec<String> = self.launches.iter().map(ToString::to_string).collect();
        let pruned = transaction(&mut self.connection).and_then(|transaction| {
            let removed = remove(&transaction, retention, &launches)?;
            transaction.commit()?;
            Ok(removed)
        });
        pruned
            .and_then(|removed| shrink(&self.connection).map(|()| removed))
            .map_err(|source| StoreError::of("prune", &self.place.file, source))
    }
}

fn remove(
    transaction: &Transaction<'_>,
    retention: &Retention,
    launches: &[String],
) -> rusqlite::Result<usize> {
    let mut removed = 0;
    // By id, since rows are nearly ordered by time: so it examines only the rows that it removes.
    if let Some(oldest) = SystemTime::now().checked_sub(retention.age) {
        removed += transaction.execute(
            "DELETE FROM event WHERE id < coalesce(
                 (SELECT id FROM event WHERE time >= ?1 ORDER BY id LIMIT 1),
                 (SELECT position + 1 FROM counter))",
            [nanoseconds(oldest)],
        )?;
    }
    for sandbox in launches {
        removed += transaction.execute(
            "DELETE FROM event WHERE launch = (SELECT id FROM launch WHERE sandbox = ?1) AND id <= (
                 SELECT id FROM event WHERE launch = (SELECT id FROM launch WHERE sandbox = ?1)
                 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            params![sandbox, number(retention.rows_of_one)],
        )?;
    }
    let mut rows: i64 = transaction.query_row("SELECT count(*) FROM event", (), |row| row.get(0))?;
    let excess = rows.saturating_sub(number(retention.rows));
    if excess > 0 {
        removed += oldest(transaction, excess)?;
        rows -= excess;
    }
    let most = i64::try_from(retention.bytes).unwrap_or(i64::MAX);
    loop {
        let used = used(transaction)?;
        if used <= most || rows == 0 {
            break;
        }
        // Remove as many rows as their share of the bytes suggests, and a tenth more, so that the next pruning isn't
        // soon.
        let share = i128::from(rows) * i128::from(used - most) / i128::from(used);
        let share = i64::try_from(share).unwrap_or(rows).saturating_add(rows / 10 + 1).min(rows);
        removed += oldest(transaction, share)?;
        rows -= share;
    }
    if removed > 0 {
        transaction.execute(
            "DELETE FROM launch WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.launch = launch.id)",
            (),
        )?;
    }
    Ok(removed)
}

fn oldest(transaction: &Transaction<'_>, count: i64) -> rusqlite::Result<usize> {
    transaction.execute("DELETE FROM event WHERE id IN (SELECT id FROM event ORDER BY id LIMIT ?1)", [count])
}

/// The size of the used pages, in bytes.
fn used(connection: &Connection) -> rusqlite::Result<i64> {
    let number = |pragma| connection.query_row(pragma, (), |row| row.get::<_, i64>(0));
    let pages = number("PRAGMA page_count")? - number("PRAGMA freelist_count")?;
    Ok(pages * number("PRAGMA page_size")?)
}

/// Returns free pages to the file system.
fn shrink(connection: &Connection) -> rusqlite::Result<()> {
    let free: i64 = connection.query_row("PRAGMA freelist_count", (), |row| row.get(0))?;
    if free < WORTH_GIVING_BACK {
        return Ok(());
    }
    // Each step frees one page, so run all steps.
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut steps = vacuum.query(())?;
    while steps.next()?.is_some() {}
    Ok(())
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
