// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the history files of other programs: bash, zsh, fish, atuin.
//!
//! - `lines`: reads a file line by line
//! - `newest`: keeps the newest entries in bounded memory
//! - `bash`, `zsh`, `fish`, `atuin`: the formats; [`print`](fn@print) writes the first three
//!
//! Files are only read, and only up to their length when they were opened: shells append to them meanwhile. At most
//! [`Limits::file`] bytes at the end of a file are read. At most [`Limits::entries`] entries with [`Limits::text`]
//! bytes of lines are kept, the newest ones. A line of more than [`LONGEST`](super::LONGEST) bytes is left out. A line
//! that isn't UTF-8 is left out, too: with other bytes it would be another command.

mod atuin;
mod bash;
mod fish;
mod lines;
mod newest;
mod zsh;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::{Entry, Privacy};
use lines::Lines;
use newest::Newest;

/// The program that wrote a history file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// bash's history (`.bash_history`), with times or without.
    Bash,
    /// zsh's history, extended or plain.
    Zsh,
    /// fish's history, in a format that looks like YAML.
    Fish,
    /// atuin's database.
    Atuin,
}

/// How much is read and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes at the end of a file.
    pub file: u64,
    /// Entries.
    pub entries: usize,
    /// Bytes of their lines.
    pub text: usize,
}

impl Default for Limits {
    /// 256 MiB of a file, a million entries, 64 MiB of lines.
    fn default() -> Self {
        Self { file: 256 << 20, entries: 1_000_000, text: 64 << 20 }
    }
}

/// An entry of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The entry itself.
    pub entry: Entry,
    /// Whether the file gives the entry's time. If not, a time is invented: it keeps the file's order and is no later
    /// than the file's own time.
    pub timed: bool,
}

/// The result of reading a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// The entries, in the order of the file.
    pub entries: Vec<Taken>,
    /// How many were left out because they aren't UTF-8, have a NUL, or are too long.
    pub unusable: usize,
    /// How many older entries were read and left out.
    pub older: usize,
    /// Whether the beginning of the file wasn't read.
    pub cut: bool,
}

impl Imported {
    /// Removes the entries that must not be kept. Returns how many.
    pub fn keep_out(&mut self, privacy: &Privacy) -> usize {
        let found = self.entries.len();
        self.entries.retain(|taken| privacy.keeps_out(&taken.entry.line).is_none());
        found - self.entries.len()
    }
}

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file can't be opened or read.
    #[error("can't {action} {path:?}: {source}")]
    File {
        /// The operation that failed.
        action: &'static str,
        /// The path that it was tried on.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The path is a directory, a pipe or a device.
    #[error("{path:?} is no regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The database can't be read.
    #[error("can't read {path:?} as atuin's database: {source}")]
    Database {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
}

impl ImportError {
    /// Whether the file doesn't exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::File { .. } if self.is_missing() => {
                Some("name the file: palisade shell history import --from KIND FILE".to_owned())
            }
            Self::File { path, .. } | Self::NotAFile { path } => {
                Some(format!("look at it: ls -la {}", word(path)))
            }
            Self::Database { path, .. } => {
                Some(format!("look at it: sqlite3 -readonly {} .schema", word(path)))
            }
        }
    }
}

/// A path as a shell reads it.
fn word(path: &Path) -> String {
    palisade_text::quoted(&path.to_string_lossy())
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Bash, Self::Zsh, Self::Fish, Self::Atuin];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Atuin => "atuin",
        }
    }

    /// The path of the file, whether it exists or not. `HISTFILE` is zsh's if it contains `zsh`, otherwise bash's.
    #[must_use]
    pub fn file(self, home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
        let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let is_zsh = |path: &PathBuf| path.to_string_lossy().contains("zsh");
        let data = || path("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));
        match self {
            Self::Bash => {
                path("HISTFILE").filter(|path| !is_zsh(path)).unwrap_or_else(|| home.join(".bash_history"))
            }
            Self::Zsh => path("HISTFILE").filter(is_zsh).unwrap_or_else(|| {
                let directory = path("ZDOTDIR").unwrap_or_else(|| home.to_owned());
                let usual = directory.join(".zsh_history");
                let others = [".zhistory", ".histfile", ".history"].map(|name| directory.join(name));
                std::iter::once(&usual).chain(&others).find(|path| path.is_file()).unwrap_or(&usual).clone()
            }),
            Self::Fish => {
                let session = variable("fish_history").and_then(|name| name.into_string().ok());
                let session =
                    session.filter(|name| !name.is_empty() && !name.contains('/') && name != "default");
                let name = format!("{}_history", session.as_deref().unwrap_or("fish"));
                data().join("fish").join(name)
            }
            Self::Atuin => path("ATUIN_DB_PATH").unwrap_or_else(|| data().join("atuin/history.db")),
        }
    }
}

/// Reads a history file.
///
/// # Errors
/// When the file can't be opened or read, isn't a regular file, or isn't a database where a database is expected. Parts
/// of it that can't be parsed are left out.
pub fn read(kind: Kind, path: &Path, limits: &Limits) -> Result<Imported, ImportError> {
    let failed = |action| {
        let path = path.to_owned();
        move |source| ImportError::File { action, path, source }
    };
    // Opening a pipe would wait for a writer.
    let nonblocking = i32::from_ne_bytes(rustix::fs::OFlags::NONBLOCK.bits().to_ne_bytes());
    let mut file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(failed("open"))?;
    let metadata = file.metadata().map_err(failed("examine"))?;
    if !metadata.is_file() {
        return Err(ImportError::NotAFile { path: path.to_owned() });
    }
    let mut newest = Newest::new(limits);
    if kind == Kind::Atuin {
        return atuin::read(path, newest);
    }
    let length = metadata.len();
    let from = length.saturating_sub(limits.file);
    file.seek(SeekFrom::Start(from)).map_err(failed("read"))?;
    let mut lines = Lines::new(&mut file, length - from);
    if from > 0 {
        lines.skip_partial().map_err(failed("read"))?;
    }
    parse(kind, &mut lines, &mut newest).map_err(failed("read"))?;
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0);
    Ok(Imported { cut: from > 0, ..newest.finish(modified) })
}

fn parse(kind: Kind, lines: &mut Lines<impl Read>, newest: &mut Newest) -> std::io::Result<()> {
    match kind {
        Kind::Bash => bash::parse(lines, newest),
        Kind::Zsh => zsh::parse(lines, newest),
        Kind::Fish => fish::parse(lines, newest),
        Kind::Atuin => Ok(()),
    }
}

/// Parses the bytes of a text file (not atuin's). `modified` is the file's time in nanoseconds since 1970.
#[must_use]
pub fn read_bytes(kind: Kind, bytes: &[u8], modified: i64, limits: &Limits) -> Imported {
    let mut newest = Newest::new(limits);
    let mut lines = Lines::new(bytes, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    // Reading from memory can't fail.
    let _read = parse(kind, &mut lines, &mut newest);
    newest.finish(modified)
}

/// Appends an entry to `to` in the shell's format, with its time in seconds. Appends nothing for atuin.
///
/// bash's format has an ambiguity: a line within a command that is `#` and digits reads as a time.
pub fn print(kind: Kind, entry: &Entry, to: &mut Vec<u8>) {
    match kind {
        Kind::Bash => bash::print(entry, to),
        Kind::Zsh => zsh::print(entry, to),
        Kind::Fish => fish::print(entry, to),
        Kind::Atuin => {}
    }
}

const SECOND: i64 = 1_000_000_000;

/// A time that a file gives in seconds; `None` if it can't be right: 0, negative, or after tomorrow.
fn time(seconds: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(seconds).ok()?;
    let time = text.parse::<i64>().ok()?.checked_mul(SECOND)?;
    (time > 0 && time < super::now().saturating_add(24 * 3600 * SECOND)).then_some(time)
}

#[cfg(test)]
mod tests;
