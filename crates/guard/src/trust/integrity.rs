// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is an open file the one that is trusted?

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use palisade_sys::verity;
use rustix::fs::fgetxattr;
use rustix::io::Errno;

use super::entry::{Algorithm, Digest, Source};
use super::measure::{self, Meter};
use super::store::{self, Store};

/// What has to be right of a trusted file besides its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Integrity {
    /// Nothing: who can write the file can make anything of it.
    None,
    /// Its size.
    #[default]
    Size,
    /// Its size, and the digest that the kernel's integrity subsystem keeps with it (`security.ima`).
    Ima,
    /// Its size and its digest, computed from its content.
    Sha256,
    /// The same, of content that fs-verity protects: nobody can change it any more.
    Verity,
}

/// What the database says of an open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// It is trusted.
    Trusted {
        /// By whom.
        source: Source,
    },
    /// Its path isn't in the database.
    Unknown,
    /// Its path is, but it isn't as it should be.
    Changed {
        /// What it should be; the last of several.
        expected: State,
        /// What it is.
        found: State,
    },
}

/// What is compared of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// How many bytes it has.
    Size(u64),
    /// Its digest; [`Digest::None`] if it can't be had.
    Digest(Digest),
}

/// What can be asked of an open file. Hashing it is asked for at most once for each algorithm, and last.
pub trait Content {
    /// How many bytes it has.
    fn size(&self) -> u64;
    /// The digest of its content; nothing if that can't be computed.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    fn digest(&mut self, algorithm: Algorithm) -> io::Result<Digest>;
    /// The digest that IMA keeps with it, if it does.
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

/// A file can't be checked: whoever asks has to take it for untrusted.
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
    /// If several sources trust the path, it has to be as one of them says. From memory alone, in less than a
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
    /// The file's digest to compare with this one.
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

/// An open file of which everything is asked of the kernel.
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
        // First whether it can still change, then what it is.
        match verity::measure(self.file.as_fd())? {
            Some(_) => self.digest(Algorithm::Sha256).map(Some),
            None => Ok(None),
        }
    }
}

/// The digest in a `security.ima` attribute, if there is one that can be compared.
///
/// Its first byte is 4 for a digest with its algorithm (`IMA_XATTR_DIGEST_NG` in Linux's
/// security/integrity/integrity.h), its second the algorithm (`enum hash_algo` in include/uapi/linux/hash_info.h), the
/// rest the digest. Signatures and the old form without an algorithm aren't compared.
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
