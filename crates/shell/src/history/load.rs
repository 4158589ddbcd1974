// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An index of the store and of shells' own files, made in the background.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::import::{self, Kind, Limits};
use super::store::line_hash;
use super::{Entry, Filter, Index, Privacy, Store};

/// What to make an index of.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The store, if there is to be one.
    pub store: Option<PathBuf>,
    /// Shells' own files. One that isn't there has nothing.
    pub files: Vec<(Kind, PathBuf)>,
    /// How much of each, at most.
    pub limits: Limits,
    /// What of the files is kept out.
    pub privacy: Privacy,
}

impl Default for Sources {
    /// Nothing yet; of each the newest 200,000 entries, with 32 MiB of lines, from the last 64 MiB of a file.
    fn default() -> Self {
        let limits = Limits { file: 64 << 20, entries: 200_000, text: 32 << 20 };
        Self { store: None, files: Vec::new(), limits, privacy: Privacy::default() }
    }
}

/// What was made, and what couldn't be read, in words.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The index.
    pub index: Index,
    /// What to tell the user.
    pub problems: Vec<String>,
}

/// An index that is being made.
#[derive(Debug)]
pub struct Loading {
    made: Option<Receiver<Loaded>>,
}

impl Loading {
    /// What was made, once, when it is ready. [`Index::adopt`] puts it in the place of one that was used meanwhile.
    pub fn take(&mut self) -> Option<Loaded> {
        self.wait(Duration::ZERO)
    }

    /// The same, waiting for it no longer than this.
    pub fn wait(&mut self, patience: Duration) -> Option<Loaded> {
        match self.made.as_ref()?.recv_timeout(patience) {
            Ok(loaded) => {
                self.made = None;
                Some(loaded)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.made = None;
                let problems = vec!["history can't be read in the background: there is no thread".to_owned()];
                Some(Loaded { index: Index::default(), problems })
            }
        }
    }

    /// Whether nothing more is to come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.made.is_none()
    }
}

/// Makes an index in a thread of its own.
#[must_use]
pub fn load(sources: Sources) -> Loading {
    let (made, receiver) = channel();
    let work = move || {
        // Nobody waits any more if this fails.
        let _gone = made.send(read(&sources));
    };
    let started = std::thread::Builder::new().name("history-loader".to_owned()).spawn(work);
    // Without a thread the channel is closed, which is told.
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
