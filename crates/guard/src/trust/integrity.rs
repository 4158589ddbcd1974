// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether an open file is the one that is trusted.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use palisade_sys::verity;
use rustix::fs::fgetxattr;
use rustix::io::Errno;

use super::entry::{Algorithm, Digest, Source};
use super::measure::{self, Meter};
use super::store::{self, Store};

/// What must match for a trusted file, in addition to its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Integrity {
    /// Nothing: a process that can write the file can change it in any way.
    None,
    /// Its size.
    #[default]
    Size,
    /// Its size, and the digest that the kernel's integrity subsystem keeps with it (`security.ima`).
    Ima,
    /// Its size and its digest, computed from its content.
    Sha256,
    /// The same, and fs-verity protects the content: no process can change it any more.
    Verity,
}

/// The database's answer about an open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The file is trusted.
    Trusted {
        /// The source that trusts it.
        source: Source,
    },
    /// The file's path isn't in the database.
    Unknown,
    /// The file's path is in the database, but the file differs.
    Changed {
        /// The expected state; the last one of several.
        expected: State,
        /// The actual state.
        found: State,
    },
}

/// A property of a file that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// How many bytes it has.
    Size(u64),
    /// Its digest; [`Digest::None`] if it can't be computed.
    Digest(Digest),
}

/// The properties of an open file. A digest is asked for last, and at most once for each algorithm.
pub trait Content {
    /// How many bytes it has.
    fn size(&self) -> u64;
    /// The digest of its content; [`Digest::None`] if it can't be computed.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    fn digest(&mut self, algorithm: Algorithm) -> io::Result<Digest>;
    /// The digest that IMA stores with it, if there is one.
    ///
    /// # Errors
    ///
    /// If that can't be read.
    fn ima(&mut self) -> io::Result<Option<Digest>>;
    /// The SHA-256 of its content, if fs-verity protects that.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    fn verity(&mut self) -> io::Result<Option<Digest>>;
}

/// A file can't be checked. The caller must treat it as untrusted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The file.
    #[error("can't compare {path} with the trust database: {source}")]
    Content {
        /// Its path, escaped.
        path: String,
        /// Why.
        source: io::Error,
    },
}

impl Store {
    /// Is the open file `content`, whose real path is `path`, trusted?
    ///
    /// If several sources trust the path, the file must match one of them. This uses only memory, and takes less than a
    /// microsecond, unless a digest is asked for.
    ///
    /// # Errors
    ///
    /// If the database is damaged or the file can't be read.
    pub fn check(
        &self,
        path: &[u8],
        integrity: Integrity,
        content: &mut impl Content,
    ) -> Result<Trust, Error> {
        let size = content.size();
        let (mut trusted, mut right_size, mut answer) = (None, false, Trust::Unknown);
        let mut unsure = false;
        self.who(path, |source, expected| {
            let expected = match expected {
                Some(expected) => expected,
                None => return unsure = true,
            };
            if integrity == Integrity::None || expected == size {
                trusted = trusted.take().or_else(|| Some(source.clone()));
                right_size = true;
            } else {
                answer = Trust::Changed { expected: State::Size(expected), found: State::Size(size) };
            }
        })?;
        if !unsure && (!right_size || matches!(integrity, Integrity::None | Integrity::Size)) {
            return Ok(trusted.map_or(answer, |source| Trust::Trusted { source }));
        }
        let mut records = Vec::new();
        self.find(path, |found| records.push((found.size, found.digest, found.source.clone())))?;
        let mut digests = Digests { content, known: Vec::new() };
        for (expected_size, expected, source) in records {
            if integrity != Integrity::None && expected_size != size {
                answer = Trust::Changed { expected: State::Size(expected_size), found: State::Size(size) };
                continue;
            }
            if matches!(integrity, Integrity::None | Integrity::Size) {
                return Ok(Trust::Trusted { source });
            }
            let found = digests
                .of(integrity, &expected)
                .map_err(|source| Error::Content { path: path.escape_ascii().to_string(), source })?;
            if found == expected && expected != Digest::None {
                return Ok(Trust::Trusted { source });
            }
            answer = Trust::Changed { expected: State::Digest(expected), found: State::Digest(found) };
        }
        Ok(answer)
    }
}

struct Digests<'a, C> {
    content: &'a mut C,
    known: Vec<(Algorithm, Digest)>,
}

impl<C: Content> Digests<'_, C> {
    /// The file's digest, to compare with the expected one.
    fn of(&mut self, integrity: Integrity, expected: &Digest) -> io::Result<Digest> {
        if integrity == Integrity::Ima {
            return Ok(self.content.ima()?.unwrap_or(Digest::None));
        }
        let Some(algorithm) = expected.algorithm() else { return Ok(Digest::None) };
        if integrity == Integrity::Verity && algorithm != Algorithm::Sha256 {
            return Ok(Digest::None);
        }
        if let Some((_, digest)) = self.known.iter().find(|(known, _)| *known == algorithm) {
            return Ok(*digest);
        }
        let digest = if integrity == Integrity::Verity {
            self.content.verity()?.unwrap_or(Digest::None)
        } else {
            self.content.digest(algorithm)?
        };
        self.known.push((algorithm, digest));
        Ok(digest)
    }
}

/// An open file whose properties come from the kernel.
#[derive(Debug)]
pub struct OnDisk<'a> {
    file: &'a File,
    size: u64,
}

impl<'a> OnDisk<'a> {
    /// The open file; its position is moved when it is hashed.
    ///
    /// # Errors
    ///
    /// If the kernel doesn't tell its size.
    pub fn new(file: &'a File) -> io::Result<Self> {
        Ok(Self { file, size: file.metadata()?.len() })
    }
}

impl Content for OnDisk<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn digest(&mut self, algorithm: Algorithm) -> io::Result<Digest> {
        use std::io::Seek;
        if algorithm != Algorithm::Sha256 {
            return Ok(Digest::None);
        }
        (&mut &*self.file).rewind()?;
        match Meter::default().measure_open(self.file, None) {
            Ok(measured) => Ok(measured.sha256),
            Err(measure::Error::Read(error)) => Err(error),
            Err(_) => Ok(Digest::None),
        }
    }

    fn ima(&mut self) -> io::Result<Option<Digest>> {
        let mut value = [0; 256];
        match fgetxattr(self.file, c"security.ima", &mut value) {
            Ok(length) => Ok(value.get(..length).and_then(parse_ima)),
            Err(Errno::NODATA | Errno::NOTSUP | Errno::RANGE) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn verity(&mut self) -> io::Result<Option<Digest>> {
        // First check whether the content can still change, then hash it.
        match verity::measure(self.file.as_fd())? {
            Some(_) => self.digest(Algorithm::Sha256).map(Some),
            None => Ok(None),
        }
    }
}

/// The digest in a `security.ima` attribute, if it can be compared.
///
/// The first byte is 4 for a digest with its algorithm (`IMA_XATTR_DIGEST_NG` in Linux's
/// security/integrity/integrity.h). The second byte is the algorithm (`enum hash_algo` in
/// include/uapi/linux/hash_info.h), the rest the digest. Signatures and the old form without an algorithm aren't
/// compared.
#[must_use]
pub fn parse_ima(value: &[u8]) -> Option<Digest> {
    let [4, algorithm, digest @ ..] = value else { return None };
    let algorithm = match algorithm {
        1 => Algorithm::Md5,
        2 => Algorithm::Sha1,
        4 => Algorithm::Sha256,
        6 => Algorithm::Sha512,
        _ => return None,
    };
    Digest::new(algorithm, digest)
}

#[cfg(test)]
mod tests;
