// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The writer's side of the registry: a launch takes a slot, writes into it, and empties it at the end; it takes a name.

use super::directory;
use super::list::{Left, left};
use super::record::{self, Content, HEADER, Parts, Record};
use super::slot::{self, SIZE};
use super::{Number, RegistryError, Tier, process};
use crate::plan::Listing;
use crate::plan::text::Text;
use palisade_sys::process::since_boot;
use palisade_sys::record_lock;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// The longest name of a sandbox.
pub const LONGEST_NAME: usize = 64;

/// What is written about a launch in addition to the plan's statements.
#[derive(Debug)]
pub(crate) struct Launched<'a> {
    /// Its number.
    pub(crate) number: Number,
    /// The name that the user gives it.
    pub(crate) name: Option<&'a Name>,
    /// The command's words.
    pub(crate) words: &'a [Text<'a>],
    /// The command's process.
    pub(crate) command: i32,
    /// Process 1 of the sandbox.
    pub(crate) init: Option<i32>,
    /// Which mechanisms separate it.
    pub(crate) tier: Tier,
    /// The launcher is about to execute the command in its own process.
    pub(crate) replaced: bool,
}

/// A launch's slot. On drop it is emptied. If its launcher dies, the kernel releases the lock.
#[derive(Debug)]
pub(crate) struct Entry {
    file: OwnedFd,
    slot: u64,
}

impl Entry {
    /// Lists a launch that runs or is about to run. Allocates no memory, except after an error.
    pub(crate) fn write(listing: &Listing<'_>, launched: &Launched<'_>) -> Result<Self, RegistryError> {
        let path = listing.directory.as_path();
        let file = directory::open(path)?;
        let (mut policies, mut more_policies) = (Parts::new(), 0);
        for file in &listing.policies {
            if !policies.add(file.as_bytes()) {
                more_policies += 1;
            }
        }
        let mut words = Parts::new();
        let all_words = launched.words.iter().all(|word| words.add_cut(word.as_bytes()));
        let written = since_boot();
        let record = Record {
            number: launched.number,
            written,
            boot: super::boot(written),
            replaced: launched.replaced,
            command: launched.command,
            init: launched.init,
            // If the launcher holds its slot, the kernel says whether it lives, and no view is needed.
            view: if launched.replaced { process::own_view() } else { 0 },
            tier: launched.tier,
            network: listing.network,
            name: launched.name.map(|name| &*name.text),
            profile: listing.profile.as_ref().map(|profile| record::profile(profile.as_bytes())),
            policies: policies.bytes(),
            more_policies,
            words: words.bytes(),
            more_words: !all_words,
        };
        let mut bytes = [0; SIZE];
        let failed = |source| RegistryError::file("write", path, source);
        let bytes = record::encoded(&record, &mut bytes).ok_or_else(|| failed(Errno::MSGSIZE))?;
        let slot = free_slot(&file, path, launched.number)?;
        // From here on, dropping the entry undoes what was begun.
        let entry = Self { file, slot };
        let written = rustix::io::pwrite(&entry.file, bytes, slot::offset(slot)).map_err(failed)?;
        if written != bytes.len() {
            return Err(failed(Errno::NOSPC));
        }
        record_lock::take(entry.file.as_fd(), slot::life(slot)).map_err(failed)?;
        Ok(entry)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The locks end with the descriptor. If the write fails, readers see that no launcher holds the slot.
        let _emptied_by_others = rustix::io::pwrite(&self.file, &[0; HEADER], slot::offset(self.slot));
    }
}

/// Takes the `change` lock of a slot that is free, or whose launch has ended.
fn free_slot(file: &OwnedFd, path: &Path, number: Number) -> Result<u64, RegistryError> {
    let failed = |source| RegistryError::file("lock", path, source);
    for slot in slot::candidates(number.began ^ u64::from(number.launcher) << 32) {
        if !record_lock::take(file.as_fd(), slot::change(slot)).map_err(failed)? {
            continue;
        }
        let mut header = [0; HEADER];
        // Missing bytes count as zero.
        let _read = rustix::io::pread(file, &mut header, slot::offset(slot))
            .map_err(|source| RegistryError::file("read", path, source))?;
        if has_ended(&header) || is_free(file, slot) {
            return Ok(slot);
        }
        record_lock::give_back(file.as_fd(), slot::change(slot)).map_err(failed)?;
    }
    Err(RegistryError::Full { directory: path.to_owned() })
}

/// Whether a header alone shows that its launch has ended: the header is empty, or no process has the number by which
/// it is judged. If it has no view, its launcher held the slot, and was killed.
fn has_ended(header: &[u8; HEADER]) -> bool {
    record::judged_by(header)
        .is_none_or(|(pid, view)| process::is_nobody(pid) && (view == 0 || view == process::own_view()))
}

/// Whether the content of a slot that no launcher holds is of a launch that has ended.
fn is_free(file: &OwnedFd, slot: u64) -> bool {
    let mut bytes = [0; SIZE];
    let Ok(read) = rustix::io::pread(file, &mut bytes, slot::offset(slot)) else { return false };
    match record::decoded(&bytes[..read]) {
        Content::Empty | Content::Garbage => true,
        Content::Record(record) => left(&record) == Left::Nothing,
        Content::Newer => false,
    }
}

/// A sandbox's name, held for as long as it runs.
#[derive(Debug)]
pub struct Name {
    text: String,
    _held: Option<OwnedFd>,
}

/// Why a text can't be a sandbox's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} can't be a sandbox's name: {reason}")]
pub struct NameError {
    /// The name.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Name {
    /// Checks the form of a name: letters, digits, `.`, `-` and `_`, starting with a letter or digit; and not in the
    /// form of a launch's number.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(name: &str) -> Result<(), NameError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let refused = |reason| Err(NameError { name: name.to_owned(), reason });
        if !name.bytes().all(plain) {
            return refused("only letters, digits, `.`, `-` and `_` may be in it");
        }
        if !name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric) {
            return refused("it doesn't begin with a letter or a digit");
        }
        if name.len() > LONGEST_NAME {
            return refused("it has more than 64 characters");
        }
        if name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') || is_number(name) {
            return refused("it is written like a sandbox's number");
        }
        Ok(())
    }

    /// Takes a name for a launch. Without a registry the name counts as free.
    ///
    /// # Errors
    /// [`RegistryError::NameTaken`].
    pub fn take(name: &str, listing: Option<&Listing<'_>>) -> Result<Self, RegistryError> {
        let held = listing.and_then(|listing| directory::open(listing.directory.as_path()).ok());
        if let Some(file) = &held {
            let byte = slot::name(xxh3_64(name.as_bytes()));
            // Where locks don't work, there is no registry either.
            if record_lock::take(file.as_fd(), byte) == Ok(false) {
                return Err(RegistryError::NameTaken { name: name.to_owned() });
            }
        }
        Ok(Self { text: name.to_owned(), _held: held })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a text has the form of a [`Number`].
fn is_number(text: &str) -> bool {
    text.split_once('-').is_some_and(|(process, rest)| {
        !process.is_empty()
            && process.bytes().all(|byte| byte.is_ascii_digit())
            && rest.len() == 6
            && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
