// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trust database: a database file, a write-ahead log of changes over it, and the lock that writers hold.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::base::{self, Base, Records};
use super::build::{self, Builder};
use super::edit::{self, Mistake, TrustFiles};
use super::entry::{Digest, Entry, Record, Seen, Source};
use super::wal::{self, Change, Overlay};

/// From this many changed paths on, a rebuild pays off.
pub const MANY_CHANGES: usize = 20_000;

/// Trust files of this size in bytes are read line by line.
const LARGE: u64 = 2 << 20;

/// The trust database can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database file.
    #[error(transparent)]
    Base(#[from] base::Error),
    /// The write-ahead log.
    #[error(transparent)]
    Wal(#[from] wal::Error),
    /// A new database file.
    #[error(transparent)]
    Build(#[from] build::Error),
    /// The trust files.
    #[error(transparent)]
    Files(#[from] edit::Error),
    /// Locking failed, but not because another process holds the lock.
    #[error("can't lock the trust database with {path}: {source}")]
    Lock {
        /// The file that is locked.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process changes the database.
    #[error("another process is changing the trust database and holds the lock {path}")]
    Locked {
        /// The file that is locked.
        path: PathBuf,
    },
}

/// Where a trust database is.
#[derive(Debug, Clone)]
pub struct Location {
    directory: PathBuf,
}

/// A trust database that is open for look-ups.
#[derive(Debug)]
pub struct Store {
    location: Location,
    base: Base,
    overlay: Overlay,
}

/// The right to change a trust database. Only one process has it at a time.
#[derive(Debug)]
pub struct Writer {
    location: Location,
    lock: File,
}

/// A record that was found.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The file's path.
    pub path: &'a [u8],
    /// How many bytes it has.
    pub size: u64,
    /// Its digest.
    pub digest: Digest,
    /// The source that trusts the file.
    pub source: &'a Source,
    /// How it looked when it was hashed.
    pub seen: Option<Seen>,
}

impl Found<'_> {
    /// The record, with a path and source of its own.
    #[must_use]
    pub fn to_record(&self) -> Record {
        let (path, source) = (self.path.to_vec(), self.source.clone());
        Record { entry: Entry { path, size: self.size, digest: self.digest, source }, seen: self.seen }
    }
}

impl<'a> From<&'a Record> for Found<'a> {
    fn from(Record { entry, seen }: &'a Record) -> Self {
        Self { path: &entry.path, size: entry.size, digest: entry.digest, source: &entry.source, seen: *seen }
    }
}

impl Location {
    /// The database in this directory: `trust.db`, its write-ahead log `trust.log` and `trust.lock`. Only root should
    /// be able to write the directory.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.into() }
    }

    /// The database file.
    #[must_use]
    pub fn base(&self) -> PathBuf {
        self.directory.join("trust.db")
    }

    /// Its write-ahead log.
    #[must_use]
    pub fn wal(&self) -> PathBuf {
        self.directory.join("trust.log")
    }

    /// The file that writers lock.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.directory.join("trust.lock")
    }
}

impl Store {
    /// Opens the database.
    ///
    /// # Errors
    ///
    /// If there is no database, or it or its write-ahead log is damaged, cut off, of another version, or other users
    /// could have written it.
    pub fn open(location: &Location) -> Result<Self, Error> {
        let base_path = location.base();
        let mut base = Base::open(&base_path)?;
        loop {
            let overlay = Overlay::read(&location.wal(), base.id())?;
            // A rebuild may have replaced both in between. The new write-ahead log doesn't apply to the old database.
            let newest = Base::open(&base_path)?;
            if newest.id() == base.id() {
                return Ok(Self { location: location.clone(), base, overlay });
            }
            base = newest;
        }
    }

    /// Checks whether another process changed the database, and reads what is new. Returns whether there was a change.
    /// Costs two system calls if there wasn't.
    ///
    /// # Errors
    ///
    /// As for [`Store::open`]; the old content stays open then.
    pub fn refresh(&mut self) -> Result<bool, Error> {
        let same =
            |one: &fs::Metadata, other: &fs::Metadata| one.ino() == other.ino() && one.dev() == other.dev();
        let unchanged = match (fs::metadata(self.location.base()), self.base.file().metadata()) {
            (Ok(named), Ok(open)) => same(&named, &open),
            _ => false,
        };
        let wal = fs::metadata(self.location.wal()).map(|about| wal::looks(&about));
        if unchanged && wal.unwrap_or_default() == self.overlay.looks {
            return Ok(false);
        }
        *self = Self::open(&self.location)?;
        Ok(true)
    }

    /// Calls `each` with every source that trusts `path`, and the size that the file should have (`None` if it takes
    /// [`Store::find`] to know: 1 TiB and more). Uses only memory.
    ///
    /// # Errors
    ///
    /// If the database is damaged.
    pub fn who(&self, path: &[u8], mut each: impl FnMut(&Source, Option<u64>)) -> Result<(), Error> {
        if !self.overlay.is_empty()
            && let Some(records) = self.overlay.paths.get(path)
        {
            records.iter().for_each(|record| each(&record.entry.source, Some(record.entry.size)));
            return Ok(());
        }
        Ok(self.base.who(path, each)?)
    }

    /// Calls `each` for every record of `path`, without allocating.
    ///
    /// # Errors
    ///
    /// If the disk fails or a record is damaged.
    pub fn find(&self, path: &[u8], mut each: impl FnMut(Found<'_>)) -> Result<(), Error> {
        if !self.overlay.is_empty()
            && let Some(records) = self.overlay.paths.get(path)
        {
            records.iter().for_each(|record| each(record.into()));
            return Ok(());
        }
        Ok(self.base.find(path, |raw, source| {
            each(Found { path: raw.path, size: raw.size, digest: raw.digest, source, seen: raw.seen });
        })?)
    }

    /// Every record of `path`.
    ///
    /// # Errors
    ///
    /// As for [`Store::find`].
    pub fn lookup(&self, path: &[u8]) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        self.find(path, |found| records.push(found.to_record()))?;
        Ok(records)
    }

    /// Calls `each` for every record, in no particular order, until it fails.
    ///
    /// # Errors
    ///
    /// If the disk fails or a record is damaged; and the error of `each`.
    pub fn each<E: From<Error>>(&self, mut each: impl FnMut(Found<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut records: Records<'_> = self.base.records();
        while let Some((raw, source)) = records.advance().map_err(Error::from)? {
            if self.overlay.is_empty() || !self.overlay.paths.contains_key(raw.path) {
                each(Found { path: raw.path, size: raw.size, digest: raw.digest, source, seen: raw.seen })?;
            }
        }
        self.overlay.paths.values().flatten().try_for_each(|record| each(record.into()))
    }

    /// The sources of the database. A source may have no records any more.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        let changed = self.overlay.paths.values().flatten().map(|record| &record.entry.source);
        self.base.sources().iter().chain(changed)
    }

    /// How many paths were changed since the database was built. From [`MANY_CHANGES`] on, rebuild.
    #[must_use]
    pub fn changed_paths(&self) -> usize {
        self.overlay.len()
    }

    /// How many records the database file has, without its write-ahead log.
    #[must_use]
    pub const fn built_records(&self) -> u64 {
        self.base.len()
    }
}

impl Writer {
    /// Takes the right to change the database. The directory must exist.
    ///
    /// # Errors
    ///
    /// If another process has it.
    pub fn lock(location: &Location) -> Result<Self, Error> {
        let path = location.lock();
        let failed = |source: io::Error| Error::Lock { path: path.clone(), source };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&path).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { location: location.clone(), lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked { path }),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Begins a new database. Nothing changes until [`Writer::finish`].
    ///
    /// # Errors
    ///
    /// If the new file can't be made.
    pub fn rebuild(&mut self) -> Result<Builder, Error> {
        Ok(Builder::new(&self.location.base())?)
    }

    /// Replaces the old database and its write-ahead log by a new database. Returns the number of records.
    ///
    /// # Errors
    ///
    /// If the disk is full or fails; the old database stays then.
    pub fn finish(&mut self, builder: Builder) -> Result<u64, Error> {
        let entries = builder.finish()?;
        // If this fails, the write-ahead log is still recognized as another database's.
        match fs::remove_file(self.location.wal()) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Wal(wal::Error::File { operation: "remove", path: self.location.wal(), source }))
            }
            _ => Ok(entries),
        }
    }

    /// Merges the write-ahead log into a new database file. Returns the number of records.
    ///
    /// # Errors
    ///
    /// As for [`Writer::finish`], or if the old database is damaged.
    pub fn merge(&mut self) -> Result<u64, Error> {
        let store = Store::open(&self.location)?;
        let mut builder = self.rebuild()?;
        store.each(|found| builder.push(&found.to_record()).map_err(Error::from))?;
        self.finish(builder)
    }

    /// Changes the records of some paths, all at once: if the process is killed, either all changes have happened or
    /// none.
    ///
    /// # Errors
    ///
    /// If a path isn't absolute and normalized, or the disk is full; nothing has changed then.
    pub fn change(&mut self, store: &mut Store, changes: Vec<Change>) -> Result<(), Error> {
        store.refresh()?;
        if changes.is_empty() {
            return Ok(());
        }
        Ok(store.overlay.append(&self.location.wal(), store.base.id(), changes)?)
    }

    /// Replaces all records of trust files by the trust files' current content. Calls `mistaken` for lines that can't
    /// be read.
    ///
    /// Small changes are appended to the write-ahead log. If there are many lines, the database is rebuilt from the
    /// records of other sources and from the trust files, because the write-ahead log's content is kept in memory.
    ///
    /// # Errors
    ///
    /// As for [`Writer::change`], or if the files can't be read.
    pub fn replace_files(
        &mut self,
        store: &mut Store,
        files: &TrustFiles,
        mut mistaken: impl FnMut(Mistake),
    ) -> Result<(), Error> {
        let is_of = |source: &Source| matches!(source, Source::File(_));
        store.refresh()?;
        let mut before = 0;
        store.each(|found| {
            before += usize::from(is_of(found.source));
            Ok::<(), Error>(())
        })?;
        if before < MANY_CHANGES && files.size()? < LARGE {
            let said = files.read()?;
            said.mistakes.into_iter().for_each(mistaken);
            return self.replace(store, is_of, said.records).map(drop);
        }
        let mut builder = self.rebuild()?;
        store.each(|found| {
            if !is_of(found.source) {
                builder.push(&found.to_record())?;
            }
            Ok::<(), Error>(())
        })?;
        files.each(|read| {
            match read {
                Ok(record) => builder.push(&record)?,
                Err(mistake) => mistaken(mistake),
            }
            Ok::<(), Error>(())
        })?;
        self.finish(builder).map(drop)
    }

    /// Replaces all records of the sources that `is_of` selects by `records`; other sources' records stay. Returns how
    /// many paths changed.
    ///
    /// This is used for a trust file that was edited, or packages that were upgraded. It reads all of the database once
    /// (0.1 s for a million files) and appends the difference to the write-ahead log.
    ///
    /// # Errors
    ///
    /// As for [`Writer::change`].
    pub fn replace(
        &mut self,
        store: &mut Store,
        is_of: impl Fn(&Source) -> bool,
        records: Vec<Record>,
    ) -> Result<usize, Error> {
        store.refresh()?;
        let mut wanted: HashMap<Vec<u8>, Vec<Record>> = HashMap::new();
        for record in records {
            wanted.entry(record.entry.path.clone()).or_default().push(record);
        }
        let mut touched: Vec<Vec<u8>> = Vec::new();
        store.each(|found| {
            if is_of(found.source) && !wanted.contains_key(found.path) {
                touched.push(found.path.to_vec());
            }
            Ok::<(), Error>(())
        })?;
        touched.extend(wanted.keys().cloned());
        touched.sort_unstable();
        touched.dedup();
        let mut changes = Vec::new();
        for path in touched {
            let mut before = store.lookup(&path)?;
            let mut after: Vec<Record> =
                before.iter().filter(|record| !is_of(&record.entry.source)).cloned().collect();
            after.extend(wanted.remove(&path).unwrap_or_default());
            before.sort_unstable();
            after.sort_unstable();
            after.dedup();
            if before != after {
                changes.push(Change { path, records: after });
            }
        }
        let count = changes.len();
        self.change(store, changes)?;
        Ok(count)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Closing isn't enough: a process that was forked in the meantime also has the lock's file, until it executes.
        let _nothing_more_to_do = flock(&self.lock, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests;
