// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines that the user has marked as intended. A line is identified by a hash of its whole text: no other line has the
//! same hash, and the file doesn't reveal what was typed.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Larger files aren't read.
const CAP: u64 = 16 << 20;

/// The file of trusted lines.
#[derive(Debug, Clone)]
pub struct Trust {
    file: PathBuf,
}

/// What is stored about a trusted line.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Trusted {
    /// The hash of the line, in hexadecimal.
    pub hash: String,
    /// When it was trusted, in seconds since 1970.
    pub since: u64,
    /// The name of its first command.
    pub command: String,
}

/// Why a file of the guard can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("can't {operation} {path}: {source}")]
pub struct StateError {
    /// The operation that failed.
    pub operation: &'static str,
    /// The path that it was tried on.
    pub path: PathBuf,
    /// The cause.
    pub source: std::io::Error,
}

pub(super) fn failed<'p>(
    operation: &'static str,
    path: &'p Path,
) -> impl FnOnce(std::io::Error) -> StateError + 'p {
    move |source| StateError { operation, path: path.to_owned(), source }
}

impl Trust {
    /// The trusted lines in a state directory: `$XDG_STATE_HOME/palisade`.
    #[must_use]
    pub fn in_directory(state: &Path) -> Self {
        Self { file: state.join("trusted-lines") }
    }

    /// The hash that identifies a line.
    #[must_use]
    pub fn hash(line: &str) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("palisade shell: a trusted line");
        hasher.update(line.trim_end_matches(['\n', '\r']).as_bytes());
        hasher.finalize().to_hex().to_string()
    }

    /// Whether a line is trusted.
    ///
    /// # Errors
    /// When the file exists and can't be read.
    pub fn contains(&self, line: &str) -> Result<bool, StateError> {
        let hash = Self::hash(line);
        Ok(self.list()?.iter().any(|trusted| trusted.hash == hash))
    }

    /// All trusted lines. Lines of the file that can't be parsed are skipped.
    ///
    /// # Errors
    /// When the file exists and can't be read.
    pub fn list(&self) -> Result<Vec<Trusted>, StateError> {
        let file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("open", &self.file)(error)),
        };
        let mut text = String::new();
        file.take(CAP).read_to_string(&mut text).map_err(failed("read", &self.file))?;
        let trusted = text.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ' ');
            let (hash, since, command) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
            let hash = Some(hash).filter(|hash| hash.len() == 64)?.to_owned();
            Some(Trusted { hash, since, command: command.to_owned() })
        });
        Ok(trusted.collect())
    }

    /// Marks a line as trusted; `since` is in seconds since 1970. Returns `false` if the line was trusted already.
    ///
    /// # Errors
    /// When the file can't be read or replaced.
    pub fn add(&self, line: &str, since: u64) -> Result<bool, StateError> {
        let reading = super::reading::read(line, false);
        let name = reading.commands.iter().map(super::command::Command::name).find(|name| !name.is_empty());
        let plain = |letter: &char| letter.is_ascii_graphic();
        let command: String = name.unwrap_or("?").chars().filter(plain).take(64).collect();
        let hash = Self::hash(line);
        self.change(|list| {
            if list.iter().any(|trusted| trusted.hash == hash) {
                return false;
            }
            list.push(Trusted { hash, since, command });
            true
        })
    }

    /// Removes a line from the trusted ones. It is given as text, or as at least eight digits of its hash. Returns
    /// `false` if the line wasn't trusted.
    ///
    /// # Errors
    /// When the file can't be read or replaced.
    pub fn remove(&self, line_or_hash: &str) -> Result<bool, StateError> {
        let hash = Self::hash(line_or_hash);
        let short = line_or_hash.len() >= 8 && line_or_hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.change(|list| {
            let before = list.len();
            list.retain(|trusted| trusted.hash != hash && !(short && trusted.hash.starts_with(line_or_hash)));
            list.len() < before
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Trusted>) -> bool) -> Result<bool, StateError> {
        let _lock = lock(&self.file)?;
        let mut list = self.list()?;
        if !change(&mut list) {
            return Ok(false);
        }
        let lines =
            list.iter().map(|trusted| format!("{} {} {}\n", trusted.hash, trusted.since, trusted.command));
        replace(&self.file, &lines.collect::<String>())?;
        Ok(true)
    }
}

/// Locks the file until the result is dropped. Other processes that change the file wait.
fn lock(file: &Path) -> Result<File, StateError> {
    if let Some(directory) = file.parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(failed("make", directory))?;
    }
    let path = file.with_extension("lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let lock = lock.map_err(failed("open", &path))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)
        .map_err(|errno| failed("lock", &path)(errno.into()))?;
    Ok(lock)
}

/// Replaces a file atomically: a process that reads it, also after a crash, sees the old content or the new one.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), StateError> {
    if let Some(directory) = file.parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(failed("make", directory))?;
    }
    let next = file.with_extension(format!("new-{}", std::process::id()));
    let written =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&next).and_then(
            |mut new| {
                new.write_all(text.as_bytes())?;
                new.sync_all()
            },
        );
    let replaced = written
        .map_err(failed("write", &next))
        .and_then(|()| std::fs::rename(&next, file).map_err(failed("replace", file)));
    if replaced.is_err() {
        let _gone = std::fs::remove_file(&next);
    }
    replaced
}
