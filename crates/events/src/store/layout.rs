// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the database looks like.

use std::path::Path;
use std::time::Duration;

use palisade_database::Format;
use rusqlite::{Connection, OpenFlags};

use super::StoreError;

/// How long a writer waits for others, if nothing else is said. Each holds the database for a fraction of a millisecond.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

const FORMAT: Format = Format {
    name: "a store of events",
    // "Pals".
    mark: 0x5061_6c73,
    schema: 1,
    patience: PATIENCE,
};

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
    FORMAT.make(path, if remote { "DELETE" } else { "WAL" }, TABLES)
}

/// Opens the database and sees whether it is one.
pub(super) fn connect(path: &Path, access: OpenFlags, patience: Duration) -> Result<Connection, StoreError> {
    let connection = Format { patience, ..FORMAT }.open(path, access)?;
    // A look at every table's first page, so that damage is found here rather than in the middle of things.
    let tables =
        "SELECT (SELECT position FROM counter), (SELECT max(id) FROM launch), (SELECT max(id) FROM event)";
    connection
        .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304;")
        .and_then(|()| connection.query_row(tables, (), |_row| Ok(())))
        .map_err(|source| StoreError::of("open", path, source))?;
    Ok(connection)
}
