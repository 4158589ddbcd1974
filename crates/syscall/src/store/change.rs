// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes to the store: adds, merges and forgets.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use rusqlite::{OptionalExtension, Transaction, params};

use super::{Binary, Learned, Store, StoreError};
use crate::Syscall;

/// A binary that was seen within this time isn't recorded as seen again. So a launch that teaches nothing writes
/// nothing, and no kept plan becomes stale.
const DAY: i64 = 24 * 3600;

impl Store {
    /// Records what binaries did under a profile, all or nothing. The binaries are added to the profile, and the
    /// calls to the binaries under this profile. Returns how many pairs of binary and call are new. An empty record
    /// also counts: the profile then needs nothing outside the base.
    ///
    /// # Errors
    /// When the store can't be written. The earlier content is unchanged.
    pub fn learn(
        &mut self,
        profile: &str,
        seen: &BTreeMap<Binary, BTreeSet<Syscall>>,
    ) -> Result<usize, StoreError> {
        self.change("write to", |transaction| {
            let profile = profile_id(transaction, profile)?;
            let mut new = 0;
            for (binary, calls) in seen {
                new += add_binary(transaction, profile, binary, calls)?;
            }
            Ok(new)
        })
    }

    /// Like [`Store::learn`], and also records calls that are stated for the profile itself. Returns how many calls
    /// are new, for a binary or for the profile.
    ///
    /// # Errors
    /// When the store can't be written. The earlier content is unchanged.
    pub fn add(&mut self, profile: &str, learned: &[Learned]) -> Result<usize, StoreError> {
        self.change("write to", |transaction| {
            let profile = profile_id(transaction, profile)?;
            let mut new = 0;
            for Learned { binary, calls } in learned {
                new += match binary {
                    Some(binary) => add_binary(transaction, profile, binary, calls)?,
                    None => add_calls(
                        transaction,
                        "INSERT OR IGNORE INTO profile_call (profile, call) VALUES (?1, ?3)",
                        (profile, None),
                        calls,
                    )?,
                };
            }
            Ok(new)
        })
    }

    /// Copies to a profile all binaries with their calls and all stated calls of other profiles. Makes the profile if
    /// it doesn't exist. Returns how many binaries, calls of binaries and stated calls are new to it. An unknown
    /// profile in `from` adds nothing.
    ///
    /// # Errors
    /// When the store can't be written. The earlier content is unchanged.
    pub fn merge(&mut self, from: &[&str], into: &str) -> Result<usize, StoreError> {
        self.change("write to", |transaction| {
            let into = profile_id(transaction, into)?;
            let mut new = 0;
            for from in from {
                for (table, columns) in
                    [("profile_binary", "binary"), ("learned", "binary, call"), ("profile_call", "call")]
                {
                    new += transaction.execute(
                        &format!(
                            "INSERT OR IGNORE INTO {table} (profile, {columns})
                             SELECT ?1, {columns} FROM {table}
                             WHERE profile = (SELECT id FROM profile WHERE name = ?2)"
                        ),
                        params![into, from],
                    )?;
                }
            }
            Ok(new)
        })
    }

    /// Forgets a profile, and the binaries that ran under no other. Returns whether the profile existed.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn forget_profile(&mut self, name: &str) -> Result<bool, StoreError> {
        self.change("clean", |transaction| {
            let gone = transaction.execute("DELETE FROM profile WHERE name = ?1", [name])? > 0;
            if gone {
                sweep(transaction)?;
            }
            Ok(gone)
        })
    }

    /// Forgets every profile and binary.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn forget_all(&mut self) -> Result<(), StoreError> {
        self.change("clean", |transaction| {
            transaction.execute("DELETE FROM profile", ())?;
            sweep(transaction)
        })
    }

    /// Forgets these binaries under every profile. The profiles stay. Returns how many of the binaries existed.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn forget(&mut self, binaries: &BTreeSet<Binary>) -> Result<usize, StoreError> {
        self.change("clean", |transaction| {
            let mut gone = 0;
            for Binary { path, hash } in binaries {
                gone += transaction.execute(
                    "DELETE FROM binary WHERE path = ?1 AND hash = ?2",
                    params![path.as_os_str().as_bytes(), hash],
                )?;
            }
            if gone > 0 {
                sweep(transaction)?;
            }
            Ok(gone)
        })
    }

    /// Changes the file that is at the path now. It may be another file than the one that was opened.
    fn change<T>(
        &mut self,
        action: &'static str,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if self.place.identity()? != Some(self.identity) {
            *self = Self::open(&self.place.file)?;
        }
        palisade_database::change(&mut self.connection, &self.place.file, action, change)
    }
}

fn profile_id(transaction: &Transaction<'_>, name: &str) -> rusqlite::Result<i64> {
    let mut found = transaction.prepare("SELECT id FROM profile WHERE name = ?1")?;
    if let Some(id) = found.query_row([name], |row| row.get(0)).optional()? {
        return Ok(id);
    }
    transaction.execute("INSERT INTO profile (name) VALUES (?1)", [name])?;
    Ok(transaction.last_insert_rowid())
}

fn add_binary(
    transaction: &Transaction<'_>,
    profile: i64,
    Binary { path, hash }: &Binary,
    calls: &BTreeSet<Syscall>,
) -> rusqlite::Result<usize> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let path = path.as_os_str().as_bytes();
    let mut found = transaction.prepare("SELECT id, last_seen FROM binary WHERE path = ?1 AND hash = ?2")?;
    let found: Option<(i64, i64)> =
        found.query_row(params![path, hash], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let binary = match found {
        Some((id, last)) => {
            // Also when the clock was set back.
            if !(last..last.saturating_add(DAY)).contains(&now) {
                transaction.execute("UPDATE binary SET last_seen = ?2 WHERE id = ?1", [id, now])?;
            }
            id
        }
        None => {
            transaction.execute(
                "INSERT INTO binary (path, hash, first_seen, last_seen) VALUES (?1, ?2, ?3, ?3)",
                params![path, hash, now],
            )?;
            transaction.last_insert_rowid()
        }
    };
    transaction
        .prepare("INSERT OR IGNORE INTO profile_binary (profile, binary) VALUES (?1, ?2)")?
        .execute([profile, binary])?;
    add_calls(
        transaction,
        "INSERT OR IGNORE INTO learned (profile, binary, call) VALUES (?1, ?2, ?3)",
        (profile, Some(binary)),
        calls,
    )
}

/// Inserts each call with its profile and its binary. Returns how many are new.
fn add_calls(
    transaction: &Transaction<'_>,
    insert: &str,
    (profile, binary): (i64, Option<i64>),
    calls: &BTreeSet<Syscall>,
) -> rusqlite::Result<usize> {
    let mut insert = transaction.prepare(insert)?;
    let mut found = transaction.prepare("SELECT id FROM call WHERE name = ?1")?;
    let mut new = 0;
    for call in calls {
        let call: i64 = match found.query_row([call.name()], |row| row.get(0)).optional()? {
            Some(call) => call,
            None => {
                transaction.execute("INSERT INTO call (name) VALUES (?1)", [call.name()])?;
                transaction.last_insert_rowid()
            }
        };
        new += insert.execute(params![profile, binary, call])?;
    }
    Ok(new)
}

/// Removes binaries without a profile, and call names that are no longer used.
fn sweep(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM binary WHERE id NOT IN (SELECT binary FROM profile_binary);
         DELETE FROM call WHERE id NOT IN (SELECT call FROM learned UNION SELECT call FROM profile_call);",
    )
}
