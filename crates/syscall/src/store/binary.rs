// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A binary, and the calls that were learned for it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Syscall;

/// An executable file with this content. The same path with another content is another binary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binary {
    /// The path where it lies or lay.
    pub path: PathBuf,
    /// BLAKE3 of its content.
    pub hash: [u8; 32],
}

impl Binary {
    /// The file at `path` as it is now.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), hash: Self::hash(File::open(path)?)? })
    }

    /// The hash of everything that `content` yields.
    ///
    /// # Errors
    /// When it can't be read to its end.
    pub fn hash(mut content: impl Read) -> std::io::Result<[u8; 32]> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 128 * 1024];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(*hasher.finalize().as_bytes()),
                Ok(length) => hasher.update(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
        }
    }
}

impl Binary {
    /// The hash in hexadecimal digits.
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.hash).to_hex().to_string()
    }
}

/// The calls that were learned for one binary, or stated for a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// The binary. `None` for calls that were stated for the profile itself.
    pub binary: Option<Binary>,
    /// The calls.
    pub calls: BTreeSet<Syscall>,
}

/// A binary with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The binary.
    pub binary: Binary,
    /// The calls that were learned for it, under all its profiles.
    pub calls: BTreeSet<Syscall>,
    /// The profiles under which it was seen.
    pub profiles: BTreeSet<String>,
    /// When it was seen first.
    pub first_seen: SystemTime,
    /// When it was seen last. The value can be up to a day old.
    pub last_seen: SystemTime,
}

impl Known {
    /// Whether the file is gone or has another content.
    ///
    /// # Errors
    /// When the file can't be read: it may be unchanged.
    pub fn is_gone(&self) -> std::io::Result<bool> {
        let path = &self.binary.path;
        let found = match std::fs::metadata(path) {
            // Opening a file of another kind could wait forever.
            Ok(found) if !found.is_file() => return Ok(true),
            Ok(_file) => Binary::of(path),
            Err(error) => Err(error),
        };
        match found {
            Ok(found) => Ok(found != self.binary),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// A profile or a program, and how much is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The name of the profile or the program in the store.
    pub name: String,
    /// How many binaries ran under it.
    pub binaries: usize,
    /// How many calls are known for the binaries and for the profile itself.
    pub calls: usize,
}

/// A profile or a program that has a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Having {
    /// Its name in the store.
    pub name: String,
    /// The call was stated for it.
    pub stated: bool,
    /// The binaries for which it was learned.
    pub binaries: Vec<PathBuf>,
}
