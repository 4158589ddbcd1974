// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The store of learned calls: which binary makes which calls, and which binaries run under which profile.
//!
//! A call is learned for a binary under a profile. What python did under one profile permits nothing under another,
//! because the script decides what its interpreter calls. Calls that no binary made can be stated for a profile
//! (imported). For a command without a profile, calls are kept under the [`Key`] of its program.
//!
//! - [`Key`]: the owner of learned calls; [`word`]: which key a user's word means
//! - [`Binary`], [`Learned`], [`Known`]: results of reading
//! - `change`: writing
//! - `layout`: the tables
//!
//! Every change is one transaction. It is on the disk when the call returns, and it changes the main file, so the
//! file's fingerprint shows whether anything was learned since. A call that changes nothing leaves the file as it is.

mod binary;
mod change;
pub mod key;
mod layout;
pub mod word;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use palisade_database::{Identity, Place};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::Syscall;

pub use binary::{Binary, Having, Known, Learned, Summary};
pub use key::Key;
pub use palisade_database::StoreError;

/// An open store.
#[derive(Debug)]
pub struct Store {
    place: Place,
    identity: Identity,
    connection: Connection,
}

impl Store {
    /// Opens the store at `file` for writing. If there is none, makes it (mode 0600) with its directories (0700).
    ///
    /// # Errors
    /// When the store can't be made or opened, isn't trusted (its owner or mode is wrong), is locked or damaged, or
    /// was written by a newer program.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let place = Place::make(file)?;
        // Other processes may make or remove the file meanwhile, but not forever.
        for _attempt in 0..4 {
            match Self::connect(&place, true)? {
                Some(store) => return Ok(store),
                None => place.create(layout::make)?,
            }
        }
        Err(StoreError::Busy { path: place.file })
    }

    /// Opens the store at `file` for reading. `None` if there is none; makes nothing.
    ///
    /// # Errors
    /// When the store can't be opened, isn't trusted (its owner or mode is wrong), is locked or damaged, or was
    /// written by a newer program.
    pub fn read(file: &Path) -> Result<Option<Self>, StoreError> {
        match Place::find(file)? {
            Some(place) => Self::connect(&place, false),
            None => Ok(None),
        }
    }

    fn connect(place: &Place, write: bool) -> Result<Option<Self>, StoreError> {
        let _lock = place.lock_shared()?;
        let Some(identity) = place.identity()? else { return Ok(None) };
        match layout::connect(&place.file, write) {
            Ok(connection) => Ok(Some(Self { place: place.clone(), identity, connection })),
            // Another process removed the file meanwhile.
            Err(StoreError::Sqlite { .. }) if place.identity()? != Some(identity) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The path of the store.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.place.file
    }

    /// The names of all profiles, in order.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn profiles(&self) -> Result<Vec<String>, StoreError> {
        self.reading(|connection| {
            connection
                .prepare("SELECT name FROM profile ORDER BY name")?
                .query_map((), |row| row.get(0))?
                .collect()
        })
    }

    /// What is known of a profile: first the calls that were stated for it, if any; then each binary that ran under
    /// it, by path, with the calls that were learned for it there. Names of calls that this build doesn't know are
    /// left out. The result is empty for an unknown profile.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn profile(&self, name: &str) -> Result<Vec<Learned>, StoreError> {
        self.reading(|connection| {
            let mut learned = Vec::new();
            let stated: BTreeSet<Syscall> = connection
                .prepare(
                    "SELECT c.name FROM profile p JOIN profile_call s ON s.profile = p.id
                     JOIN call c ON c.id = s.call WHERE p.name = ?1",
                )?
                .query_map([name], |row| row.get::<_, String>(0))?
                .filter_map(|name| name.map(|name| name.parse().ok()).transpose())
                .collect::<Result<_, _>>()?;
            if !stated.is_empty() {
                learned.push(Learned { binary: None, calls: stated });
            }
            let mut binaries: BTreeMap<Binary, BTreeSet<Syscall>> = BTreeMap::new();
            let mut statement = connection.prepare(
                "SELECT b.path, b.hash, c.name FROM profile p JOIN profile_binary r ON r.profile = p.id
                 JOIN binary b ON b.id = r.binary
                 LEFT JOIN learned m ON m.profile = p.id AND m.binary = b.id
                 LEFT JOIN call c ON c.id = m.call WHERE p.name = ?1",
            )?;
            let mut rows = statement.query([name])?;
            while let Some(row) = rows.next()? {
                let calls = binaries.entry(binary(row)?).or_default();
                calls.extend(call(row, 2)?);
            }
            let of = |(binary, calls)| Learned { binary: Some(binary), calls };
            learned.extend(binaries.into_iter().map(of));
            Ok(learned)
        })
    }

    /// All keys, in order, with a summary of each.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn summaries(&self) -> Result<Vec<Summary>, StoreError> {
        let summary = |name: String| {
            let learned = self.profile(&name)?;
            let binaries = learned.iter().filter(|learned| learned.binary.is_some()).count();
            let calls: BTreeSet<&Syscall> = learned.iter().flat_map(|learned| &learned.calls).collect();
            Ok(Summary { binaries, calls: calls.len(), name })
        };
        self.profiles()?.into_iter().map(summary).collect()
    }

    /// The keys for which a call is known: all profiles and programs, or only the one with this name.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn having(&self, call: Syscall, only: Option<&str>) -> Result<Vec<Having>, StoreError> {
        let mut found = Vec::new();
        for name in self.profiles()?.into_iter().filter(|name| only.is_none_or(|only| only == name)) {
            let mut having = self.profile(&name)?;
            having.retain(|learned| learned.calls.contains(&call));
            if !having.is_empty() {
                let stated = having.iter().any(|learned| learned.binary.is_none());
                let binaries = having.into_iter().filter_map(|learned| Some(learned.binary?.path)).collect();
                found.push(Having { name, stated, binaries });
            }
        }
        Ok(found)
    }

    /// Every call that is known for a profile, whichever binary made it. `None` if the profile was never learned. A
    /// profile that was learned and made no call outside the base has an empty set.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn allowed(&self, name: &str) -> Result<Option<BTreeSet<Syscall>>, StoreError> {
        let names = self.names(name)?;
        Ok(names.map(|names| names.iter().filter_map(|name| name.parse().ok()).collect()))
    }

    /// Names of calls that are known for a profile but not to this build. [`Store::allowed`] leaves them out.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn strange(&self, name: &str) -> Result<BTreeSet<String>, StoreError> {
        let mut names = self.names(name)?.unwrap_or_default();
        names.retain(|name| name.parse::<Syscall>().is_err());
        Ok(names)
    }

    fn names(&self, name: &str) -> Result<Option<BTreeSet<String>>, StoreError> {
        self.reading(|connection| {
            let profile: Option<i64> = connection
                .query_row("SELECT id FROM profile WHERE name = ?1", [name], |row| row.get(0))
                .optional()?;
            let Some(profile) = profile else { return Ok(None) };
            let names = connection
                .prepare(
                    "SELECT name FROM call WHERE id IN (
                         SELECT call FROM profile_call WHERE profile = ?1
                         UNION SELECT call FROM learned WHERE profile = ?1)",
                )?
                .query_map([profile], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            Ok(Some(names))
        })
    }

    /// Every binary, by path.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn binaries(&self) -> Result<Vec<Known>, StoreError> {
        self.reading(|connection| {
            let mut all: BTreeMap<i64, Known> = BTreeMap::new();
            let mut statement =
                connection.prepare("SELECT path, hash, id, first_seen, last_seen FROM binary")?;
            let mut rows = statement.query(())?;
            while let Some(row) = rows.next()? {
                let known = Known {
                    binary: binary(row)?,
                    calls: BTreeSet::new(),
                    profiles: BTreeSet::new(),
                    first_seen: time(row.get(3)?),
                    last_seen: time(row.get(4)?),
                };
                all.insert(row.get(2)?, known);
            }
            let mut statement =
                connection.prepare("SELECT m.binary, c.name FROM learned m JOIN call c ON c.id = m.call")?;
            let mut rows = statement.query(())?;
            while let Some(row) = rows.next()? {
                if let Some(known) = all.get_mut(&row.get(0)?) {
                    known.calls.extend(call(row, 1)?);
                }
            }
            let mut statement = connection.prepare(
                "SELECT r.binary, p.name FROM profile_binary r JOIN profile p ON p.id = r.profile",
            )?;
            let mut rows = statement.query(())?;
            while let Some(row) = rows.next()? {
                if let Some(known) = all.get_mut(&row.get(0)?) {
                    known.profiles.insert(row.get(1)?);
                }
            }
            let mut all: Vec<Known> = all.into_values().collect();
            all.sort_by(|one, other| one.binary.cmp(&other.binary));
            Ok(all)
        })
    }

    /// Reads from one consistent snapshot.
    fn reading<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let failed = |source| StoreError::of("read", &self.place.file, source);
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        read(&transaction).map_err(failed)
    }
}

/// Reads a binary from a row that begins with its path and hash.
fn binary(row: &Row<'_>) -> rusqlite::Result<Binary> {
    Ok(Binary { path: PathBuf::from(OsString::from_vec(row.get(0)?)), hash: row.get(1)? })
}

/// Reads a call from a column. `None` if this build doesn't know its name.
fn call(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Syscall>> {
    let name: Option<String> = row.get(column)?;
    Ok(name.and_then(|name| name.parse().ok()))
}

/// Converts seconds since 1970.
fn time(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
