// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One command that was run.

use std::time::{SystemTime, UNIX_EPOCH};

/// A longer line, in bytes, is neither indexed nor imported: a user doesn't type it again.
pub const LONGEST: usize = 64 * 1024;

/// The exit codes of commands that the user ended or suspended (SIGINT, SIGPIPE, SIGTERM, SIGTSTP). They don't mean
/// that the line was wrong.
const ENDED: [i32; 4] = [130, 141, 143, 148];

/// The context of a command that didn't send lines to another place.
pub const LOCAL: &str = "local";

/// One command that was run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// What was typed. It may have several lines.
    pub line: String,
    /// The working directory; empty if unknown.
    pub directory: String,
    /// The host; empty if unknown.
    pub host: String,
    /// The user; empty if unknown.
    pub user: String,
    /// The session of the shell; empty if unknown.
    pub session: String,
    /// Where the command's program sent typed lines: through these layers, the outermost first (`ssh prod`,
    /// `sudo root > ssh prod`), or [`LOCAL`]. Empty if unknown.
    pub context: String,
    /// When it started, in nanoseconds since 1970, UTC.
    pub started: i64,
    /// How long it took, in nanoseconds.
    pub duration: Option<i64>,
    /// Its exit code; unknown while it runs, and for shells that don't record it.
    pub exit: Option<i32>,
}

impl Entry {
    /// Whether nothing shows that the line was wrong.
    #[must_use]
    pub fn went_well(&self) -> bool {
        self.exit.is_none_or(|code| code == 0 || ENDED.contains(&code))
    }

    /// Whether the line can be typed again: it has text, contains no NUL, and isn't too long.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        usable(&self.line)
    }
}

pub(crate) fn usable(line: &str) -> bool {
    line.len() <= LONGEST && !line.trim().is_empty() && !line.contains('\0')
}

/// The current time, in nanoseconds since 1970, UTC.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    i64::try_from(since).unwrap_or(i64::MAX)
}
