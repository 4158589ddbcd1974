// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kind of database: what identifies it, and how a database of this kind is made and opened.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::StoreError;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The name of this kind, with its article.
    pub name: &'static str,
    /// Its `application_id`.
    pub mark: i64,
    /// The newest version of its tables that is known (`user_version`).
    pub schema: i64,
    /// How long to wait while other processes have the database locked.
    pub patience: Duration,
}

impl Format {
    /// Opens the database at `path`, which exists, and checks that it is of this kind. Doesn't follow a link.
    ///
    /// # Errors
    /// When it can't be opened, or is locked, damaged, another program's or a newer version's.
    pub fn open(&self, path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
        let connection = self.connect(path, access)?;
        // By default the last connection to close copies the log into the database and waits for the disk; that would
        // happen at the end of a launch. SQLite copies the log anyway once it has a thousand pages. (`make` lets SQLite
        // copy the log, because a new database is moved to its place without its log.)
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(|source| StoreError::of("open", path, source))?;
        let number = |pragma| connection.query_row(pragma, (), |row| row.get::<_, i64>(0));
        let (mark, found) = number("PRAGMA application_id")
            .and_then(|mark| Ok((mark, number("PRAGMA user_version")?)))
            .map_err(|source| StoreError::of("open", path, source))?;
        if mark != self.mark {
            let reason = format!("it isn't {}", self.name);
            return Err(StoreError::Damaged { path: path.to_owned(), reason });
        }
        if found > self.schema {
            return Err(StoreError::Newer { path: path.to_owned(), found, known: self.schema });
        }
        Ok(connection)
    }

    /// Makes the database in the empty file at `path`, with these tables. `journal` is its journal mode.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn make(&self, path: &Path, journal: &str, tables: &str) -> Result<(), StoreError> {
        let Self { mark, schema, .. } = self;
        let connection = self.connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection
            .execute_batch(&format!(
                "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = {journal};
                 BEGIN; {tables}
                 PRAGMA application_id = {mark}; PRAGMA user_version = {schema};
                 COMMIT;"
            ))
            .and_then(|()| connection.close().map_err(|(_connection, error)| error))
            .map_err(|source| StoreError::of("make", path, source))
    }

    fn connect(&self, path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
        // Each connection is used by one thread.
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let prepare = |connection: Connection| {
            connection.busy_timeout(self.patience)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
            Ok(connection)
        };
        Connection::open_with_flags(path, flags)
            .and_then(prepare)
            .map_err(|source| StoreError::of("open", path, source))
    }
}
