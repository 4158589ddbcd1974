// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the database looks like.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::StoreError;

/// The version of the tables below (`user_version`).
pub(super) const SCHEMA: i64 = 1;
/// "Pals": this file is a store of ours (`application_id`).
const MARK: i64 = 0x5061_6c73;
/// How long a writer waits for others, if nothing else is said. Each holds the database for a fraction of a millisecond.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// An event's `id` is the position at which it came in, and is never used again; `position` moves on whenever
/// the row changes, so that who follows sees the change. The counter is a table because the largest position
/// in use goes back when rows are removed.
const TABLES: &str = "
CREATE TABLE counter (position INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES (0);
CREATE TABLE launch (
    id      INTEGER PRIMARY KEY,
    sandbox TEXT NOT NULL UNIQUE,
    command TEXT NOT NULL
) STRICT;
CREATE TABLE event (
    id       INTEGER PRIMARY KEY,
    position INTEGER NOT NULL UNIQUE,
    launch   INTEGER NOT NULL REFERENCES launch,
    time     INTEGER NOT NULL, -- nanoseconds since 1970
    count    INTEGER NOT NULL,
    event    TEXT NOT NULL, -- JSON
    hint     TEXT
) STRICT;
CREATE INDEX event_launch ON event (launch);
";

/// Makes the database in an empty file.
pub(super) fn make(path: &Path, remote: bool) -> Result<(), StoreError> {
    // The journal for rolling back needs nothing but locks, which such file systems have.
    let journal = if remote { "DELETE" } else { "WAL" };
    let made =
        Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_READ_WRITE)).and_then(|connection| {
            connection.execute_batch(&format!(
                "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = {journal};
                 BEGIN; {TABLES}
                 PRAGMA application_id = {MARK}; PRAGMA user_version = {SCHEMA};
                 COMMIT;"
            ))?;
            connection.close().map_err(|(_connection, error)| error)
        });
    made.map_err(|source| StoreError::of("make", path, source))
}

/// Opens the database and sees whether it is one.
pub(super) fn connect(path: &Path, access: OpenFlags, patience: Duration) -> Result<Connection, StoreError> {
    let failed = |source| StoreError::of("open", path, source);
    let connection = Connection::open_with_flags(path, flags(access)).map_err(failed)?;
    let (mark, version) = prepare(&connection, patience).map_err(failed)?;
    if mark != MARK {
        let reason = "it isn't a store of events".to_owned();
        return Err(StoreError::Damaged { path: path.to_owned(), reason });
    }
    if version > SCHEMA {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: SCHEMA });
    }
    // A look at every table's first page, so that damage is found here rather than in the middle of things.
    let tables =
        "SELECT (SELECT position FROM counter), (SELECT max(id) FROM launch), (SELECT max(id) FROM event)";
    connection.query_row(tables, (), |_row| Ok(())).map_err(failed)?;
    Ok(connection)
}

fn prepare(connection: &Connection, patience: Duration) -> rusqlite::Result<(i64, i64)> {
    connection.busy_timeout(patience)?;
    // The last one to close would copy the log into the database and wait for the disk, at the end of a
    // launch. The log is copied anyway once it has a thousand pages.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304;")?;
    let number = |pragma: &str| connection.query_row(pragma, (), |row| row.get(0));
    Ok((number("PRAGMA application_id")?, number("PRAGMA user_version")?))
}

fn flags(access: OpenFlags) -> OpenFlags {
    // Each connection is used by one thread.
    access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW
}
