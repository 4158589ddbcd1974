// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file that stores the counts: one JSON object, which is replaced as a whole.

use super::Counts;
use palisade_text::Show as _;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file's name in the state directory.
pub const FILE: &str = "shell-counts.json";
/// A longer file is not this program's, in bytes.
const LARGEST: u64 = 4 << 20;
/// The version of the file's format.
const SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Document {
    schema: u32,
    #[serde(flatten)]
    counts: Counts,
}

/// Why counts can't be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum CountsError {
    /// The file or its directory can't be used.
    #[error("can't {operation} {}: {source}", path.shown())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The path that it was tried on.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file's content is invalid.
    #[error("can't understand {}: {words}", path.shown())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        words: String,
    },
}

impl CountsError {
    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::File { path, source, .. } => {
                // The file may not be there: then the directory in which it was to be made.
                let there = path.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(path);
                match source.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                        format!("make room: df -h {}", word(there))
                    }
                    _ => format!("ls -ld {}", word(there)),
                }
            }
            Self::Damaged { path, .. } => format!("mv {0} {0}.damaged   # counting begins anew", word(path)),
        }
    }
}

/// A path as a shell reads it.
fn word(path: &Path) -> String {
    palisade_text::quoted(&path.to_string_lossy())
}

fn failed<'p>(operation: &'static str, path: &'p Path) -> impl FnOnce(std::io::Error) -> CountsError + 'p {
    move |source| CountsError::File { operation, path: path.to_owned(), source }
}

/// Reads the counts in a state directory; `None` if there are none.
///
/// # Errors
/// When the file exists and can't be read or parsed.
pub fn read(state: &Path) -> Result<Option<Counts>, CountsError> {
    let path = state.join(FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", &path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed("read", &path))?;
    let damaged = |words: String| CountsError::Damaged { path: path.clone(), words };
    if bytes.len() as u64 > LARGEST {
        return Err(damaged(format!("it is larger than {LARGEST} bytes")));
    }
    let document: Document = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if document.schema != SCHEMA {
        return Err(damaged(format!(
            "it has schema {}, and this version understands {SCHEMA}",
            document.schema
        )));
    }
    Ok(Some(document.counts))
}

/// Adds counts to the stored ones. A damaged file is moved aside, and counting begins again.
pub(super) fn add(state: &Path, counts: &Counts) -> Result<(), CountsError> {
    DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(failed("make", state))?;
    let path = state.join(FILE);
    let _lock = lock(&path)?;
    let mut sum = match read(state) {
        Ok(before) => before.unwrap_or_default(),
        Err(CountsError::Damaged { .. }) => {
            let aside = path.with_extension("json.damaged");
            std::fs::rename(&path, &aside).map_err(failed("move away", &path))?;
            Counts::default()
        }
        Err(error) => return Err(error),
    };
    sum.add(counts);
    let text = serde_json::to_vec(&Document { schema: SCHEMA, counts: sum })
        .map_err(|error| failed("write", &path)(error.into()))?;
    // Only the process that holds the lock uses this name.
    let next = path.with_extension("json.new");
    let written = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&next)
        .and_then(|mut file| file.write_all(&text))
        .map_err(failed("write", &next))
        .and_then(|()| std::fs::rename(&next, &path).map_err(failed("replace", &path)));
    if written.is_err() {
        let _gone = std::fs::remove_file(&next);
    }
    written
}

/// Locks the file until the result is dropped. Other shells that add counts wait.
fn lock(file: &Path) -> Result<File, CountsError> {
    let path = file.with_extension("json.lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let lock = lock.map_err(failed("open", &path))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)
        .map_err(|errno| failed("lock", &path)(errno.into()))?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_added_is_there_for_nobody_else_to_read() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state/palisade");
        assert!(read(&state).unwrap().is_none());
        for _ in 0..3 {
            add(&state, &Counts { since: 7, lines: 2, ..Counts::default() }).unwrap();
        }
        assert_eq!(read(&state).unwrap().unwrap().lines, 6);
        for name in [FILE, "shell-counts.json.lock"] {
            let mode = std::fs::metadata(state.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 2);
    }

    #[test]
    fn several_at_once_lose_nothing() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        add(home.path(), &Counts { failed: 1, ..Counts::default() }).unwrap();
                    }
                });
            }
        });
        assert_eq!(read(home.path()).unwrap().unwrap().failed, 100);
    }

    #[test]
    fn a_damaged_file_is_said_and_moved_aside() {
        let home = tempfile::tempdir().unwrap();
        for (text, words) in [("{\"schema\":1", "EOF"), ("{\"schema\":2}", "schema 2"), ("\u{0}", "line 1")] {
            std::fs::write(home.path().join(FILE), text).unwrap();
            let error = read(home.path()).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.hint().starts_with("mv "));
            add(home.path(), &Counts { lines: 1, ..Counts::default() }).unwrap();
            assert_eq!(read(home.path()).unwrap().unwrap().lines, 1);
            let aside = std::fs::read_to_string(home.path().join("shell-counts.json.damaged")).unwrap();
            assert_eq!(aside, text);
        }
    }

    #[test]
    fn any_bytes_are_understood_or_not() {
        let home = tempfile::tempdir().unwrap();
        bolero::check!().with_iterations(200).for_each(|bytes: &[u8]| {
            std::fs::write(home.path().join(FILE), bytes).unwrap();
            let _any = read(home.path());
        });
    }
}
