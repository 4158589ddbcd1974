// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of the database.

use std::path::Path;
use std::time::Duration;

use palisade_database::Format;
use rusqlite::{Connection, OpenFlags};

use super::StoreError;

/// How long a writer waits for others by default. Each holds the database for a fraction of a millisecond.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

const FORMAT: Format = Format {
    name: "a store of events",
    // "Pals".
    mark: 0x5061_6c73,
    schema: 1,
    patience: PATIENCE,
};

/// An event's `id` is the position at which it was appended, and is never used again. `position` grows whenever the
/// row changes, so that a follower sees the change. The counter has a table of its own, because the largest used
/// position shrinks when rows are removed.
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
    // A rollback journal needs only locks, which remote file systems have.
    FORMAT.make(path, if remote { "DELETE" } else { "WAL" }, TABLES)
}

/// Opens the database and checks that it is one.
pub(super) fn connect(path: &Path, access: OpenFlags, patience: Duration) -> Result<Connection, StoreError> {
    let connection = Format { patience, ..FORMAT }.open(path, access)?;
    // Read the first page of every table, so that damage is found here and not later.
    let tables =
        "SELECT (SELECT position FROM counter), (SELECT max(id) FROM launch), (SELECT max(id) FROM event)";
    connection
        .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304;")
        .and_then(|()| connection.query_row(tables, (), |_row| Ok(())))
        .map_err(|source| StoreError::of("open", path, source))?;
    Ok(connection)
}
