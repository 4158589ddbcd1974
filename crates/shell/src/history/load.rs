// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds an index of the store and of the shells' own files, in the background.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::import::{self, Kind, Limits};
use super::store::line_hash;
use super::{Entry, Filter, Index, Privacy, Store};

/// What the index is built from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The store, if it is to be read.
    pub store: Option<PathBuf>,
    /// The shells' own history files. A missing file counts as empty.
    pub files: Vec<(Kind, PathBuf)>,
    /// How much of each source is read at most.
    pub limits: Limits,
    /// Which lines of the files are left out.
    pub privacy: Privacy,
}

impl Default for Sources {
    /// No sources yet. Of each source, the newest 200,000 entries with 32 MiB of lines, from the last 64 MiB of a file.
    fn default() -> Self {
        let limits = Limits { file: 64 << 20, entries: 200_000, text: 32 << 20 };
        Self { store: None, files: Vec::new(), limits, privacy: Privacy::default() }
    }
}

/// The index, and messages about what couldn't be read.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The index.
    pub index: Index,
    /// Messages for the user.
    pub problems: Vec<String>,
}

/// An index that is being built.
#[derive(Debug)]
pub struct Loading {
    made: Option<Receiver<Loaded>>,
}

impl Loading {
    /// The index, once, when it is ready. [`Index::adopt`] merges it into the index that was used meanwhile.
    pub fn take(&mut self) -> Option<Loaded> {
        self.wait(Duration::ZERO)
    }

    /// As [`Loading::take`], but waits at most this long.
    pub fn wait(&mut self, patience: Duration) -> Option<Loaded> {
        match self.made.as_ref()?.recv_timeout(patience) {
            Ok(loaded) => {
                self.made = None;
                Some(loaded)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.made = None;
                let problems =
                    vec!["can't read the history in the background: no thread could be started".to_owned()];
                Some(Loaded { index: Index::default(), problems })
            }
        }
    }

    /// Whether the index was taken or can't be built.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.made.is_none()
    }
}

/// Builds an index in a separate thread.
#[must_use]
pub fn load(sources: Sources) -> Loading {
    let (made, receiver) = channel();
    let work = move || {
        // Sending fails only if the receiver is gone.
        let _gone = made.send(read(&sources));
    };
    let started = std::thread::Builder::new().name("history-loader".to_owned()).spawn(work);
    // If no thread can be started, the channel is closed, and the receiver reports that.
    drop(started);
    Loading { made: Some(receiver) }
}

fn read(sources: &Sources) -> Loaded {
    let mut problems = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    let mut forgotten = HashSet::new();
    if let Some(file) = &sources.store {
        let mut text = 0;
        let filter = Filter { most: Some(sources.limits.entries), ..Filter::default() };
        let stored = Store::read(file).and_then(|store| {
            let Some(store) = store else { return Ok(()) };
            forgotten = store.forgotten()?;
            store.each(&filter, |row| {
                text += row.entry.line.len();
                entries.push(row.entry);
                text <= sources.limits.text
            })
        });
        if let Err(error) = stored {
            let hint = error.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
            problems.push(format!("history: {error}{hint}"));
        }
    }
    for (kind, path) in &sources.files {
        match import::read(*kind, path, &sources.limits) {
            Ok(imported) => {
                let taken = imported.entries.into_iter().map(|taken| taken.entry);
                entries.extend(taken.filter(|entry| {
                    !forgotten.contains(&line_hash(&entry.line))
                        && sources.privacy.keeps_out(&entry.line).is_none()
                }));
            }
            Err(error) if error.is_missing() => {}
            Err(error) => problems.push(format!("history of {}: {error}", kind.name())),
        }
    }
    Loaded { index: Index::build(&entries), problems }
}
