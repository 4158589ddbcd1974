// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads atuin's history: an SQLite database with a table `history`, which is only read.
//!
//! Times and durations are in nanoseconds; -1 means unknown. The host is `HOST:USER`. Deleted entries remain in the
//! table, with `deleted_at` set. (atuin's own migrations.)

use std::fmt::Write;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use super::newest::Newest;
use super::{ImportError, Imported};
use crate::history::Entry;

pub(super) fn read(path: &Path, newest: Newest) -> Result<Imported, ImportError> {
    let failed = |source| ImportError::Database { path: path.to_owned(), source };
    let connection = open(path).map_err(failed)?;
    take(&connection, newest).map_err(failed)
}

/// Opens the database without creating files beside it. If there is no write-ahead log, no process writes, so SQLite
/// can treat the database as immutable. If there is one, atuin's files beside the database exist already.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let is_quiet = std::fs::metadata(&log).map_or(true, |log| log.len() == 0);
    let mut address = "file:".to_owned();
    for byte in std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()) {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            address.push(char::from(*byte));
        } else {
            // Writing to a `String` can't fail.
            let _written = write!(address, "%{byte:02x}");
        }
    }
    address.push_str(if is_quiet { "?mode=ro&immutable=1" } else { "?mode=ro" });
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(address, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(2))?;
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    Ok(connection)
}

fn take(connection: &Connection, mut newest: Newest) -> rusqlite::Result<Imported> {
    let columns: Vec<String> = connection
        .prepare("SELECT name FROM pragma_table_info('history')")?
        .query_map((), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let alive = if columns.iter().any(|name| name == "deleted_at") { "WHERE deleted_at IS NULL" } else { "" };
    // Reads one entry more than is kept, to find out whether there are older ones.
    let most = i64::try_from(newest.most()).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = connection.prepare(&format!(
        "SELECT * FROM (SELECT timestamp, duration, exit, command, cwd, session, hostname FROM history {alive}
         ORDER BY timestamp DESC LIMIT ?1) ORDER BY timestamp"
    ))?;
    let mut rows = statement.query([most])?;
    while let Some(row) = rows.next()? {
        match entry(row)? {
            Some(entry) => newest.put(entry, true),
            None => newest.refuse(),
        }
    }
    Ok(newest.finish(0))
}

/// The entry in a row, unless its columns have the wrong types: SQLite accepts any type in any column.
fn entry(row: &Row<'_>) -> rusqlite::Result<Option<Entry>> {
    let number = |column| match row.get_ref(column) {
        Ok(ValueRef::Integer(number)) => Some(number),
        _ => None,
    };
    let text = |column| row.get_ref(column).ok().and_then(|value| value.as_str().ok()).unwrap_or_default();
    let (Some(started), line) = (number(0).filter(|started| *started > 0), text(3)) else { return Ok(None) };
    if line.is_empty() {
        return Ok(None);
    }
    let (host, user) = text(6).split_once(':').unwrap_or((text(6), ""));
    let directory = Some(text(4)).filter(|directory| directory.starts_with('/')).unwrap_or_default();
    Ok(Some(Entry {
        line: line.to_owned(),
        directory: directory.to_owned(),
        host: host.to_owned(),
        user: user.to_owned(),
        session: text(5).to_owned(),
        context: String::new(),
        started,
        duration: number(1).filter(|duration| *duration >= 0),
        exit: number(2).and_then(|exit| i32::try_from(exit).ok()).filter(|exit| *exit >= 0),
    }))
}
