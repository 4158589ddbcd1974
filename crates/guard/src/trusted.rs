// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is this file the one that is trusted?

use crate::settings::Recognised;
use crate::trust::entry::{Algorithm, Digest, Source, from_hexadecimal};
use crate::trust::integrity::{Content, Integrity, OnDisk, Trust};
use crate::trust::store::Store;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

/// A trust database with the way in which files are recognised. Without a database nothing is trusted.
#[derive(Debug)]
pub struct Trusted {
    store: Option<Store>,
    recognised: Recognised,
}

/// An open file whose SHA-256 may be known already.
struct Opened<'a> {
    file: BorrowedFd<'a>,
    size: u64,
    sha256: &'a mut dyn FnMut() -> Option<String>,
}

impl Opened<'_> {
    fn on_disk<T>(&self, ask: impl FnOnce(&mut OnDisk<'_>) -> io::Result<T>) -> io::Result<T> {
        let file = File::from(self.file.try_clone_to_owned()?);
        ask(&mut OnDisk::new(&file)?)
    }
}

impl Content for Opened<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn digest(&mut self, algorithm: Algorithm) -> io::Result<Digest> {
        if algorithm != Algorithm::Sha256 {
            return self.on_disk(|file| file.digest(algorithm));
        }
        let known =
            (self.sha256)().and_then(|text| Digest::new(algorithm, &from_hexadecimal(text.as_bytes())?));
        known.ok_or_else(|| io::Error::other("it can't be read, or changes meanwhile"))
    }

    fn ima(&mut self) -> io::Result<Option<Digest>> {
        self.on_disk(|file| file.ima())
    }
}

impl Trusted {
    /// What `store` trusts.
    #[must_use]
    pub fn new(store: Option<Store>, recognised: Recognised) -> Self {
        Self { store, recognised }
    }

    /// The database.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Whether the path is in the database, whatever the file is by now. A database that can't be read trusts nothing.
    #[must_use]
    pub fn knows(&self, path: &[u8]) -> bool {
        let mut known = false;
        let looked = self.store.as_ref().map(|store| store.who(path, |_, _| known = true));
        known && matches!(looked, Some(Ok(())))
    }

    /// Whether the open file at `path` is the one in the database; `sha256` gives its SHA-256 in hexadecimal if that is
    /// asked for. A file or database that can't be read isn't trusted.
    pub fn trusts(
        &self,
        path: &[u8],
        size: u64,
        file: BorrowedFd<'_>,
        sha256: &mut dyn FnMut() -> Option<String>,
    ) -> bool {
        self.who_trusts(path, size, file, sha256).is_some()
    }

    /// Who trusts it.
    pub fn who_trusts(
        &self,
        path: &[u8],
        size: u64,
        file: BorrowedFd<'_>,
        sha256: &mut dyn FnMut() -> Option<String>,
    ) -> Option<Source> {
        let integrity = match self.recognised {
            Recognised::None => Integrity::None,
            Recognised::Size => Integrity::Size,
            Recognised::Ima => Integrity::Ima,
            Recognised::Sha256 => Integrity::Sha256,
        };
        let mut content = Opened { file, size, sha256 };
        match self.store.as_ref()?.check(path, integrity, &mut content) {
            Ok(Trust::Trusted { source }) => Some(source),
            Ok(Trust::Unknown | Trust::Changed { .. }) | Err(_) => None,
        }
    }
}
