// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Edits trust files: adds and deletes files, and measures them again.
//!
//! The set of trust files is one main file and all files of a directory beside it (`fapolicyd.trust` and `trust.d`). An
//! editor holds a lock on the directory with the main file, so editors wait for each other. A file is written under
//! another name, synchronized and renamed. Comments, order, owner, mode and lines that can't be read stay unchanged.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Mode, Uid, fchmod, fchown, flock};

use super::entry::{Entry, Record, Source};
use super::measure::{self, Measured, Meter};
use super::trust_file::{self, Named, Version, header, parse_line, version};

/// A trust file can't be edited or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file system operation failed.
    #[error("can't {operation} {path}: {source}")]
    File {
        /// What can't be done.
        operation: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It isn't the name of a file in the directory of trust files.
    #[error(
        "{name} can't be a trust file's name: it has to be a name without a slash, not beginning with a dot"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The path is trusted already.
    #[error("{path} is in {file} already: update it there, or delete it first")]
    Duplicate {
        /// The path, escaped.
        path: String,
        /// The trust file.
        file: PathBuf,
    },
    /// The path can't be written in this file.
    #[error(
        "{file} can't list {path}, whose name has a newline: choose another file; a new file can list such names"
    )]
    Newline {
        /// The path, escaped.
        path: String,
        /// The trust file.
        file: PathBuf,
    },
    /// A file can't be measured.
    #[error("can't trust {path}: {source}")]
    Measure {
        /// The file.
        path: PathBuf,
        /// Why.
        source: measure::Error,
    },
}

/// The trust files of a host.
#[derive(Debug, Clone)]
pub struct TrustFiles {
    main: PathBuf,
    directory: PathBuf,
}

/// A mistake in one of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {error}")]
pub struct Mistake {
    /// The trust file.
    pub file: PathBuf,
    /// The line and what is wrong with it.
    pub error: trust_file::Error,
}

/// The content of all trust files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// The files that they name. If several trust files name a path, all its records are here.
    pub records: Vec<Record>,
    /// The lines that can't be read. The importer decides whether to continue without them.
    pub mistakes: Vec<Mistake>,
}

/// The right to edit trust files. Other editors wait until it is dropped.
pub struct Editor {
    files: TrustFiles,
    lock: File,
    meter: Meter,
    helper: Option<Helper>,
}

/// Hashes a file that this process may not read. The descriptor is opened with `O_PATH`.
pub type Helper = Box<dyn FnMut(BorrowedFd<'_>) -> Result<Measured, measure::Error>>;

/// The result of an update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Updated {
    /// How many files were measured again.
    pub updated: usize,
    /// Files that couldn't be measured, for example because they are gone. Their lines stay unchanged.
    pub kept: Vec<Vec<u8>>,
}

impl TrustFiles {
    /// One main file, and a directory of more. Neither has to exist.
    #[must_use]
    pub fn new(main: &Path, directory: &Path) -> Self {
        Self { main: main.into(), directory: directory.into() }
    }

    /// The trust files that exist: the main file, then those of the directory by name. Names that begin with a dot are
    /// skipped: files that are being written have such names.
    ///
    /// # Errors
    ///
    /// If the directory can't be read.
    pub fn list(&self) -> Result<Vec<PathBuf>, Error> {
        let failed = |source| Error::File { operation: "read", path: self.directory.clone(), source };
        let mut more = Vec::new();
        match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            entries => {
                for entry in entries.map_err(failed)? {
                    let entry = entry.map_err(failed)?;
                    let hidden = entry.file_name().as_bytes().starts_with(b".");
                    if !hidden && entry.file_type().map_err(failed)?.is_file() {
                        more.push(entry.path());
                    }
                }
            }
        }
        more.sort();
        if self.main.exists() {
            more.insert(0, self.main.clone());
        }
        Ok(more)
    }

    /// Reads all trust files.
    ///
    /// # Errors
    ///
    /// If a file can't be read. Lines that can't be read are in the result.
    pub fn read(&self) -> Result<Said, Error> {
        let mut said = Said::default();
        self.each::<Error>(|read| {
            match read {
                Ok(record) => said.records.push(record),
                Err(mistake) => said.mistakes.push(mistake),
            }
            Ok(())
        })?;
        Ok(said)
    }

    /// Reads all trust files, and calls `tell` for each line, until `tell` fails. Memory grows by a few bytes for each
    /// line.
    ///
    /// # Errors
    ///
    /// If a file can't be read; and the error of `tell`.
    pub fn each<E: From<Error>>(
        &self,
        mut tell: impl FnMut(Result<Record, Mistake>) -> Result<(), E>,
    ) -> Result<(), E> {
        /// Errors of reading are ours, errors of `tell` are the caller's.
        enum Stop<E> {
            Read(io::Error),
            Told(E),
        }
        impl<E> From<io::Error> for Stop<E> {
            fn from(error: io::Error) -> Self {
                Self::Read(error)
            }
        }
        for path in self.list()? {
            let failed = |source| Error::File { operation: "read", path: path.clone(), source };
            let file = BufReader::with_capacity(256 << 10, File::open(&path).map_err(failed)?);
            let source = Source::File(path.as_os_str().as_bytes().into());
            let read = trust_file::each(file, |line| {
                let line = line.map_err(|error| Mistake { file: path.clone(), error });
                tell(line.map(|Named { path, size, digest }| Record {
                    entry: Entry { path, size, digest, source: source.clone() },
                    seen: None,
                }))
                .map_err(Stop::Told)
            });
            match read {
                Ok(()) => {}
                Err(Stop::Read(source)) => return Err(failed(source).into()),
                Err(Stop::Told(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// The size of all trust files, in bytes.
    ///
    /// # Errors
    ///
    /// If the directory can't be read.
    pub fn size(&self) -> Result<u64, Error> {
        Ok(self.list()?.iter().filter_map(|path| fs::metadata(path).ok()).map(|about| about.len()).sum())
    }

    /// The file of this name in the directory, or the main file without a name.
    ///
    /// # Errors
    ///
    /// If it isn't the name of a file.
    pub fn named(&self, name: Option<&str>) -> Result<PathBuf, Error> {
        match name {
            None => Ok(self.main.clone()),
            Some(name) if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) => {
                Err(Error::Name { name: name.into() })
            }
            Some(name) => Ok(self.directory.join(name)),
        }
    }

    /// Takes the right to edit. Waits for other editors.
    ///
    /// # Errors
    ///
    /// If the directory with the main file can't be locked.
    pub fn edit(&self) -> Result<Editor, Error> {
        let directory = parent(&self.main);
        let failed = |source| Error::File { operation: "lock", path: directory.into(), source };
        let lock = File::open(directory).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        Ok(Editor { files: self.clone(), lock, meter: Meter::default(), helper: None })
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // Closing isn't enough: see `Writer` of the database.
        let _nothing_more_to_do = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Editor {
    /// From now on `helper` hashes files that this process may not read: a guard that enforces refuses even root to
    /// read a file that root is about to trust.
    pub fn help_by(&mut self, helper: Helper) {
        self.helper = Some(helper);
    }

    fn measure(&mut self, path: &Path) -> Result<Measured, measure::Error> {
        match (self.meter.measure(path, None), &mut self.helper) {
            (Err(measure::Error::Unreadable), Some(helper)) => helper(measure::find(path)?.as_fd()),
            (measured, _) => measured,
        }
    }

    /// Adds a file, or all regular files below a directory that `wanted` accepts, to the trust file of this name (the
    /// main file without a name). Links aren't followed, except in `path` itself. Returns how many were added.
    ///
    /// # Errors
    ///
    /// If a single file is trusted already (below a directory such files are skipped), can't be measured, or the trust
    /// file can't hold its name or be written. Nothing has changed then.
    pub fn add(
        &mut self,
        path: &Path,
        name: Option<&str>,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<usize, Error> {
        let target = self.files.named(name)?;
        let real = fs::canonicalize(path).map_err(|source| Error::File {
            operation: "find",
            path: path.into(),
            source,
        })?;
        let mut there: HashMap<Vec<u8>, PathBuf> = HashMap::new();
        for record in self.files.read()?.records {
            if let Source::File(file) = &record.entry.source {
                let file = PathBuf::from(std::ffi::OsStr::from_bytes(file));
                there.entry(record.entry.path).or_insert(file);
            }
        }
        let mut new = Vec::new();
        for path in regular_files(&real)? {
            let bytes = path.as_os_str().as_bytes();
            if let Some(file) = there.get(bytes) {
                if path == real {
                    return Err(Error::Duplicate {
                        path: bytes.escape_ascii().to_string(),
                        file: file.clone(),
                    });
                }
                continue;
            }
            if wanted(bytes) {
                let measured = self.measure(&path);
                let measured = measured.map_err(|source| Error::Measure { path: path.clone(), source })?;
                new.push(Named { path: bytes.into(), size: measured.size, digest: measured.sha256 });
            }
        }
        if new.is_empty() {
            return Ok(0);
        }
        let mut text = match read(&target) {
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => header(),
            other => other?,
        };
        if text.is_empty() {
            text = header();
        }
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        let version = version(&text);
        for named in &new {
            text.extend(line(named, version, &target)?);
        }
        replace(&target, &text)?;
        Ok(new.len())
    }

    /// Deletes a path and everything below it from the trust file of this name, or from all without a name. Returns how
    /// many lines were deleted.
    ///
    /// # Errors
    ///
    /// If a trust file can't be read or written.
    pub fn delete(&mut self, path: &Path, name: Option<&str>) -> Result<usize, Error> {
        let mut deleted = 0;
        self.files.rewrite(path, name, |_| {
            deleted += 1;
            Ok(Some(None))
        })?;
        Ok(deleted)
    }

    /// Measures a path and everything below it again, in the trust file of this name, or in all without a name.
    ///
    /// # Errors
    ///
    /// If a trust file can't be read or written.
    pub fn update(&mut self, path: &Path, name: Option<&str>) -> Result<Updated, Error> {
        let mut updated = Updated::default();
        let files = self.files.clone();
        files.rewrite(path, name, |mut named| {
            match self.measure(Path::new(std::ffi::OsStr::from_bytes(&named.path))) {
                Ok(measured) => {
                    updated.updated += 1;
                    (named.size, named.digest) = (measured.size, measured.sha256);
                    Ok(Some(Some(named)))
                }
                Err(_) => {
                    updated.kept.push(named.path);
                    Ok(None)
                }
            }
        })?;
        Ok(updated)
    }
}

impl TrustFiles {
    /// Calls `change` for each line that names `path` or a path below it: it keeps, replaces or deletes the line.
    fn rewrite(
        &self,
        path: &Path,
        name: Option<&str>,
        mut change: impl FnMut(Named) -> Result<Option<Option<Named>>, Error>,
    ) -> Result<(), Error> {
        let files = match name {
            None => self.list()?,
            Some(_) => vec![self.named(name)?],
        };
        // The path as given, or its real path now. A path that is gone can be deleted, too.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let is_meant = |named: &[u8]| {
            [path, &real].iter().any(|path| {
                let path = path.as_os_str().as_bytes();
                let path = path.strip_suffix(b"/").unwrap_or(path);
                named.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            })
        };
        for file in files {
            let text = read(&file)?;
            let version = version(&text);
            let mut out = Vec::with_capacity(text.len());
            for whole in text.split_inclusive(|byte| *byte == b'\n') {
                let bare = whole.strip_suffix(b"\n").unwrap_or(whole);
                let changed = match parse_line(bare, version) {
                    Ok(Some(named)) if is_meant(&named.path) => change(named)?,
                    _ => None,
                };
                match changed {
                    None => out.extend(whole),
                    Some(None) => (),
                    Some(Some(named)) => out.extend(line(&named, version, &file)?),
                }
            }
            if out != text {
                replace(&file, &out)?;
            }
        }
        Ok(())
    }
}

fn line(named: &Named, version: Version, file: &Path) -> Result<Vec<u8>, Error> {
    let path = || named.path.escape_ascii().to_string();
    named.line(version).ok_or_else(|| Error::Newline { path: path(), file: file.into() })
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File { operation: "read", path: path.into(), source })
}

/// The file itself, or the files below it; sorted, without links.
fn regular_files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::File { operation: "read", path, source }
    };
    if !fs::metadata(path).map_err(failed(path))?.is_dir() {
        return Ok(vec![path.into()]);
    }
    let (mut files, mut left) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).map_err(failed(&directory))? {
            let entry = entry.map_err(failed(&directory))?;
            let kind = entry.file_type().map_err(failed(&directory))?;
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Replaces a file, and keeps its owner and mode. A new file belongs to root, and its group may read it.
fn replace(path: &Path, text: &[u8]) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let beside = parent(path).join(std::ffi::OsStr::from_bytes(&[b".", name, b".new"].concat()));
    let failed = |operation| move |source| Error::File { operation, path: path.into(), source };
    let written = (|| {
        let _left_behind = fs::remove_file(&beside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&beside)?;
        if let Ok(about) = fs::metadata(path) {
            fchown(&file, Some(Uid::from_raw(about.uid())), Some(Gid::from_raw(about.gid())))?;
            fchmod(&file, Mode::from_raw_mode(about.mode() & 0o7777))?;
        }
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(parent(path))?.sync_all()
    })();
    if written.is_err() {
        let _left_behind = fs::remove_file(&beside);
    }
    written.map_err(failed("write"))
}

#[cfg(test)]
mod tests;
