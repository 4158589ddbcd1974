// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manifest: what is in a package. Its author is not trusted. Nothing of it is used before [`Manifest::read`] has
//! checked that its hash is the trailer's and that no path leads out of the directory into which it is unpacked.

use super::error::PackageError;
use super::menu::Menu;
use super::trailer::Trailer;
use palisade_sandbox::layers::packed::Definitions;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};

/// The bytes with which a manifest begins; the version of the format follows.
const WORD: &[u8; 12] = b"palisade-pkg";
/// The version of the format. What a later Palisade adds stands behind what an earlier one reads, which ignores it. So the
/// version changes only if something before the end does.
pub const VERSION: u32 = 1;
const HEADER: usize = WORD.len() + 4;

/// Content is compressed and checked in pieces of this size.
pub const BLOCK: usize = 1 << 20;
/// The largest size of a manifest. One of so many bytes names a million files.
const LARGEST: u64 = 256 << 20;
/// Files of a package at most.
const ENTRIES: usize = 1_000_000;
/// The longest path that the kernel takes.
const PATH: usize = 4095;

/// What is in a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The profile's name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The program, by its path inside.
    pub program: Vec<u8>,
    /// What it was made by.
    pub palisade: String,
    /// What kind of machine it runs on.
    pub machine: String,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// The policy.
    pub definitions: Definitions,
    /// Its files: in the order of their paths, each after the directory that it is in.
    pub entries: Vec<Entry>,
    /// Their content, one file after the other, in pieces.
    pub blocks: Vec<Block>,
    /// Where in the file the pieces begin.
    pub content: u64,
    /// What it has for menus. It was added later: it stands behind the rest, and older packages end before it.
    #[serde(skip)]
    pub menu: Option<Menu>,
}

/// A name in a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path, without a slash in front.
    pub path: Vec<u8>,
    /// What it is.
    pub what: What,
}

impl Entry {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A directory.
    Directory {
        /// Seconds since 1970: caches of fonts and icons go by it.
        modified: i64,
    },
    /// A file.
    File {
        /// Its size.
        size: u64,
        /// Seconds since 1970: python's compiled modules go by it.
        modified: i64,
        /// It may be executed.
        executable: bool,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        target: Vec<u8>,
    },
}

/// A piece of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Bytes in the file.
    pub stored: u32,
    /// Bytes of content.
    pub size: u32,
    /// BLAKE3 of the bytes in the file.
    pub hash: [u8; 32],
}

impl Manifest {
    /// Reads and checks the manifest that a file carries.
    ///
    /// # Errors
    /// When it is cut off, damaged, of another version, or states something impossible.
    pub fn read(file: &std::fs::File, trailer: &Trailer) -> Result<Self, PackageError> {
        let length = file.metadata().map_err(|source| PackageError::Read { source })?.len();
        let end = trailer.offset.checked_add(trailer.length);
        if end.is_none_or(|end| end > length) {
            return Err(PackageError::CutOff { there: length, wanted: end.unwrap_or(u64::MAX) });
        }
        if trailer.length > LARGEST {
            return Err(PackageError::Damaged { what: "its list of files is too long" });
        }
        let size = usize::try_from(trailer.length).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, trailer.offset).map_err(|source| PackageError::Read { source })?;
        let damaged = |what| PackageError::Damaged { what };
        let Some((header, body)) = bytes.split_at_checked(HEADER) else {
            return Err(damaged("its list of files is too short"));
        };
        let (word, version) = header.split_at(WORD.len());
        let version = version.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).unwrap_or_default();
        if word != WORD {
            return Err(damaged("its list of files isn't where it should be"));
        }
        if version != VERSION {
            return Err(PackageError::Version { version });
        }
        if *blake3::hash(&bytes).as_bytes() != trailer.hash {
            return Err(damaged("the checksum of its list of files is wrong"));
        }
        let stated = body.first_chunk().map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
        if stated.is_none_or(|stated| stated > LARGEST) {
            return Err(damaged("its list of files is too long"));
        }
        let plain = lz4_flex::block::decompress_size_prepended(body)
            .map_err(|_error| damaged("its list of files can't be unpacked"))?;
        let unreadable = |_error| damaged("its list of files can't be read");
        let (mut manifest, added) = postcard::take_from_bytes::<Self>(&plain).map_err(unreadable)?;
        if !added.is_empty() {
            manifest.menu = postcard::from_bytes(added).map_err(unreadable)?;
        }
        manifest.check(trailer).map_err(damaged)?;
        Ok(manifest)
    }

    /// As bytes for a file.
    ///
    /// # Errors
    /// None is known.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        let mut bytes = WORD.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let mut plain = postcard::to_allocvec(self)?;
        plain.extend(postcard::to_allocvec(&self.menu)?);
        bytes.extend(lz4_flex::block::compress_prepend_size(&plain));
        Ok(bytes)
    }

    /// The size of all content.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.size)).sum()
    }

    /// How many files there are.
    #[must_use]
    pub fn files(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.what, What::File { .. })).count()
    }

    /// Checks that it is consistent. The error names what isn't.
    pub(super) fn check(&self, trailer: &Trailer) -> Result<(), &'static str> {
        if self.entries.len() > ENTRIES {
            return Err("there are too many files in it");
        }
        let mut directories: HashSet<&[u8]> = HashSet::from([&b""[..]]);
        let mut before: Option<&Path> = None;
        let mut content = 0_u64;
        for entry in &self.entries {
            let path = entry.path();
            if !is_plain(&entry.path) {
                return Err("a file in it has a name that leads elsewhere");
            }
            if before.is_some_and(|before| before >= path) {
                return Err("its files aren't in order");
            }
            before = Some(path);
            let above = path.parent().map(|above| above.as_os_str().as_bytes()).unwrap_or_default();
            if !directories.contains(above) {
                return Err("a file in it is in no directory");
            }
            match &entry.what {
                What::Directory { .. } => {
                    directories.insert(&entry.path);
                }
                What::File { size, .. } => {
                    content = content.checked_add(*size).ok_or("its files are too large")?;
                }
                What::Link { target } => {
                    if target.is_empty() || target.len() > PATH || target.contains(&0) {
                        return Err("a link in it leads nowhere");
                    }
                }
            }
        }
        let largest = u32::try_from(BLOCK).unwrap_or(u32::MAX);
        if self.blocks.iter().any(|block| block.size > largest || block.stored > largest * 2) {
            return Err("a piece of it is too large");
        }
        let stored: u64 = self.blocks.iter().map(|block| u64::from(block.stored)).sum();
        if content != self.size() {
            return Err("its content isn't that of its files");
        }
        if self.content.checked_add(stored).is_none_or(|end| end > trailer.offset) {
            return Err("its content isn't where it should be");
        }
        if !Path::new(OsStr::from_bytes(&self.program)).is_absolute() {
            return Err("its program has no place");
        }
        self.menu.as_ref().map_or(Ok(()), Menu::check)
    }
}

/// Whether a path stays below the directory that it is joined to, and is written in one way only.
fn is_plain(path: &[u8]) -> bool {
    let text = Path::new(OsStr::from_bytes(path));
    let normal = text.components().all(|component| matches!(component, Component::Normal(_)));
    let rejoined: std::path::PathBuf = text.components().collect();
    !path.is_empty()
        && path.len() <= PATH
        && !path.contains(&0)
        && normal
        && rejoined.as_os_str().as_bytes() == path
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
