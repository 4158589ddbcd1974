// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One command that was run.

use std::time::{SystemTime, UNIX_EPOCH};

/// A longer line, in bytes, is neither indexed nor imported: nobody types it again.
pub const LONGEST: usize = 64 * 1024;

/// The exit codes of commands that their user ended or put aside (SIGINT, SIGPIPE, SIGTERM, SIGTSTP): nothing was
/// wrong with the line.
const ENDED: [i32; 4] = [130, 141, 143, 148];

/// The context of a command that led nowhere else.
pub const LOCAL: &str = "local";

/// One command that was run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// What was typed. It may have several lines.
    pub line: String,
    /// Where; empty if unknown.
    pub directory: String,
    /// On which host; empty if unknown.
    pub host: String,
    /// By whom; empty if unknown.
    pub user: String,
    /// In which session of a shell; empty if unknown.
    pub session: String,
    /// Where its program took the terminal: through these, the outermost first (`ssh prod`, `sudo root > ssh prod`), or
    /// [`LOCAL`]; empty if unknown.
    pub context: String,
    /// When it started, in nanoseconds since 1970, UTC.
    pub started: i64,
    /// How long it took, in nanoseconds.
    pub duration: Option<i64>,
    /// Its exit code; unknown while it runs, and of shells that don't keep it.
    pub exit: Option<i32>,
}

impl Entry {
    /// Whether nothing is known to have been wrong with the line.
    #[must_use]
    pub fn went_well(&self) -> bool {
        self.exit.is_none_or(|code| code == 0 || ENDED.contains(&code))
    }

    /// Whether it is something that can be typed again: some text without NUL, not too long.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        usable(&self.line)
    }
}

pub(crate) fn usable(line: &str) -> bool {
    line.len() <= LONGEST && !line.trim().is_empty() && !line.contains('\0')
}

/// The present, in nanoseconds since 1970, UTC.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    i64::try_from(since).unwrap_or(i64::MAX)
}
