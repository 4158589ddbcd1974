// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which changes were made to which files, so that they can be taken back later.
//!
//! A record is written before the file is changed: a process that is killed in between leaves a record of a change that
//! isn't there, which the next call finds out, and never a change without a record.

use crate::draft::{Change, Draft, EditError, Undone};
use crate::file::{FileError, Loaded};
use crate::tree::{Format, Malformed};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const SCHEMA: u32 = 1;
/// A new settings file is for its owner only: keys may be put into it.
const NEW_FILE: u32 = 0o600;

/// A change can't be made or taken back.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A settings file, or the file of records, can't be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A settings file can't be understood.
    #[error("can't read {path:?}: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: Malformed,
    },
    /// A settings file can't be changed as it is.
    #[error("can't change {path:?}: {source}")]
    Edit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: EditError,
    },
    /// The file of records is damaged.
    #[error("can't read the record of changes {path:?}: {source}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The directory of the records can't be used.
    #[error("can't {action} {path:?}: {source}")]
    Directory {
        /// What was tried.
        action: &'static str,
        /// The directory or the lock.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Which changes one owner has made to one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// For what the file was changed.
    pub owner: Owned,
    /// The file.
    pub path: PathBuf,
    /// The file wasn't there before.
    created: bool,
    /// Directories that were made for the file.
    directories: Vec<PathBuf>,
    /// The changes, in the order in which they were made.
    changes: Vec<Change>,
}

/// For what a file was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owned {
    /// The hook of an agent.
    Agent(String),
    /// A server's entry, by the names that lead to it.
    Server(Vec<String>),
}

/// A file with a change that is about to be made.
#[derive(Debug)]
pub struct Planned {
    /// The file as it is.
    pub loaded: Loaded,
    /// Its content afterwards.
    pub content: String,
    entry: Entry,
}

impl Planned {
    /// The content before.
    #[must_use]
    pub fn before(&self) -> String {
        String::from_utf8_lossy(self.loaded.content.as_deref().unwrap_or_default()).into_owned()
    }

    /// Whether the file changes.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.loaded.content.as_deref() != Some(self.content.as_bytes())
    }
}

/// What taking back comes to.
#[derive(Debug)]
pub struct Undoing {
    /// The file as it is.
    pub loaded: Loaded,
    /// Its content afterwards. `None`: the file was made with the change, and goes.
    pub content: Option<String>,
    /// Members whose values were changed by another: they stay.
    pub kept: Vec<Vec<String>>,
    /// Whether it can be taken back. If not, the file stays as it is, and so does the record.
    pub is_whole: bool,
    directories: Vec<PathBuf>,
}

impl Undoing {
    /// The content before.
    #[must_use]
    pub fn before(&self) -> String {
        String::from_utf8_lossy(self.loaded.content.as_deref().unwrap_or_default()).into_owned()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    schema: u32,
    entries: Vec<Entry>,
}

/// All records of a user. The lock is held as long as the value lives.
#[derive(Debug)]
pub struct Records {
    file: PathBuf,
    document: Document,
    _lock: Option<File>,
}

impl Records {
    /// Reads the records in a state directory, and locks them.
    ///
    /// # Errors
    /// They can't be read or locked.
    pub fn open(state: &Path) -> Result<Self, RecordError> {
        let directory = state.join("settings");
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory).map_err(|source| RecordError::Directory {
            action: "make directory",
            path: directory.clone(),
            source,
        })?;
        let path = directory.join("lock");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).and_then(|lock| {
            rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
            Ok(lock)
        });
        let lock =
            lock.map_err(|errno| RecordError::Directory { action: "lock", path, source: errno.into() })?;
        Ok(Self { _lock: Some(File::from(lock)), ..Self::look(state)? })
    }

    /// Reads the records without a lock, to show them.
    ///
    /// # Errors
    /// They can't be read.
    pub fn look(state: &Path) -> Result<Self, RecordError> {
        let file = state.join("settings/changes.json");
        let document = match Loaded::read(&file)?.content {
            None => Document { schema: SCHEMA, entries: Vec::new() },
            Some(content) => serde_json::from_slice(&content)
                .map_err(|source| RecordError::Damaged { path: file.clone(), source })?,
        };
        Ok(Self { file, document, _lock: None })
    }

    /// The records of an owner.
    pub fn of<'r>(&'r self, owner: &'r Owned) -> impl Iterator<Item = &'r Entry> {
        self.document.entries.iter().filter(move |entry| entry.owner == *owner)
    }

    /// All records.
    #[must_use]
    pub fn all(&self) -> &[Entry] {
        &self.document.entries
    }

    /// Plans a change of a file. What the owner has changed in it earlier is taken back first, so that the result is the
    /// same however often it is done.
    ///
    /// # Errors
    /// The file can't be read, or not be changed so.
    pub fn plan(
        &self,
        owner: &Owned,
        path: &Path,
        format: Format,
        edit: impl FnOnce(&mut Draft) -> Result<(), EditError>,
    ) -> Result<Planned, RecordError> {
        let loaded = Loaded::read(path)?;
        let malformed = |source| RecordError::Malformed { path: loaded.path.clone(), source };
        let mut draft =
            Draft::new(loaded.content.as_deref().unwrap_or_default(), format).map_err(malformed)?;
        let earlier = self.entry(owner, &loaded.path);
        if let Some(entry) = earlier {
            entry.undo(&mut draft).map_err(malformed)?;
        }
        let created = loaded.content.is_none() || earlier.is_some_and(|entry| entry.created);
        let directories = earlier.map(|entry| entry.directories.clone()).unwrap_or_default();
        edit(&mut draft).map_err(|source| RecordError::Edit { path: loaded.path.clone(), source })?;
        let content = draft.content();
        let changes = draft.into_changes();
        let path = loaded.path.clone();
        Ok(Planned {
            loaded,
            content,
            entry: Entry { owner: owner.clone(), path, created, directories, changes },
        })
    }

    /// Makes a planned change. A change that comes to nothing leaves no record.
    ///
    /// # Errors
    /// The record or the file can't be written.
    pub fn make(&mut self, planned: Planned) -> Result<(), RecordError> {
        let Planned { loaded, content, mut entry } = planned;
        let changes = loaded.content.as_deref() != Some(content.as_bytes());
        if !changes {
            return Ok(());
        }
        let missing = loaded.path.ancestors().skip(1).take_while(|directory| !directory.exists());
        if entry.directories.is_empty() {
            entry.directories = missing.map(Path::to_owned).collect();
            entry.directories.reverse();
        }
        let before = self.document.entries.clone();
        self.forget(&entry.owner.clone(), &entry.path.clone());
        self.document.entries.push(entry);
        self.save()?;
        if let Err(error) = loaded.replace(content.as_bytes(), NEW_FILE) {
            self.document.entries = before;
            self.save()?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Plans to take back what an owner has changed in a file.
    ///
    /// # Errors
    /// The file can't be read, or not be understood.
    pub fn plan_undo(&self, entry: &Entry, format: Format) -> Result<Undoing, RecordError> {
        let loaded = Loaded::read(&entry.path)?;
        let malformed = |source| RecordError::Malformed { path: loaded.path.clone(), source };
        let bytes = loaded.content.as_deref().unwrap_or_default();
        let mut draft = Draft::new(bytes, format).map_err(malformed)?;
        let (kept, is_whole) = entry.undo(&mut draft).map_err(malformed)?;
        let is_empty = draft.root().and_then(crate::tree::Node::members).is_some_and(<[_]>::is_empty);
        let gone =
            loaded.content.is_none() || entry.created && (draft.is_blank() || is_empty && kept.is_empty());
        let content = (!gone).then(|| draft.content());
        Ok(Undoing { loaded, content, kept, is_whole, directories: entry.directories.clone() })
    }

    /// Takes back what was planned, and forgets the record.
    ///
    /// # Errors
    /// The file or the record can't be written.
    pub fn undo(&mut self, owner: &Owned, undoing: Undoing) -> Result<(), RecordError> {
        let Undoing { loaded, content, directories, is_whole, .. } = undoing;
        if !is_whole {
            return Ok(());
        }
        match (&content, &loaded.content) {
            (Some(content), Some(old)) if content.as_bytes() != old.as_slice() => {
                loaded.replace(content.as_bytes(), NEW_FILE)?;
            }
            (None, Some(_)) => loaded.remove(&directories)?,
            _ => {}
        }
        self.forget(owner, &loaded.path.clone());
        self.save()
    }

    fn entry(&self, owner: &Owned, path: &Path) -> Option<&Entry> {
        self.document.entries.iter().find(|entry| entry.owner == *owner && entry.path == path)
    }

    fn forget(&mut self, owner: &Owned, path: &Path) {
        self.document.entries.retain(|entry| entry.owner != *owner || entry.path != path);
    }

    fn save(&self) -> Result<(), RecordError> {
        let loaded = Loaded::read(&self.file)?;
        if self.document.entries.is_empty() {
            if loaded.content.is_some() {
                loaded.remove(&[])?;
            }
            return Ok(());
        }
        let mut text = serde_json::to_vec_pretty(&self.document)
            .map_err(|source| RecordError::Damaged { path: self.file.clone(), source })?;
        text.push(b'\n');
        loaded.replace(&text, NEW_FILE)?;
        Ok(())
    }
}

impl Entry {
    /// The changes, in the order in which they were made.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Takes the changes back. Returns the members that another has changed, which stay, and whether it was done: a
    /// server's command and its arguments go together or not at all.
    fn undo(&self, draft: &mut Draft) -> Result<(Vec<Vec<String>>, bool), Malformed> {
        let mut undone = draft.clone();
        let (mut kept, mut is_whole) = (Vec::new(), true);
        for change in self.changes.iter().rev() {
            if undone.undo(change)? == Undone::Changed {
                kept.push(change.path.clone());
                // A list that was made for the words may have got others.
                let is_empty = change.value.as_array().is_some_and(Vec::is_empty);
                is_whole &= is_empty || matches!(self.owner, Owned::Agent(_));
            }
        }
        if is_whole {
            *draft = undone;
        }
        Ok((kept, is_whole))
    }

    /// Whether all changes are in the file's content.
    #[must_use]
    pub fn is_in(&self, draft: &Draft) -> bool {
        self.changes.iter().all(|change| draft.has(change))
    }
}
