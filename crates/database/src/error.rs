// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of a store, each with what to do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why the store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A directory or file can't be made, read or moved.
    #[error("can't {action} {path:?}: {source}")]
    File {
        /// What was to be done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The directory or file belongs to another user.
    #[error("{path:?} belongs to user {uid}")]
    Foreign {
        /// The directory or file.
        path: PathBuf,
        /// The owner.
        uid: u32,
    },
    /// Other users could change the directory or file.
    #[error("{path:?} may be written by others (mode {mode:04o})")]
    Writable {
        /// The directory or file.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// The path is a link, a device, or a directory where a file should be.
    #[error("{path:?} is no {expected}")]
    Kind {
        /// What is there.
        path: PathBuf,
        /// What should be.
        expected: &'static str,
    },
    /// A newer version of Palisade made the database.
    #[error("{path:?} was made by a newer palisade (schema {found}, this one knows {known})")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The file isn't a store, or no longer is one.
    #[error("{path:?} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Other processes kept the database locked for longer than any of them should.
    #[error("{path:?} is kept busy by another process")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// SQLite reports an error.
    #[error("can't {action} {path:?}: {source}")]
    Sqlite {
        /// What was to be done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Foreign { path, .. } => {
                // Only root can make an owner of another user.
                let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
                Some(format!("look at it, then: {sudo}chown -h $(id -u) {}", word(path)))
            }
            Self::Writable { path, .. } => Some(format!("look at it, then: chmod go-w {}", word(path))),
            Self::Kind { path, .. } => Some(format!("look at it, then: mv {0} {0}.old", word(path))),
            Self::Newer { .. } => Some("use the newer palisade, which can read it".to_owned()),
            _ => None,
        }
    }

    /// Turns an SQLite error about `action` with the file at `path` into a [`StoreError`].
    #[must_use]
    pub fn of(action: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, reason: source.to_string() }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            _ => Self::Sqlite { action, path, source },
        }
    }
}

/// A path as a shell reads it.
fn word(path: &Path) -> String {
    palisade_text::quoted(&path.to_string_lossy())
}
