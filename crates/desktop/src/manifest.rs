// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records what was made for each application, so that exactly that can be removed:
//! `$XDG_STATE_HOME/palisade/desktop/NAME.json`, where no sandbox can write. What packages have put into the menu is in
//! `menus/ID.json` beside it.
//!
//! A manifest is written before its files are made, and removed after the last of them is gone.

use crate::disk::{self, Content, Disk, DiskError, Identity};
use crate::mime;
use palisade_host::file::{self, FileError, Links};
use palisade_host::places::{self, TrustError, Trustee};
use rustix::fs::{FlockOperation, Mode};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of a manifest's form.
const SCHEMA: u32 = 1;
/// A larger manifest isn't read.
const LARGEST: usize = 4 << 20;
/// How often a call waits for another one that holds the lock, and how long each time: five seconds in all. The work
/// under the lock takes some hundredths of a second.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// What kind of file was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A link to Palisade.
    Link,
    /// A desktop entry.
    DesktopEntry,
    /// A service of the session bus.
    BusService,
    /// A unit of the user's systemd.
    Unit,
    /// An icon.
    Icon,
}

/// What the user asked `enable` for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choices {
    /// Make a desktop entry if the system has none that can be used.
    pub create: bool,
    /// Make a desktop entry for each configuration, instead of actions of one entry.
    pub separate: bool,
    /// Override other desktop entries that start the same program, too.
    pub others: bool,
    /// Make a unit for `systemd --user`.
    pub service: bool,
    /// The types of files that the application should open by default.
    pub mime: Vec<String>,
}

/// A system file that one of Palisade's files was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
}

/// A file that was made, or is being made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
    /// The contents by which the file is Palisade's. There are several only while one replaces another.
    pub(crate) contents: Vec<Content>,
    /// The earlier file, which is kept aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Identity>,
    /// The system file that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Origin>,
}

impl Made {
    /// Where the earlier file is kept.
    pub(crate) fn aside(&self) -> PathBuf {
        aside(&self.path)
    }
}

/// Where a file in the way is kept.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".palisade-saved");
    PathBuf::from(name)
}

/// The defaults that were set in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Defaults {
    pub(crate) file: PathBuf,
    pub(crate) edits: mime::Edits,
}

/// Everything that was made for an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    schema: u32,
    /// The profile.
    pub(crate) name: String,
    /// The path of Palisade.
    pub(crate) binary: PathBuf,
    pub(crate) choices: Choices,
    /// Directories, each before those in it.
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) files: Vec<Made>,
    pub(crate) defaults: Vec<Defaults>,
}

impl Manifest {
    /// A manifest that lists nothing.
    pub(crate) fn new(name: &str, binary: &Path, choices: Choices) -> Self {
        Self {
            schema: SCHEMA,
            name: name.to_owned(),
            binary: binary.to_owned(),
            choices,
            directories: Vec::new(),
            files: Vec::new(),
            defaults: Vec::new(),
        }
    }

    /// The file at a path, if it is listed.
    pub(crate) fn file(&self, path: &Path) -> Option<&Made> {
        self.files.iter().find(|made| made.path == path)
    }
}

/// Why a manifest can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Other users could have written it.
    #[error("refusing the list of created files: {0}")]
    Distrusted(#[from] TrustError),
    /// It can't be read.
    #[error("can't read the list of created files: {0}")]
    Read(#[from] FileError),
    /// The directory can't be read.
    #[error("can't read {directory:?}: {source}")]
    List {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file isn't a manifest.
    #[error("can't parse the list of created files, {file:?}: {problem}")]
    Broken {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another call is at work, or a call has stopped in the middle.
    #[error("another `palisade desktop` is running, or another process has locked {directory:?}")]
    Busy {
        /// The locked directory.
        directory: PathBuf,
    },
    /// A step failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The manifests of one user.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    /// The directory to lock. Everything that is made and removed may lie below it, and it is never removed.
    home: PathBuf,
    /// Palisade's state directory.
    state: PathBuf,
    directory: PathBuf,
    trustee: Trustee,
}

/// As long as this exists, no other call changes anything.
#[derive(Debug)]
pub(crate) struct Lock {
    _home: File,
}

impl Store {
    /// The store below the state directory `state` (`…/palisade`) of the user with the home `home`. It touches no file.
    pub(crate) fn new(home: &Path, state: &Path, trustee: Trustee) -> Self {
        Self { home: home.to_owned(), state: state.to_owned(), directory: state.join("desktop"), trustee }
    }

    /// The store of what packages have put into the menu, beside this one. A host may have both a profile and a package
    /// of one name.
    pub(crate) fn of_packages(&self) -> Self {
        Self { directory: self.state.join("menus"), ..self.clone() }
    }

    /// The store of what was made for profiles.
    pub(crate) fn of_profiles(&self) -> Self {
        Self { directory: self.state.join("desktop"), ..self.clone() }
    }

    /// The manifest's file, whether or not it is there.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }

    /// What was made for an application. `None` if nothing was made.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Manifest>, ManifestError> {
        let file = self.file(name);
        if disk::is_absent(&file) {
            return Ok(None);
        }
        let real = places::check(&file, self.trustee)?;
        let bytes = file::read(&real, LARGEST, Links::Refuse)?;
        let broken = |problem: String| ManifestError::Broken { file: file.clone(), problem };
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if manifest.schema != SCHEMA {
            return Err(broken(format!(
                "its schema is {}, and this Palisade reads {SCHEMA}",
                manifest.schema
            )));
        }
        if manifest.name != name {
            return Err(broken(format!("it belongs to {:?}", manifest.name)));
        }
        Ok(Some(manifest))
    }

    /// The names of the applications for which something was made.
    pub(crate) fn names(&self) -> Result<Vec<String>, ManifestError> {
        let failed = |source| ManifestError::List { directory: self.directory.clone(), source };
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension() == Some(OsStr::new("json"))
                && let Some(name) = path.file_stem().and_then(OsStr::to_str)
                && !name.starts_with('.')
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Writes a manifest. It replaces an earlier one.
    pub(crate) fn write(&self, disk: &Disk, manifest: &Manifest) -> Result<(), ManifestError> {
        let file = self.file(&manifest.name);
        let broken = |error: serde_json::Error| ManifestError::Broken {
            file: file.clone(),
            problem: error.to_string(),
        };
        let text = serde_json::to_string_pretty(manifest).map_err(broken)?;
        Ok(disk.place_file(&file, text.as_bytes(), Mode::from_raw_mode(0o600), true)?)
    }

    /// Locks the store and makes its directories. Returns those that were made, too.
    pub(crate) fn lock_and_make(&self, disk: &Disk) -> Result<(Lock, Vec<PathBuf>), ManifestError> {
        let lock = self.lock()?;
        let made = missing(&self.directory);
        let ready = disk
            .make_directories(&made)
            .map_err(ManifestError::from)
            .and_then(|()| Ok(places::check(&self.directory, self.trustee).map(drop)?));
        match ready {
            Ok(()) => Ok((lock, made)),
            Err(error) => {
                // Some may exist even if not all could be made.
                disk.remove_empty(made.iter().rev().map(PathBuf::as_path));
                Err(error)
            }
        }
    }

    /// Locks the store by locking the home: a call that removes the store's own directory and those above it must hold
    /// the lock until everything is done.
    pub(crate) fn lock(&self) -> Result<Lock, ManifestError> {
        let home = File::open(&self.home)
            .map_err(|source| ManifestError::List { directory: self.home.clone(), source })?;
        for _attempt in 0..ATTEMPTS {
            if rustix::fs::flock(&home, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(Lock { _home: home });
            }
            std::thread::sleep(PAUSE);
        }
        Err(ManifestError::Busy { directory: self.home.clone() })
    }

    /// Whether the store is there.
    pub(crate) fn is_there(&self) -> bool {
        !disk::is_absent(&self.directory)
    }

    /// Whether a directory is the store's, or Palisade's state directory above it.
    pub(crate) fn is_own(&self, directory: &Path) -> bool {
        directory == self.directory || directory == self.state
    }

    /// Removes the directory above the store's, if it is empty.
    pub(crate) fn tidy_above(&self, disk: &Disk) {
        disk.remove_empty([self.state.as_path()]);
    }

    /// Removes the store's directories, if they are empty. The caller must hold the lock.
    pub(crate) fn tidy(&self, disk: &Disk) {
        disk.remove_empty([self.directory.as_path(), &self.state]);
    }
}

/// The directories that must be made for `directory` to be there, outermost first.
pub(crate) fn missing(directory: &Path) -> Vec<PathBuf> {
    let absent = directory.ancestors().take_while(|path| disk::is_absent(path));
    let mut missing: Vec<PathBuf> = absent.map(Path::to_path_buf).collect();
    missing.reverse();
    missing
}
