// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports packages and directories: lists their files, and hashes them on all cores.
//!
//! One thread reads lists and directories, and as many threads as there are cores hash. The caller gets the result for
//! each file, in no particular order. Between the threads are short queues, so memory doesn't grow with the number of
//! files. A package's file is trusted if it has the MD5 that the package gives; its SHA-256 is recorded.

use std::fs;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::base::Base;
use super::dpkg;
use super::entry::{Digest, Entry, Record, Source, is_real_path};
use super::filter::Filter;
use super::measure::{self, Meter, looks};
use super::real_path::{RealPaths, below};
use super::rpm;

/// How many files a thread passes on at once.
const BATCH: usize = 64;
/// How many batches a queue holds.
const QUEUE: usize = 16;
/// The deepest nesting of directories that is read.
const DEEPEST: usize = 64;

/// An import failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// dpkg's database can't be read.
    #[error(transparent)]
    Dpkg(#[from] dpkg::Error),
    /// rpm's database can't be read.
    #[error(transparent)]
    Rpm(#[from] rpm::Error),
    /// A directory can't be read.
    #[error("can't import the directory {path}: {source}")]
    Directory {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There are more files than the request allows.
    #[error("there are more than {0} files to import")]
    TooMany(u64),
    /// Directories are nested too deeply.
    #[error("can't import {path}: it is more than {DEEPEST} directories deep")]
    TooDeep {
        /// Which one.
        path: PathBuf,
    },
}

/// What to import.
#[derive(Debug, Clone)]
pub struct Request {
    /// The root directory: `/`, except in tests.
    pub root: PathBuf,
    /// Which files are imported.
    pub filter: Filter,
    /// The sources of the files.
    pub from: Vec<Origin>,
    /// Hash all files, even if they look unchanged.
    pub hard: bool,
    /// The most files to hash.
    pub most: u64,
    /// How many threads hash; by default as many as there are cores.
    pub threads: Option<NonZero<usize>>,
}

/// A source of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// All packages of dpkg.
    Packages,
    /// Only these packages of dpkg.
    SomePackages(Vec<Vec<u8>>),
    /// All packages of rpm. Their digests are strong, so nothing is hashed.
    Rpm,
    /// A directory and everything below, links not followed: files that may be executed, and libraries (`*.so*`).
    Executables(PathBuf),
    /// A directory and everything below, links not followed: what the filter imports.
    Directory(PathBuf),
}

/// The result for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The file is trusted.
    Trusted(Record),
    /// The file differs from what its package says: not trusted.
    Differs {
        /// Where it is.
        path: Vec<u8>,
        /// The source that lists it.
        source: Source,
        /// The digest that the package gives.
        expected: Digest,
        /// The digest that it has.
        found: Digest,
    },
    /// The importing process may not read the file. A process with more rights has to hash it.
    Unreadable {
        /// Where it is.
        path: Vec<u8>,
        /// The source that lists it.
        source: Source,
        /// The MD5 that the package gives.
        md5: Option<[u8; 16]>,
    },
    /// The file is listed, but is missing, or isn't a regular file, or changed while it was read: not trusted.
    Missing {
        /// Where it is.
        path: Vec<u8>,
        /// The source that lists it.
        source: Source,
    },
    /// The file's package gives no MD5 for it: not trusted.
    Undigested {
        /// Where it is.
        path: Vec<u8>,
        /// The source that lists it.
        source: Source,
    },
    /// The progress.
    Progress(Progress),
}

/// The progress of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many files are done.
    pub done: u64,
    /// How many files were found so far. The number grows until all lists are read.
    pub total: u64,
    /// How many bytes were hashed.
    pub bytes: u64,
}

/// A file that may be trusted.
#[derive(Debug)]
struct Candidate {
    path: Vec<u8>,
    md5: Option<[u8; 16]>,
    source: Source,
}

struct Batch {
    events: Vec<Event>,
    found: u64,
    bytes: u64,
}

/// Imports, and calls `each` with the result for each file, and now and then with the progress, until `each` fails.
/// `previous` is the database of the last import: its files aren't hashed again if they look the same.
///
/// # Errors
///
/// If lists or directories can't be read; and the error of `each`.
pub fn import<E: From<Error>>(
    request: &Request,
    previous: Option<&Base>,
    mut each: impl FnMut(Event) -> Result<(), E>,
) -> Result<Progress, E> {
    let cores = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let threads = request.threads.unwrap_or_else(cores).get();
    let previous = previous.filter(|_| !request.hard);
    std::thread::scope(|scope| {
        let (candidates, to_hash) = sync_channel::<Vec<Candidate>>(QUEUE);
        let (results, done) = sync_channel::<Batch>(QUEUE);
        let to_hash = std::sync::Arc::new(Mutex::new(to_hash));
        for _ in 0..threads {
            let (to_hash, results) = (to_hash.clone(), results.clone());
            scope.spawn(move || work(&request.root, previous, &to_hash, &results));
        }
        // Only the workers hold the queue now. When all of them have ended, the finder gets an error.
        drop(to_hash);
        let finder = scope.spawn(move || {
            let paths = RealPaths::new(&request.root);
            let mut finder = Finder { request, paths, batch: Vec::new(), count: 0, out: candidates, results };
            finder.find()
        });
        let mut progress = Progress::default();
        for batch in done {
            progress.total += batch.found;
            progress.bytes += batch.bytes;
            for event in batch.events {
                progress.done += 1;
                each(event)?;
            }
            each(Event::Progress(progress))?;
        }
        match finder.join() {
            Ok(found) => found?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(progress)
    })
}

fn work(
    root: &Path,
    previous: Option<&Base>,
    queue: &Mutex<Receiver<Vec<Candidate>>>,
    out: &SyncSender<Batch>,
) {
    let mut meter = Meter::default();
    loop {
        let candidates = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(poisoned) => poisoned.into_inner().recv(),
        };
        let Ok(candidates) = candidates else { return };
        let mut batch = Batch { events: Vec::with_capacity(candidates.len()), found: 0, bytes: 0 };
        for candidate in candidates {
            let known = previous.and_then(|previous| known(root, previous, &candidate));
            let event = match known {
                Some(record) => Event::Trusted(record),
                None => judge(&mut meter, root, candidate, &mut batch.bytes),
            };
            batch.events.push(event);
        }
        if out.send(batch).is_err() {
            return;
        }
    }
}

/// The record of the last import, if the file looks as it did then and its package gives the same digest.
fn known(root: &Path, previous: &Base, candidate: &Candidate) -> Option<Record> {
    let about = fs::symlink_metadata(below(root, &candidate.path)).ok().filter(fs::Metadata::is_file)?;
    let looks = looks(&about, candidate.md5.unwrap_or_default());
    let mut found = None;
    // If a record can't be read, the file is hashed.
    let _damaged = previous.find(&candidate.path, |raw, source| {
        let same = raw.seen == Some(looks) && raw.size == about.len() && *source == candidate.source;
        if same && matches!(raw.digest, Digest::Sha256(_)) {
            found = Some(raw.digest);
        }
    });
    let (path, source) = (candidate.path.clone(), candidate.source.clone());
    let entry = Entry { path, size: about.len(), digest: found?, source };
    Some(Record { entry, seen: Some(looks) })
}

fn judge(meter: &mut Meter, root: &Path, candidate: Candidate, bytes: &mut u64) -> Event {
    let Candidate { path, md5, source } = candidate;
    match meter.measure(&below(root, &path), md5) {
        Ok(measured) => {
            *bytes += measured.size;
            match (md5, measured.md5) {
                (Some(expected), Some(found)) if expected != found => {
                    let (expected, found) = (Digest::Md5(expected), Digest::Md5(found));
                    Event::Differs { path, source, expected, found }
                }
                _ => {
                    let entry = Entry { path, size: measured.size, digest: measured.sha256, source };
                    Event::Trusted(Record { entry, seen: measured.seen })
                }
            }
        }
        Err(measure::Error::Unreadable) => Event::Unreadable { path, source, md5 },
        Err(_) => Event::Missing { path, source },
    }
}

/// Hashes a file that a loader could not read, with the rights of the calling process.
#[must_use]
pub fn judge_unreadable(root: &Path, path: Vec<u8>, source: Source, md5: Option<[u8; 16]>) -> Event {
    judge(&mut Meter::default(), root, Candidate { path, md5, source }, &mut 0)
}

/// The hashing threads have ended. The reason is reported elsewhere.
struct Gone;

enum Stop {
    Gone,
    Error(Error),
}

impl From<Gone> for Stop {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

struct Finder<'a> {
    request: &'a Request,
    paths: RealPaths,
    batch: Vec<Candidate>,
    count: u64,
    out: SyncSender<Vec<Candidate>>,
    results: SyncSender<Batch>,
}

impl Finder<'_> {
    fn find(&mut self) -> Result<(), Error> {
        let found = self.request.from.iter().try_for_each(|from| match from {
            Origin::Packages => self.packages(None),
            Origin::SomePackages(names) => self.packages(Some(names)),
            Origin::Rpm => self.rpm(),
            Origin::Executables(directory) => self.directory(directory, true),
            Origin::Directory(directory) => self.directory(directory, false),
        });
        match found.and_then(|()| self.flush().map_err(Stop::from)) {
            Err(Stop::Error(error)) => Err(error),
            Ok(()) | Err(Stop::Gone) => Ok(()),
        }
    }

    fn packages(&mut self, only: Option<&Vec<Vec<u8>>>) -> Result<(), Stop> {
        let database = dpkg::Database::open(&self.request.root)?;
        let only: Option<Vec<dpkg::Package>> =
            only.map(|names| names.iter().filter_map(|name| database.package(name)).collect());
        for package in only.as_deref().unwrap_or(database.packages()) {
            let source = Source::Dpkg(package.name.as_slice().into());
            for listed in database.files(package)? {
                let Some(path) = self.paths.of(&listed.path) else { continue };
                if !self.request.filter.imports(&path) {
                    continue;
                }
                match listed.md5 {
                    Some(_) => self.push(Candidate { path, md5: listed.md5, source: source.clone() })?,
                    // Most of these are directories and links.
                    None => {
                        let about = fs::symlink_metadata(self.paths.on_disk(&path));
                        if about.is_ok_and(|about| about.is_file()) {
                            self.tell(Event::Undigested { path, source: source.clone() })?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn rpm(&mut self) -> Result<(), Stop> {
        let Some(database) = rpm::find(&self.request.root)? else { return Ok(()) };
        rpm::packages(&database, |package| {
            let source = Source::Rpm(package.name.as_slice().into());
            for listed in package.files {
                let Some(path) = self.paths.of(&listed.path) else { continue };
                if !self.request.filter.imports(&path) {
                    continue;
                }
                match listed.digest {
                    Digest::Md5(md5) => {
                        self.push(Candidate { path, md5: Some(md5), source: source.clone() })?;
                    }
                    digest => {
                        let source = source.clone();
                        let about = fs::symlink_metadata(self.paths.on_disk(&path));
                        let event = if about.is_ok_and(|about| about.is_file()) {
                            let entry = Entry { path, size: listed.size, digest, source };
                            Event::Trusted(Record { entry, seen: None })
                        } else {
                            Event::Missing { path, source }
                        };
                        self.tell(event)?;
                    }
                }
            }
            Ok(())
        })
    }

    fn directory(&mut self, directory: &Path, executables: bool) -> Result<(), Stop> {
        let name = directory.as_os_str().as_bytes();
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let source = Source::Directory(if name.is_empty() { b"/" } else { name }.into());
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::Directory { path, source }
        };
        let inside = self.paths.of(name).unwrap_or_default();
        let mut left = vec![(inside, 0)];
        while let Some((inside, depth)) = left.pop() {
            let on_disk = self.paths.on_disk(&inside);
            if depth > DEEPEST {
                return Err(Error::TooDeep { path: on_disk }.into());
            }
            for entry in fs::read_dir(&on_disk).map_err(failed(&on_disk))? {
                let entry = entry.map_err(failed(&on_disk))?;
                let path = [&inside[..], b"/", entry.file_name().as_bytes()].concat();
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    left.push((path, depth + 1));
                    continue;
                }
                let wanted = if executables {
                    let library = || entry.file_name().as_bytes().windows(3).any(|three| three == b".so");
                    let mode = || entry.metadata().map_or(0, |about| about.permissions().mode());
                    library() || mode() & 0o111 != 0
                } else {
                    self.request.filter.imports(&path)
                };
                if kind.is_file() && wanted && is_real_path(&path) {
                    self.push(Candidate { path, md5: None, source: source.clone() })?;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, candidate: Candidate) -> Result<(), Stop> {
        self.count += 1;
        if self.count > self.request.most {
            return Err(Error::TooMany(self.request.most).into());
        }
        self.batch.push(candidate);
        if self.batch.len() == BATCH {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Gone> {
        let batch = std::mem::take(&mut self.batch);
        let found = batch.len() as u64;
        self.out.send(batch).map_err(|_| Gone)?;
        self.results.send(Batch { events: Vec::new(), found, bytes: 0 }).map_err(|_| Gone)
    }

    fn tell(&self, event: Event) -> Result<(), Gone> {
        self.results.send(Batch { events: vec![event], found: 1, bytes: 0 }).map_err(|_| Gone)
    }
}

#[cfg(test)]
mod tests;
