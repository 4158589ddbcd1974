// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads rpm's database: SHA-256 and size of each installed file, from the headers of packages.
//!
//! The database is SQLite since rpm 4.16 (`rpmdb.sqlite`): one row for each package, with its header in rpm's format
//! (RPM's "Header Structure", <https://rpm-software-management.github.io/rpm/manual/format_header.html>). Older formats
//! aren't supported.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::entry::{Algorithm, Digest, from_hexadecimal};
use super::real_path::below;

/// The paths of the database, on newer and older distributions.
const DATABASES: &[&[u8]] = &[b"/usr/lib/sysimage/rpm/rpmdb.sqlite", b"/var/lib/rpm/rpmdb.sqlite"];
/// Databases of older rpm versions, in the same directories.
const OLDER: &[&[u8]] =
    &[b"/usr/lib/sysimage/rpm/Packages.db", b"/var/lib/rpm/Packages.db", b"/var/lib/rpm/Packages"];
/// The largest header, in bytes (rpm's own limit).
const LARGEST: usize = 256 << 20;
/// `RPMFILE_GHOST`: the package owns the file, but doesn't install it.
const GHOST: u32 = 1 << 6;

/// rpm's database can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite's error.
    #[error("can't read rpm's database {path}: {source}")]
    Read {
        /// Where it is.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The database exists, but in a format that rpm has abandoned.
    #[error("can't read rpm's database {path}: it has the format of rpm before 4.16")]
    Older {
        /// Where it is.
        path: PathBuf,
    },
    /// A package's header is malformed.
    #[error("package {number} of rpm's database {path} is malformed ({what})")]
    Malformed {
        /// Where the database is.
        path: PathBuf,
        /// Which row.
        number: i64,
        /// The wrong part of it.
        what: &'static str,
    },
    /// The search for the database failed.
    #[error("can't look for rpm's database: {0}")]
    Look(#[from] io::Error),
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Where the package puts it.
    pub path: Vec<u8>,
    /// How many bytes it has.
    pub size: u64,
    /// Its digest.
    pub digest: Digest,
}

/// An installed package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: Vec<u8>,
    /// The files that it installs: no directories, links and ghosts.
    pub files: Vec<Listed>,
}

/// The database below `root`, if there is one.
///
/// # Errors
/// If there is only a database of an older format.
pub fn find(root: &Path) -> Result<Option<PathBuf>, Error> {
    if let Some(path) = DATABASES.iter().map(|path| below(root, path)).find(|path| path.exists()) {
        return Ok(Some(path));
    }
    match OLDER.iter().map(|path| below(root, path)).find(|path| path.exists()) {
        Some(path) => Err(Error::Older { path }),
        None => Ok(None),
    }
}

/// Reads every installed package of the database, and calls `each`, until it fails.
///
/// The file is read without its write-ahead log, because the reading process may not write there, and rpm moves
/// everything into the file when it ends. After a change the caller reads again.
///
/// # Errors
/// If the database can't be read; and the error of `each`.
pub fn packages<E: From<Error>>(
    database: &Path,
    mut each: impl FnMut(Package) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |source| Error::Read { path: database.into(), source };
    let name = database.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(format!("file:{name}?immutable=1"), flags).map_err(failed)?;
    let mut statement =
        connection.prepare("SELECT hnum, blob FROM Packages ORDER BY hnum").map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let number: i64 = row.get(0).map_err(failed)?;
        let blob = row.get_ref(1).map_err(failed)?.as_blob().map_err(|error| failed(error.into()))?;
        let malformed = |what| Error::Malformed { path: database.into(), number, what };
        each(package(blob).map_err(malformed)?)?;
    }
    Ok(())
}

mod tag {
    pub(super) const NAME: u32 = 1000;
    pub(super) const FILE_SIZES: u32 = 1028;
    pub(super) const FILE_MODES: u32 = 1030;
    pub(super) const FILE_DIGESTS: u32 = 1035;
    pub(super) const FILE_FLAGS: u32 = 1037;
    pub(super) const DIRECTORY_INDEXES: u32 = 1116;
    pub(super) const BASE_NAMES: u32 = 1117;
    pub(super) const DIRECTORY_NAMES: u32 = 1118;
    pub(super) const LONG_FILE_SIZES: u32 = 5008;
    pub(super) const FILE_DIGEST_ALGORITHM: u32 = 5011;
}

/// The types of entries.
mod kind {
    pub(super) const INT16: u32 = 3;
    pub(super) const INT32: u32 = 4;
    pub(super) const INT64: u32 = 5;
    pub(super) const STRING: u32 = 6;
    pub(super) const STRING_ARRAY: u32 = 8;
}

/// A header: an index of entries of 16 bytes (tag, type, offset, count), and their data; numbers have their most
/// significant byte first.
struct Header<'a> {
    index: &'a [[u8; 16]],
    data: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

impl<'a> Header<'a> {
    fn parse(blob: &'a [u8]) -> Result<Self, &'static str> {
        if blob.len() > LARGEST {
            return Err("its size");
        }
        let length = |at| usize::try_from(word(blob, at)?).ok();
        let (entries, bytes) = length(0).zip(length(4)).ok_or("its beginning")?;
        let rest = &blob[8..];
        let (index, data) = entries
            .checked_mul(16)
            .and_then(|length| rest.split_at_checked(length))
            .filter(|(_, data)| data.len() >= bytes)
            .ok_or("its lengths")?;
        Ok(Self { index: index.as_chunks().0, data: &data[..bytes] })
    }

    /// The data of a tag, and how many values there are.
    fn entry(&self, tag: u32, kinds: &[u32]) -> Option<(&'a [u8], usize)> {
        let entry = self.index.iter().find(|entry| word(&entry[..], 0) == Some(tag))?;
        let number = |at| usize::try_from(word(&entry[..], at)?).ok();
        if !kinds.contains(&word(&entry[..], 4)?) {
            return None;
        }
        Some((self.data.get(number(8)?..)?, number(12)?))
    }

    fn strings(&self, tag: u32) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
        let (data, count) = self.entry(tag, &[kind::STRING, kind::STRING_ARRAY])?;
        let strings: Vec<&[u8]> = data.split(|byte| *byte == 0).take(count).collect();
        (strings.len() == count).then(|| strings.into_iter())
    }

    fn numbers<const WIDTH: usize>(&self, tag: u32, kind: u32) -> Option<Vec<u64>> {
        let (data, count) = self.entry(tag, &[kind])?;
        let data = data.get(..count.checked_mul(WIDTH)?)?;
        let chunks = data.as_chunks::<WIDTH>().0;
        Some(
            chunks
                .iter()
                .map(|bytes| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
                .collect(),
        )
    }
}

/// `PGPHASHALGO_*`: the algorithm of digests; MD5 if none is given.
fn algorithm(number: u64) -> Option<Algorithm> {
    match number {
        1 => Some(Algorithm::Md5),
        8 => Some(Algorithm::Sha256),
        10 => Some(Algorithm::Sha512),
        // SHA-1, SHA-384 and algorithms that no distribution uses.
        _ => None,
    }
}

/// A package from its header. Files with unusable digests are left out.
fn package(blob: &[u8]) -> Result<Package, &'static str> {
    let header = Header::parse(blob)?;
    let name = header.strings(tag::NAME).and_then(|mut names| names.next()).ok_or("its name")?.to_vec();
    let Some(bases) = header.strings(tag::BASE_NAMES) else { return Ok(Package { name, files: Vec::new() }) };
    let directories: Vec<&[u8]> = header.strings(tag::DIRECTORY_NAMES).ok_or("its directories")?.collect();
    let indexes =
        header.numbers::<4>(tag::DIRECTORY_INDEXES, kind::INT32).ok_or("its directories' numbers")?;
    let modes = header.numbers::<2>(tag::FILE_MODES, kind::INT16).ok_or("its files' modes")?;
    let flags = header.numbers::<4>(tag::FILE_FLAGS, kind::INT32).ok_or("its files' flags")?;
    let sizes = header
        .numbers::<8>(tag::LONG_FILE_SIZES, kind::INT64)
        .or_else(|| header.numbers::<4>(tag::FILE_SIZES, kind::INT32))
        .ok_or("its files' sizes")?;
    let digests = header.strings(tag::FILE_DIGESTS).ok_or("its files' digests")?;
    let said =
        header.numbers::<4>(tag::FILE_DIGEST_ALGORITHM, kind::INT32).and_then(|said| said.first().copied());
    let Some(algorithm) = algorithm(said.unwrap_or(1)) else {
        return Ok(Package { name, files: Vec::new() });
    };
    let mut files = Vec::new();
    for (number, (base, digest)) in bases.zip(digests).enumerate() {
        let of = |list: &[u64]| list.get(number).copied().ok_or("a list that is too short");
        let directory = usize::try_from(of(&indexes)?).ok().and_then(|index| directories.get(index));
        let directory = directory.ok_or("a directory's number")?;
        let regular = of(&modes)? & 0o170_000 == 0o100_000;
        let ghost = of(&flags)? & u64::from(GHOST) != 0;
        if !regular || ghost {
            continue;
        }
        let Some(digest) = from_hexadecimal(digest).and_then(|bytes| Digest::new(algorithm, &bytes)) else {
            continue;
        };
        files.push(Listed { path: [directory, base].concat(), size: of(&sizes)?, digest });
    }
    Ok(Package { name, files })
}

#[cfg(test)]
mod tests;
