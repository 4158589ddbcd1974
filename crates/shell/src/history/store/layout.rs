// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the database looks like.

use std::path::Path;
use std::time::Duration;

use palisade_database::{Format, StoreError};
use rusqlite::{Connection, OpenFlags};

const FORMAT: Format = Format {
    name: "a history",
    // "Palh".
    mark: 0x5061_6c68,
    schema: 1,
    // A thread of its own waits for it; other shells hold it for a millisecond at a time.
    patience: Duration::from_secs(2),
};

/// Directories, hosts, users and sessions come again and again: they are words, once each.
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
    imported  BLOB UNIQUE              -- what tells an imported entry from all others
) STRICT;
CREATE INDEX entry_started ON entry (started);
-- Hashes of lines that the user deleted: they aren't imported again.
CREATE TABLE forgotten (
    line BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
";

/// Makes the database in an empty file.
pub(super) fn make(path: &Path, remote: bool) -> Result<(), StoreError> {
    // The journal for rolling back needs nothing but locks, which such file systems have.
    FORMAT.make(path, if remote { "DELETE" } else { "WAL" }, TABLES)
}

/// Opens the database and sees whether it is one.
pub(super) fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    let connection = FORMAT.open(path, access)?;
    // A look at every table's first page, so that damage is found here rather than in the middle of things. What is
    // deleted is to be gone: its pages are written over.
    let tables =
        "SELECT (SELECT max(id) FROM entry), (SELECT max(id) FROM word), (SELECT max(line) FROM forgotten)";
    connection
        .execute_batch(
            "PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = 4194304;",
        )
        .and_then(|()| connection.query_row(tables, (), |_row| Ok(())))
        .map_err(|source| StoreError::of("open", path, source))?;
    Ok(connection)
}
