// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The database file: written once, then only read.
//!
//! ```text
//! header    128 bytes, with a checksum of its own
//! records   in the order of arrival, each from a multiple of 8 on, each with a checksum (see `record`)
//! sources   kind (1 byte), length (4), name
//! index     2^bits + 1 numbers: where in the table each bucket begins
//!           table of slots of 24 bytes, by hash: 12 bytes of the path's hash, offset of the record / 8 (4),
//!           size of the file (5), source (3)
//! ```
//!
//! A path's hash is keyed BLAKE3 with a random key of the file's: its first bits select the bucket, 12 more bytes the
//! slot. Two paths don't share these 108 or more bits by chance, and a process that doesn't know the key can't
//! construct such paths. So the index in memory, about 25 bytes for each file, answers which source trusts a path, and
//! for which size. Only the digest is read from the file, by callers that are about to hash a whole file; the path is
//! compared then, too. Sources and index are checked when the file is opened, a record when it is read.
//!
//! The file is read, not mapped: a failing disk then causes an error, and not a SIGBUS that ends the daemon and all
//! enforcement with it. Measurements: docs/adr/0024-trust-database.md.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::entry::Source;
use super::record::{self, Malformed, Raw};

/// The first bytes of a database.
pub(super) const MAGIC: [u8; 8] = *b"PALTRUST";
/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// The length of the header; records begin behind it.
pub(super) const HEADER: usize = 128;
/// Records begin at multiples of this.
pub(super) const UNIT: usize = 8;
/// How much of a record is read at first: enough for nearly all records, and cheap.
const FIRST_READ: usize = 256;

/// A database can't be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be opened.
    #[error("can't open the trust database {path}: {source}")]
    Open {
        /// The database.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file can't be read.
    #[error("can't read the trust database {path} at byte {offset}: {source}")]
    Read {
        /// The database.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// Users other than root, or than the calling user, could have written it.
    #[error("refusing the trust database {path}: its owner or mode is unsafe (user {owner}, mode {mode:o})")]
    Writable {
        /// The database.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// It doesn't begin like a database.
    #[error("{path} is no trust database")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It is of another version.
    #[error("the trust database {path} is of version {found}, not {VERSION}: it has to be rebuilt")]
    Version {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Its length differs from the length in its header.
    #[error("the trust database {path} has {found} bytes instead of {expected}: it has to be rebuilt")]
    Length {
        /// The database.
        path: PathBuf,
        /// How long it should be.
        expected: u64,
        /// How long it is.
        found: u64,
    },
    /// A checksum is wrong, or the content is invalid.
    #[error("the trust database {path} is damaged ({what}): it has to be rebuilt")]
    Damaged {
        /// The database.
        path: PathBuf,
        /// Which part.
        what: &'static str,
    },
    /// A record is damaged.
    #[error(
        "the trust database {path} is damaged (the record at byte {offset}: {source}): it has to be rebuilt"
    )]
    Record {
        /// The database.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is damaged.
        source: Malformed,
    },
}

/// The fields of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Random bytes: they identify this database, and are the key of the hash.
    pub(super) key: [u8; 32],
    /// How many records there are.
    pub(super) entries: u64,
    /// Where the records end and the sources begin.
    pub(super) records_end: u64,
    /// Where the sources end and the index begins.
    pub(super) index: u64,
    /// Where the file ends.
    pub(super) end: u64,
    /// The binary logarithm of the number of buckets.
    pub(super) bits: u32,
    /// Checksum of sources and index.
    pub(super) tail: u64,
}

/// A database file that is open.
#[derive(Debug)]
pub struct Base {
    path: PathBuf,
    file: File,
    header: Header,
    sources: Vec<Source>,
    /// Sources and index as in the file, and the offset of the index in it.
    tail: Box<[u8]>,
    index: usize,
}

/// All records of a database, one after the other.
#[derive(Debug)]
pub struct Records<'a> {
    base: &'a Base,
    buffer: Vec<u8>,
    /// The buffer's offset in the file, and the next record's offset in the buffer.
    start: u64,
    at: usize,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.bits.to_le_bytes());
        bytes.extend(self.key);
        for number in [self.entries, self.records_end, self.index, self.end, self.tail] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.resize(HEADER - 8, 0);
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        let mut whole = [0; HEADER];
        whole.copy_from_slice(&bytes);
        whole
    }

    fn decode(bytes: &[u8; HEADER], path: &Path) -> Result<Self, Error> {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
        let half = |at: usize| bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        let mut key = [0; 32];
        key.copy_from_slice(&bytes[16..48]);
        if bytes[..8] != MAGIC {
            return Err(Error::Foreign { path: path.into() });
        }
        if half(8) != VERSION {
            return Err(Error::Version { path: path.into(), found: half(8) });
        }
        if xxh3_64(&bytes[..HEADER - 8]) != number(HEADER - 8) {
            return Err(Error::Damaged { path: path.into(), what: "header" });
        }
        Ok(Self {
            bits: half(12),
            key,
            entries: number(48),
            records_end: number(56),
            index: number(64),
            end: number(72),
            tail: number(80),
        })
    }
}

/// The hash that finds a path.
pub(super) fn hash(path: &[u8], key: &[u8; 32]) -> u128 {
    let [bytes @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
        *blake3::keyed_hash(key, path).as_bytes();
    u128::from_be_bytes(bytes)
}

/// The bucket of a hash.
pub(super) const fn bucket(hash: u128, bits: u32) -> u128 {
    if bits == 0 { 0 } else { hash >> (128 - bits) }
}

/// Marks a size that doesn't fit into a slot: the record has it.
const LARGE: u64 = (1 << 40) - 1;

/// The index's entry for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) hash: u128,
    pub(super) unit: u32,
    pub(super) source: u32,
    pub(super) size: u64,
}

impl Slot {
    /// How many bytes a slot has.
    pub(super) const LENGTH: usize = 24;
    /// The most sources that there can be.
    pub(super) const SOURCES: u32 = 1 << 24;

    pub(super) fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..12].copy_from_slice(&self.hash.to_le_bytes()[..12]);
        bytes[12..16].copy_from_slice(&self.unit.to_le_bytes());
        bytes[16..21].copy_from_slice(&self.size.min(LARGE).to_le_bytes()[..5]);
        bytes[21..].copy_from_slice(&self.source.to_le_bytes()[..3]);
        bytes
    }

    fn decode(bytes: &[u8; Self::LENGTH]) -> (u32, u64, u32) {
        let [.., a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
        let size = u64::from_le_bytes([e, f, g, h, i, 0, 0, 0]);
        (u32::from_le_bytes([a, b, c, d]), size, u32::from_le_bytes([j, k, l, 0]))
    }
}

impl Base {
    /// Opens a database: reads and checks header, sources and index, in about 25 ms for a million files.
    ///
    /// # Errors
    ///
    /// If it doesn't exist, other users could have written it, or it has another version, is damaged or cut off.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::Open { path: path.into(), source })?;
        Self::from_file(file, path)
    }

    /// The same for a file that is already open. `path` is its name in errors.
    ///
    /// # Errors
    ///
    /// As for [`Base::open`].
    pub fn from_file(file: File, path: &Path) -> Result<Self, Error> {
        let damaged = |what| Error::Damaged { path: path.into(), what };
        let about = file.metadata().map_err(|source| Error::Open { path: path.into(), source })?;
        let owner = about.uid();
        if about.mode() & 0o022 != 0 || (owner != 0 && owner != rustix::process::geteuid().as_raw()) {
            return Err(Error::Writable { path: path.into(), owner, mode: about.mode() & 0o7777 });
        }
        let length = about.len();
        let expected = HEADER as u64;
        if length < expected {
            let mut start = [0; 8];
            let short = file.read_exact_at(&mut start, 0).is_err();
            return Err(if short || start == MAGIC {
                Error::Length { path: path.into(), expected, found: length }
            } else {
                Error::Foreign { path: path.into() }
            });
        }
        let mut bytes = [0; HEADER];
        let read = |source, offset| Error::Read { path: path.into(), offset, source };
        file.read_exact_at(&mut bytes, 0).map_err(|source| read(source, 0))?;
        let header = Header::decode(&bytes, path)?;
        if header.end != length {
            return Err(Error::Length { path: path.into(), expected: header.end, found: length });
        }
        let buckets = 1_u64.checked_shl(header.bits).ok_or_else(|| damaged("header"))?;
        let index_length = (|| {
            let ordered = expected <= header.records_end
                && header.records_end <= header.index
                && header.index <= header.end;
            let starts = buckets.checked_add(1)?.checked_mul(4)?;
            let whole = starts.checked_add(header.entries.checked_mul(Slot::LENGTH as u64)?)?;
            (ordered && whole == header.end - header.index).then_some(whole)
        })()
        .and_then(|length| usize::try_from(length).ok())
        .ok_or_else(|| damaged("header"))?;
        let tail = usize::try_from(header.end - header.records_end).map_err(|_| damaged("header"))?;
        let mut tail = vec![0; tail].into_boxed_slice();
        file.read_exact_at(&mut tail, header.records_end)
            .map_err(|source| read(source, header.records_end))?;
        if xxh3_64(&tail) != header.tail {
            return Err(damaged("index"));
        }
        let index = tail.len() - index_length;
        let sources = decode_sources(&tail[..index]).ok_or_else(|| damaged("sources"))?;
        Ok(Self { path: path.into(), file, header, sources, tail, index })
    }

    /// The number that identifies this database.
    #[must_use]
    pub fn id(&self) -> u64 {
        xxh3_64(&self.header.key)
    }

    /// How many records it has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.header.entries
    }

    /// Has it no records?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.header.entries == 0
    }

    /// The sources of its records.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The file, for example to check whether another file replaced it.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Calls `each` with the sources that trust `path`, and each size (`None` if it has to be read). Uses only memory.
    ///
    /// # Errors
    ///
    /// If the index is invalid.
    pub fn who(&self, path: &[u8], mut each: impl FnMut(&Source, Option<u64>)) -> Result<(), Error> {
        for (offset, size, source) in self.slots(path)? {
            each(self.source(source, offset)?, (size != LARGE).then_some(size));
        }
        Ok(())
    }

    /// Calls `each` for every record of `path`.
    ///
    /// # Errors
    ///
    /// If a record can't be read or is damaged.
    pub fn find(&self, path: &[u8], mut each: impl FnMut(&Raw<'_>, &Source)) -> Result<(), Error> {
        for (offset, ..) in self.slots(path)? {
            let mut first = [0; FIRST_READ];
            let mut longer = Vec::new();
            let raw = self.record(offset, &mut first, &mut longer)?;
            if raw.path == path {
                each(&raw, self.source(raw.source, offset)?);
            }
        }
        Ok(())
    }

    /// The slots of `path`: offset of the record, size, source.
    fn slots(&self, path: &[u8]) -> Result<impl Iterator<Item = (u64, u64, u32)>, Error> {
        let damaged = || Error::Damaged { path: self.path.clone(), what: "index" };
        let hash = hash(path, &self.header.key);
        let index = &self.tail[self.index..];
        let number = |at: usize| index.get(at * 4..)?.first_chunk().map(|four| u32::from_le_bytes(*four));
        let found = usize::try_from(bucket(hash, self.header.bits)).ok().and_then(|bucket| {
            let table = index.get(((1 << self.header.bits) + 1) * 4..)?;
            let (from, to) = (number(bucket)? as usize, number(bucket + 1)? as usize);
            Some(table.as_chunks::<{ Slot::LENGTH }>().0.get(from..to)?.iter())
        });
        let wanted = hash.to_le_bytes();
        Ok(found.ok_or_else(damaged)?.filter(move |slot| slot[..12] == wanted[..12]).map(|slot| {
            let (unit, size, source) = Slot::decode(slot);
            (u64::from(unit) * UNIT as u64, size, source)
        }))
    }

    fn source(&self, source: u32, offset: u64) -> Result<&Source, Error> {
        self.sources.get(source as usize).ok_or_else(|| Error::Record {
            path: self.path.clone(),
            offset,
            source: Malformed::Short,
        })
    }

    fn record<'b>(
        &self,
        offset: u64,
        first: &'b mut [u8; FIRST_READ],
        longer: &'b mut Vec<u8>,
    ) -> Result<Raw<'b>, Error> {
        let malformed = |source| Error::Record { path: self.path.clone(), offset, source };
        let read = |source| Error::Read { path: self.path.clone(), offset, source };
        let there = self.header.records_end.saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX);
        let want = there.min(FIRST_READ);
        self.file.read_exact_at(&mut first[..want], offset).map_err(read)?;
        let whole = record::length(&first[..want]).map_err(malformed)?;
        let bytes = if whole <= want {
            &first[..whole]
        } else {
            if whole > there {
                return Err(malformed(Malformed::Short));
            }
            longer.resize(whole, 0);
            self.file.read_exact_at(longer, offset).map_err(read)?;
            longer
        };
        Ok(Raw::decode(bytes).map_err(malformed)?.0)
    }

    /// All records, in the order in which they were added.
    #[must_use]
    pub const fn records(&self) -> Records<'_> {
        Records { base: self, buffer: Vec::new(), start: HEADER as u64, at: 0 }
    }
}

impl Records<'_> {
    /// How many bytes are read at once.
    const READ: usize = 256 << 10;

    /// The next record, or `None` after the last.
    ///
    /// # Errors
    ///
    /// If it can't be read or is damaged.
    pub fn advance(&mut self) -> Result<Option<(Raw<'_>, &Source)>, Error> {
        let base = self.base;
        let left = |records: &Self| base.header.records_end.saturating_sub(records.start + records.at as u64);
        if left(self) == 0 {
            return Ok(None);
        }
        if self.buffer.len() - self.at < record::LONGEST + 8 {
            let start = self.start + self.at as u64;
            let want = usize::try_from(left(self)).unwrap_or(usize::MAX).min(Self::READ);
            if self.buffer.len() - self.at < want {
                self.buffer.resize(want, 0);
                let read = base.file.read_exact_at(&mut self.buffer, start);
                read.map_err(|source| Error::Read { path: base.path.clone(), offset: start, source })?;
                (self.start, self.at) = (start, 0);
            }
        }
        let offset = self.start + self.at as u64;
        if let Some(length) = gap_length(&self.buffer[self.at..]) {
            self.at = (self.at + length.next_multiple_of(UNIT)).min(self.buffer.len());
            return self.advance();
        }
        let (raw, length) = Raw::decode(&self.buffer[self.at..]).map_err(|source| Error::Record {
            path: base.path.clone(),
            offset,
            source,
        })?;
        self.at = (self.at + length.next_multiple_of(UNIT)).min(self.buffer.len());
        Ok(Some((raw, base.source(raw.source, offset)?)))
    }
}

/// A gap has this in place of the kind of a record's digest.
const GAP: u8 = 0xff;

/// The beginning of a gap that replaces a record.
pub(super) fn gap(length: usize) -> [u8; 8] {
    let [low, high, ..] = (length - 4).to_le_bytes();
    let [a, b, c, d] = record::checksum(&[low, high, GAP, 0]);
    [a, b, c, d, low, high, GAP, 0]
}

fn gap_length(bytes: &[u8]) -> Option<usize> {
    let length = record::length(bytes).ok()?;
    bytes.starts_with(&gap(length)).then_some(length)
}

/// Appends a source's bytes.
pub(super) fn encode_source(source: &Source, out: &mut Vec<u8>) {
    out.push(match source {
        Source::Dpkg(_) => 0,
        Source::File(_) => 1,
        Source::Directory(_) => 2,
        Source::Rpm(_) => 3,
    });
    let name = source.name();
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
    out.extend(length.to_le_bytes());
    out.extend(&name[..]);
}

/// Decodes the source at the beginning of `rest`, and moves `rest` behind it.
pub(super) fn decode_source(rest: &mut &[u8]) -> Option<Source> {
    let (kind, left) = rest.split_first()?;
    let (length, left) = left.split_first_chunk::<4>()?;
    let (name, left) = left.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *rest = left;
    let name: Arc<[u8]> = name.into();
    match kind {
        0 => Some(Source::Dpkg(name)),
        1 => Some(Source::File(name)),
        2 => Some(Source::Directory(name)),
        3 => Some(Source::Rpm(name)),
        _ => None,
    }
}

fn decode_sources(mut rest: &[u8]) -> Option<Vec<Source>> {
    let mut sources = Vec::new();
    while !rest.is_empty() {
        sources.push(decode_source(&mut rest)?);
    }
    sources.shrink_to_fit();
    Some(sources)
}
