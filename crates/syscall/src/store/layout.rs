// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of the database: its tables, and the migration from older forms.

use std::path::Path;
use std::time::Duration;

use palisade_database::{Format, StoreError};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

pub(super) const FORMAT: Format = Format {
    name: "a store of system calls",
    // "Palc".
    mark: 0x5061_6c63,
    schema: 2,
    // A launch waits at most this long for the database. A writer holds it while the disk writes some pages.
    patience: Duration::from_secs(2),
};

/// Calls are stored by name, so that they mean the same on another architecture and to a newer program.
const TABLES: &str = "
CREATE TABLE call (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE binary (
    id         INTEGER PRIMARY KEY,
    path       BLOB NOT NULL,
    hash       BLOB NOT NULL CHECK (length(hash) = 32),
    first_seen INTEGER NOT NULL, -- seconds since 1970
    last_seen  INTEGER NOT NULL,
    UNIQUE (path, hash)
) STRICT;
CREATE TABLE profile (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE profile_binary (
    profile INTEGER NOT NULL REFERENCES profile ON DELETE CASCADE,
    binary  INTEGER NOT NULL REFERENCES binary ON DELETE CASCADE,
    PRIMARY KEY (profile, binary)
) STRICT, WITHOUT ROWID;
CREATE INDEX profile_binary_binary ON profile_binary (binary);
-- Stated for the profile, of no binary in particular.
CREATE TABLE profile_call (
    profile INTEGER NOT NULL REFERENCES profile ON DELETE CASCADE,
    call    INTEGER NOT NULL REFERENCES call,
    PRIMARY KEY (profile, call)
) STRICT, WITHOUT ROWID;
";

/// The calls of a binary under a profile.
const LEARNED: &str = "
CREATE TABLE learned (
    profile INTEGER NOT NULL,
    binary  INTEGER NOT NULL,
    call    INTEGER NOT NULL REFERENCES call,
    PRIMARY KEY (profile, binary, call),
    FOREIGN KEY (profile, binary) REFERENCES profile_binary ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
";

/// Migration from schema 1, which kept a binary's calls for all profiles together. Each profile keeps what it
/// allowed.
const FROM_1: &str = "
INSERT INTO learned (profile, binary, call)
    SELECT r.profile, m.binary, m.call FROM profile_binary r JOIN binary_call m ON m.binary = r.binary;
DROP TABLE binary_call;
PRAGMA user_version = 2;
";

/// Makes the database in an empty file.
pub(super) fn make(path: &Path, _remote: bool) -> Result<(), StoreError> {
    // Every commit writes to the main file, so a process that keeps its fingerprint notices the change. With a
    // write-ahead log the main file would stay the same.
    FORMAT.make(path, "DELETE", &[TABLES, LEARNED].concat())
}

/// Migrates a database of an older program to the present form, in one transaction.
fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let version = || connection.query_row("PRAGMA user_version", (), |row| row.get::<_, i64>(0));
    if version()? == FORMAT.schema {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // Another process may have migrated it meanwhile.
    if version()? == 1 {
        transaction.execute_batch(&[LEARNED, FROM_1].concat())?;
    }
    transaction.commit()
}

/// Opens the database and checks that it is one.
pub(super) fn connect(path: &Path, write: bool) -> Result<Connection, StoreError> {
    // Also writable for reading: the next process that opens the file rolls back the unfinished work of a killed
    // writer. SQLite falls back to reading if the file can't be written.
    let connection = FORMAT.open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    migrate(&connection).map_err(|source| StoreError::of("bring to the new form", path, source))?;
    let prepare = if write {
        "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;"
    } else {
        "PRAGMA foreign_keys = ON; PRAGMA query_only = ON;"
    };
    // Read the first page of every table, so that damage is found here and not later.
    let tables =
        "SELECT (SELECT max(id) FROM call), (SELECT max(id) FROM binary), (SELECT max(id) FROM profile),
        EXISTS (SELECT 1 FROM learned), EXISTS (SELECT 1 FROM profile_binary),
        EXISTS (SELECT 1 FROM profile_call)";
    connection
        .execute_batch(prepare)
        .and_then(|()| connection.query_row(tables, (), |_row| Ok(())))
        .map_err(|source| StoreError::of("open", path, source))?;
    Ok(connection)
}
