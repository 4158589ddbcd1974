// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether a file is the one that is trusted.

use crate::settings::Recognised;
use crate::trust::entry::{Algorithm, Digest, Source, from_hexadecimal};
use crate::trust::integrity::{Content, Integrity, OnDisk, Trust};
use crate::trust::store::Store;
use crate::watch::remembered::Remembered;
use palisade_sys::verity::{self, Measured};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// A trust database, and how files are recognized. Without a database no file is trusted.
#[derive(Debug)]
pub struct Trusted {
    store: Option<Store>,
    recognised: Recognised,
    vouched: Arc<Vouched>,
}

/// The SHA-256 of content, by its fs-verity digest: such content never changes.
#[derive(Debug)]
pub struct Vouched(Mutex<Remembered<Measured, Digest>>);

/// How many are remembered, at least.
const VOUCHED: usize = 8192;

impl Default for Vouched {
    fn default() -> Self {
        Self(Mutex::new(Remembered::new(VOUCHED)))
    }
}

impl Vouched {
    /// The remembered digest, or the result of `read`, which must read the file only after it was measured.
    fn sha256(&self, measured: Measured, read: impl FnOnce() -> io::Result<Digest>) -> io::Result<Digest> {
        let remembered = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = remembered().get(&measured) {
            return Ok(*known);
        }
        let found = read()?;
        if found != Digest::None {
            remembered().insert(measured, found);
        }
        Ok(found)
    }
}

/// An open file whose SHA-256 may be known already.
struct Opened<'a> {
    file: BorrowedFd<'a>,
    size: u64,
    sha256: &'a mut dyn FnMut() -> Option<String>,
    vouched: &'a Vouched,
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

    fn verity(&mut self) -> io::Result<Option<Digest>> {
        let Some(measured) = verity::measure(self.file)? else { return Ok(None) };
        // A digest from before the measurement must not be used: the content could have been different then.
        let read = || self.on_disk(|file| file.digest(Algorithm::Sha256));
        self.vouched.sha256(measured, read).map(Some)
    }
}

impl Trusted {
    /// A check against what `store` trusts.
    #[must_use]
    pub fn new(store: Option<Store>, recognised: Recognised) -> Self {
        Self { store, recognised, vouched: Arc::default() }
    }

    /// With the digests that were computed for another database.
    #[must_use]
    pub fn remembering(self, vouched: Arc<Vouched>) -> Self {
        Self { vouched, ..self }
    }

    /// The database.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Whether the path is in the database, whatever the file's content is. A database that can't be read trusts
    /// nothing.
    #[must_use]
    pub fn knows(&self, path: &[u8]) -> bool {
        let mut known = false;
        let looked = self.store.as_ref().map(|store| store.who(path, |_, _| known = true));
        known && matches!(looked, Some(Ok(())))
    }

    /// Whether missing fs-verity protection is the only reason why the open file at `path` isn't trusted. Ignores its
    /// content.
    #[must_use]
    pub fn lacks_verity(&self, path: &[u8], file: BorrowedFd<'_>) -> bool {
        self.recognised == Recognised::Verity && self.knows(path) && verity::measure(file) == Ok(None)
    }

    /// Whether the open file at `path` is the one in the database. `sha256` is called for its SHA-256 in hexadecimal,
    /// if that is needed. A file or database that can't be read isn't trusted.
    pub fn trusts(
        &self,
        path: &[u8],
        size: u64,
        file: BorrowedFd<'_>,
        sha256: &mut dyn FnMut() -> Option<String>,
    ) -> bool {
        self.who_trusts(path, size, file, sha256).is_some()
    }

    /// The source that trusts the file.
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
            Recognised::Verity => Integrity::Verity,
        };
        let mut content = Opened { file, size, sha256, vouched: &self.vouched };
        match self.store.as_ref()?.check(path, integrity, &mut content) {
            Ok(Trust::Trusted { source }) => Some(source),
            Ok(Trust::Unknown | Trust::Changed { .. }) | Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_of_verity_is_hashed_once() -> Result<(), Box<dyn std::error::Error>> {
        let vouched = Vouched(Mutex::new(Remembered::new(1)));
        let (one, two) = (Measured::new(1, &[1; 32]), Measured::new(1, &[2; 32]));
        let content = |byte| Digest::Sha256([byte; 32]);
        let never = || -> io::Result<Digest> { panic!("it is known") };
        assert_eq!(vouched.sha256(one, || Ok(content(7)))?, content(7));
        assert_eq!(vouched.sha256(one, never)?, content(7));
        assert!(vouched.sha256(two, || Err(io::Error::other("EIO"))).is_err());
        assert_eq!(vouched.sha256(two, || Ok(Digest::None))?, Digest::None);
        assert_eq!(
            vouched.sha256(two, || Ok(content(8)))?,
            content(8),
            "what couldn't be read isn't remembered"
        );
        // Another algorithm's digest of the same bytes is a different digest.
        let other = Measured::new(2, &[2; 32]);
        assert_eq!(vouched.sha256(other, || Ok(content(9)))?, content(9));
        for byte in 10..100 {
            vouched.sha256(Measured::new(1, &[byte; 32]), || Ok(content(byte)))?;
        }
        assert!(vouched.0.lock().map_err(|error| error.to_string())?.len() <= 2);
        Ok(())
    }
}
