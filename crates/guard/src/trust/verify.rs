// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares all trusted files with the disk, and writes the database as text.

use std::collections::HashSet;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::entry::{Algorithm, Digest, Record, Source};
use super::import::Progress;
use super::measure::{self, Meter};
use super::real_path::below;
use super::store::{self, Found, Store};
use super::trust_file::escape;

/// How many records a thread passes on at once.
const BATCH: usize = 64;
/// How many batches a queue holds.
const QUEUE: usize = 16;

/// Which records are selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only records of these sources.
    pub sources: Option<HashSet<Source>>,
    /// Only this path and the paths below it.
    pub below: Option<Vec<u8>>,
}

impl Selection {
    /// The sources of a database that `name` selects: by their kind, or by a package's name or a path. `None` if no
    /// source has this name.
    #[must_use]
    pub fn sources(store: &Store, name: &str) -> Option<HashSet<Source>> {
        let sources: HashSet<Source> =
            store.sources().filter(|source| is_called(source, name)).cloned().collect();
        let is_kind = matches!(name, "dpkg" | "rpm" | "file" | "directory");
        (is_kind || !sources.is_empty()).then_some(sources)
    }
}

fn is_called(source: &Source, name: &str) -> bool {
    let kind = match source {
        Source::Dpkg(_) => "dpkg",
        Source::Rpm(_) => "rpm",
        Source::File(_) => "file",
        Source::Directory(_) => "directory",
    };
    let own = &source.name()[..];
    // `libc6` also selects `libc6:amd64`.
    kind == name
        || own == name.as_bytes()
        || own.strip_prefix(name.as_bytes()).is_some_and(|rest| kind == "dpkg" && rest.starts_with(b":"))
}

/// A trusted file whose state on the disk differs from the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The record in the database.
    pub record: Record,
    /// What is on the disk.
    pub found: OnDisk,
}

/// What is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisk {
    /// Nothing, or not a file.
    Missing,
    /// A file that can't be read.
    Unreadable,
    /// A file that changed while it was read.
    Unstable,
    /// A file of this size and digest.
    Other {
        /// How many bytes it has.
        size: u64,
        /// Its SHA-256.
        digest: Digest,
    },
}

impl Selection {
    /// Is a record selected?
    #[must_use]
    pub fn takes(&self, found: &Found<'_>) -> bool {
        self.sources.as_ref().is_none_or(|sources| sources.contains(found.source))
            && self.below.as_ref().is_none_or(|below| {
                let below = below.strip_suffix(b"/").unwrap_or(below);
                found.path.strip_prefix(below).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            })
    }
}

impl Store {
    /// The selected records, by path.
    ///
    /// # Errors
    ///
    /// If the database is damaged.
    pub fn list(&self, selection: &Selection) -> Result<Vec<Record>, store::Error> {
        let mut records = Vec::new();
        self.each(|found| {
            if selection.takes(&found) {
                records.push(found.to_record());
            }
            Ok::<(), store::Error>(())
        })?;
        records.sort_unstable();
        Ok(records)
    }

    /// Writes the selected records, by path: kind of source, path, size and digest, in the form of `fapolicyd-cli
    /// --dump-db`, but with paths escaped as in trust files.
    ///
    /// # Errors
    ///
    /// If the database is damaged or `out` can't be written.
    pub fn dump(&self, selection: &Selection, out: impl Write) -> Result<(), DumpError> {
        let mut out = io::BufWriter::new(out);
        for Record { entry, .. } in self.list(selection)? {
            write!(out, "{} ", entry.source.kind())?;
            out.write_all(&escape(&entry.path))?;
            writeln!(out, " {} {}", entry.size, entry.digest)?;
        }
        Ok(out.flush()?)
    }

    /// Hashes the files of all selected records, below `root`, on all cores. Calls `each` for those that differ, and
    /// `progress` now and then. Attributes of the last import are not trusted.
    ///
    /// # Errors
    ///
    /// If the database is damaged.
    pub fn verify(
        &self,
        root: &Path,
        selection: &Selection,
        mut each: impl FnMut(Difference),
        mut progress: impl FnMut(Progress),
    ) -> Result<Progress, store::Error> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        std::thread::scope(|scope| {
            let (records, to_hash) = sync_channel::<Vec<Record>>(QUEUE);
            let (results, done) = sync_channel::<(Vec<Difference>, Progress)>(QUEUE);
            let to_hash = std::sync::Arc::new(Mutex::new(to_hash));
            for _ in 0..threads {
                let (to_hash, results) = (to_hash.clone(), results.clone());
                scope.spawn(move || work(root, &to_hash, &results));
            }
            drop(to_hash);
            drop(results);
            let reader = scope.spawn(move || {
                let mut batch = Vec::new();
                let read = self.each(|found| {
                    if selection.takes(&found) {
                        batch.push(found.to_record());
                        if batch.len() == BATCH {
                            // The receivers are gone only if all of them have panicked, which is reported below.
                            let _sent = records.send(std::mem::take(&mut batch));
                        }
                    }
                    Ok::<(), store::Error>(())
                });
                let _sent = records.send(batch);
                read
            });
            let mut all = Progress { total: self.built_records(), ..Progress::default() };
            for (differences, more) in done {
                all.done += more.done;
                all.bytes += more.bytes;
                differences.into_iter().for_each(&mut each);
                progress(all);
            }
            match reader.join() {
                Ok(read) => read?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
            all.total = all.done;
            Ok(all)
        })
    }
}

/// A dump can't be written.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The output.
    #[error("can't write the dump of the trust database: {0}")]
    Write(#[from] io::Error),
}

fn work(root: &Path, queue: &Mutex<Receiver<Vec<Record>>>, out: &SyncSender<(Vec<Difference>, Progress)>) {
    let mut meter = Meter::default();
    loop {
        let records = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(poisoned) => poisoned.into_inner().recv(),
        };
        let Ok(records) = records else { return };
        let mut progress = Progress { done: records.len() as u64, ..Progress::default() };
        let differences = records.into_iter().filter_map(|record| {
            let found = compare(&mut meter, root, &record, &mut progress.bytes)?;
            Some(Difference { record, found })
        });
        let differences = differences.collect();
        if out.send((differences, progress)).is_err() {
            return;
        }
    }
}

fn compare(meter: &mut Meter, root: &Path, record: &Record, bytes: &mut u64) -> Option<OnDisk> {
    let entry = &record.entry;
    let md5 = (entry.digest.algorithm() == Some(Algorithm::Md5)).then_some([0; 16]);
    match meter.measure(&below(root, &entry.path), md5) {
        Ok(measured) => {
            *bytes += measured.size;
            let same = match &entry.digest {
                Digest::None => true,
                Digest::Md5(digest) => measured.md5 == Some(*digest),
                digest => *digest == measured.sha256,
            };
            let (size, digest) = (measured.size, measured.sha256);
            (!same || size != entry.size).then_some(OnDisk::Other { size, digest })
        }
        Err(measure::Error::Missing | measure::Error::NotRegular) => Some(OnDisk::Missing),
        Err(measure::Error::Unreadable | measure::Error::Read(_)) => Some(OnDisk::Unreadable),
        Err(measure::Error::Unstable) => Some(OnDisk::Unstable),
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Entry;
    use super::super::store::{Location, Writer};
    use super::*;

    #[test]
    fn differences_are_found_and_all_is_listed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let location = Location::new(&root);
        let mut writer = Writer::lock(&location).unwrap();
        let mut builder = writer.rebuild().unwrap();
        let mut meter = Meter::default();
        std::fs::create_dir(root.join("bin")).unwrap();
        for number in 0..300 {
            let name = format!("bin/{number} x");
            std::fs::write(root.join(&name), &name).unwrap();
            let measured = meter.measure(&root.join(&name), None).unwrap();
            let source = Source::Dpkg(if number < 10 { &b"a"[..] } else { b"b" }.into());
            let path = format!("/{name}").into_bytes();
            let entry = Entry { path, size: measured.size, digest: measured.sha256, source };
            builder.push(&Record { entry, seen: None }).unwrap();
        }
        writer.finish(builder).unwrap();
        let store = Store::open(&location).unwrap();
        let verify = |selection: &Selection| {
            let mut differences = Vec::new();
            let progress = store.verify(&root, selection, |difference| differences.push(difference), |_| ());
            differences.sort_by(|one, other| one.record.cmp(&other.record));
            (differences, progress.unwrap().done)
        };
        let all = Selection::default();
        assert_eq!(verify(&all), (vec![], 300));
        std::fs::write(root.join("bin/1 x"), "bin/2 x").unwrap();
        std::fs::remove_file(root.join("bin/2 x")).unwrap();
        let (differences, _) = verify(&all);
        assert!(matches!(differences[0].found, OnDisk::Other { size: 7, .. }));
        assert_eq!(differences[1].found, OnDisk::Missing);
        assert_eq!(differences.len(), 2);
        let a = Selection { sources: Some([Source::Dpkg(b"a"[..].into())].into()), below: None };
        assert_eq!(verify(&a).1, 10);
        let one = Selection { sources: None, below: Some(b"/bin/77 x".to_vec()) };
        let mut dump = Vec::new();
        store.dump(&one, &mut dump).unwrap();
        let dump = String::from_utf8(dump).unwrap();
        assert!(dump.starts_with("debdb /bin/77%20x 8 ") && dump.lines().count() == 1, "{dump}");
        let below = Selection { sources: None, below: Some(b"/bin/".to_vec()) };
        assert_eq!(store.list(&below).unwrap().len(), 300);
        assert!(store.list(&Selection { sources: None, below: Some(b"/bi".to_vec()) }).unwrap().is_empty());
    }
}
