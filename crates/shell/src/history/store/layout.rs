// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the store's database.

use std::path::Path;
use std::time::Duration;

use palisade_database::{Format, StoreError};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

const FORMAT: Format = Format {
    name: "a history",
    // "Palh".
    mark: 0x5061_6c68,
    schema: 2,
    // The writer's thread waits, not the shell. Other shells hold the lock for a millisecond at a time.
    patience: Duration::from_secs(2),
};

/// The values of directories, hosts, users and sessions repeat, so each is stored once, as a word.
const TABLES: &str = "
CREATE TABLE word (
    id    INTEGER PRIMARY KEY,
    value TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE entry (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    line      TEXT NOT NULL,
    directory INTEGER REFERENCES word,
    host      INTEGER REFERENCES word,
    user      INTEGER REFERENCES word,
    session   INTEGER REFERENCES word,
    started   INTEGER NOT NULL, -- nanoseconds since 1970, UTC
    duration  INTEGER,          -- nanoseconds
    exit      INTEGER,
    source    INTEGER REFERENCES word, -- what it was imported from
    imported  BLOB UNIQUE,             -- what tells an imported entry from all others
    context   INTEGER REFERENCES word  -- where its program took the terminal
) STRICT;
CREATE INDEX entry_started ON entry (started);
-- Hashes of lines that the user deleted: they aren't imported again.
CREATE TABLE forgotten (
    line BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
";

/// Creates the database in an empty file.
pub(super) fn make(path: &Path, remote: bool) -> Result<(), StoreError> {
    // The rollback journal needs nothing but locks. Remote file systems have locks, but not the shared memory that WAL
    // needs.
    FORMAT.make(path, if remote { "DELETE" } else { "WAL" }, TABLES)
}

/// The changes from version 1 to version 2. Entries from before have no context.
const SECOND: &str = "ALTER TABLE entry ADD COLUMN context INTEGER REFERENCES word; PRAGMA user_version = 2;";

/// Opens the database and checks that it is a store. With write access, a database of an older version is upgraded.
/// Also returns the SQL expression for the context of an entry `e`.
pub(super) fn connect(path: &Path, access: OpenFlags) -> Result<(Connection, &'static str), StoreError> {
    let mut connection = FORMAT.open(path, access)?;
    let mut bring = || -> rusqlite::Result<&'static str> {
        if version(&connection)? >= 2 {
            return Ok("e.context");
        }
        if access.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
            return Ok("NULL");
        }
        // One transaction: another process may upgrade the database first.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if version(&transaction)? < 2 {
            transaction.execute_batch(SECOND)?;
        }
        transaction.commit()?;
        Ok("e.context")
    };
    let context = bring().map_err(|source| StoreError::of("bring up to date", path, source))?;
    // Reads every table's first page, so that damage is found here and not later. `secure_delete` overwrites the pages
    // of deleted entries.
    let tables =
        "SELECT (SELECT max(id) FROM entry), (SELECT max(id) FROM word), (SELECT max(line) FROM forgotten)";
    connection
        .execute_batch(
            "PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = 4194304;",
        )
        .and_then(|()| connection.query_row(tables, (), |_row| Ok(())))
        .map_err(|source| StoreError::of("open", path, source))?;
    Ok((connection, context))
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", (), |row| row.get(0))
}
