// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats times in the local time zone.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Error};

/// Knows the local time zone through SQLite, which asks the C library.
#[derive(Debug)]
pub struct Clock(Connection);

impl Clock {
    /// The clock for the local time zone.
    ///
    /// # Errors
    /// When SQLite can't allocate memory.
    pub fn new() -> Result<Self, Error> {
        Connection::open_in_memory().map(Self)
    }

    /// `2026-01-31 23:59:59`.
    ///
    /// # Errors
    /// When SQLite can't convert the time.
    pub fn at(&self, time: SystemTime) -> Result<String, Error> {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        self.0.query_row("SELECT datetime(?1, 'unixepoch', 'localtime')", [seconds], |row| row.get(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn clocks_show_local_time() {
        let shown = Clock::new().unwrap().at(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
        assert!(shown.starts_with("2023-11-1") && shown.ends_with(":20"), "{shown}");
    }
}
