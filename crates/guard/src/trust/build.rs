// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a database file beside the one that is in use.
//!
//! Records are written to the new file as they come, so memory holds only 32 bytes for each of them. The new file is
//! renamed to the old one's name when all of it is on the disk: a process that is killed before leaves the old file
//! unchanged.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};
use xxhash_rust::xxh3::xxh3_64;

use super::base::{self, HEADER, Header, Slot, UNIT, bucket, encode_source, hash};
use super::entry::{Record, Source};
use super::record::{self, Malformed, Raw};

/// About how many files share a bucket of the index.
const BUCKET: usize = 4;

/// A database can't be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The new file can't be made, written, synchronised or put in place.
    #[error("can't {operation} {path}: {source}")]
    File {
        /// What can't be done.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel gives no random bytes.
    #[error("can't get a random number for the trust database: {0}")]
    Random(io::Error),
    /// A record can't be encoded.
    #[error("can't record {path}: {source}")]
    Record {
        /// The file's path, escaped.
        path: String,
        /// Why.
        source: Malformed,
    },
    /// More than 32 GiB of records, or 4 billion.
    #[error("the trust database {path} would be larger than its format allows")]
    TooLarge {
        /// The database.
        path: PathBuf,
    },
}

/// A database file that is being built.
#[derive(Debug)]
pub struct Builder {
    target: PathBuf,
    beside: PathBuf,
    out: BufWriter<File>,
    at: u64,
    key: [u8; 32],
    sources: HashMap<Source, u32>,
    in_order: Vec<Source>,
    index: Vec<Slot>,
    bytes: Vec<u8>,
    done: bool,
}

impl Builder {
    /// Begins a database that will become `target`. The caller must hold the lock, because there is only one new file.
    ///
    /// # Errors
    ///
    /// If the new file can't be made.
    pub fn new(target: &Path) -> Result<Self, Error> {
        let mut beside = target.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let failed = |operation| {
            let path = beside.clone();
            move |source| Error::File { operation, path, source }
        };
        // Remove the file of a process that was killed. It is created again, because its owner and mode may be wrong.
        if let Err(error) = fs::remove_file(&beside)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(failed("remove")(error));
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o640).open(&beside);
        let mut out = BufWriter::with_capacity(256 << 10, file.map_err(failed("make"))?);
        let mut key = [0; 32];
        getrandom(&mut key, GetRandomFlags::empty()).map_err(|errno| Error::Random(errno.into()))?;
        out.write_all(&[0; HEADER]).map_err(failed("write"))?;
        Ok(Self {
            target: target.into(),
            beside: beside.clone(),
            out,
            at: HEADER as u64,
            key,
            sources: HashMap::new(),
            in_order: Vec::new(),
            index: Vec::new(),
            bytes: Vec::new(),
            done: false,
        })
    }

    /// How many records it has so far.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.index.len()
    }

    /// Has it no records yet?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// If its path isn't absolute and normalised, or the disk is full.
    pub fn push(&mut self, record: &Record) -> Result<(), Error> {
        let entry = &record.entry;
        let raw =
            Raw { path: &entry.path, size: entry.size, digest: entry.digest, source: 0, seen: record.seen };
        self.push_raw(&raw, &entry.source)
    }

    /// Adds a record whose path is borrowed; the number of its source is ignored.
    ///
    /// # Errors
    ///
    /// As for [`Builder::push`].
    pub fn push_raw(&mut self, raw: &Raw<'_>, source: &Source) -> Result<(), Error> {
        let large = || Error::TooLarge { path: self.target.clone() };
        let unit = u32::try_from(self.at / UNIT as u64).map_err(|_| large())?;
        let source = match self.sources.get(source) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.in_order.len()).map_err(|_| large())?;
                if number >= Slot::SOURCES {
                    return Err(large());
                }
                self.sources.insert(source.clone(), number);
                self.in_order.push(source.clone());
                number
            }
        };
        self.bytes.clear();
        let encoded = Raw { source, ..*raw }.encode(&mut self.bytes);
        encoded.map_err(|source| Error::Record { path: raw.path.escape_ascii().to_string(), source })?;
        self.bytes.resize(self.bytes.len().next_multiple_of(UNIT), 0);
        self.out.write_all(&self.bytes).map_err(|source| self.failed("write", source))?;
        self.at += self.bytes.len() as u64;
        self.index.push(Slot { hash: hash(raw.path, &self.key), unit, source, size: raw.size });
        Ok(())
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> Error {
        Error::File { operation, path: self.beside.clone(), source }
    }

    /// Writes the rest, waits until all of it is on the disk, and renames it. Returns the number of records.
    ///
    /// # Errors
    ///
    /// If the disk is full or fails. The old database is still there then.
    pub fn finish(mut self) -> Result<u64, Error> {
        self.out.flush().map_err(|source| self.failed("write", source))?;
        self.index.sort_unstable_by_key(|slot| (slot.hash, slot.unit));
        self.drop_repetitions()?;
        let entries = self.index.len();
        let bits = (entries / BUCKET).max(1).next_power_of_two().trailing_zeros();
        let count = u32::try_from(entries).map_err(|_| Error::TooLarge { path: self.target.clone() })?;
        let mut tail = Vec::new();
        self.in_order.iter().for_each(|source| encode_source(source, &mut tail));
        let sources = tail.len() as u64;
        tail.reserve_exact(((1 << bits) + 1) * 4 + entries * Slot::LENGTH);
        let mut next = 0_u32;
        for number in 0..1_u128 << bits {
            tail.extend(next.to_le_bytes());
            while self.index.get(next as usize).is_some_and(|slot| bucket(slot.hash, bits) == number) {
                next += 1;
            }
        }
        tail.extend(count.to_le_bytes());
        std::mem::take(&mut self.index).iter().for_each(|slot| tail.extend(slot.encode()));
        let header = Header {
            key: self.key,
            entries: entries as u64,
            records_end: self.at,
            index: self.at + sources,
            end: self.at + tail.len() as u64,
            bits,
            tail: xxh3_64(&tail),
        };
        let write = self.out.write_all(&tail).and_then(|()| self.out.flush());
        write.map_err(|source| self.failed("write", source))?;
        let file = self.out.get_ref();
        let write = file.write_all_at(&header.encode(), 0).and_then(|()| file.sync_all());
        write.map_err(|source| self.failed("write", source))?;
        fs::rename(&self.beside, &self.target).map_err(|source| self.failed("replace", source))?;
        self.done = true;
        sync_directory(&self.target)?;
        Ok(entries as u64)
    }

    /// Drops records that are equal to another one, including the source.
    fn drop_repetitions(&mut self) -> Result<(), Error> {
        let mut dropped: Vec<u32> = Vec::new();
        for same in self.index.chunk_by(|one, other| one.hash == other.hash) {
            let mut kept: Vec<Vec<u8>> = Vec::new();
            for slot in same.iter().filter(|_| same.len() > 1) {
                let bytes = self.read_back(slot.unit)?;
                if kept.contains(&bytes) {
                    dropped.push(slot.unit);
                } else {
                    kept.push(bytes);
                }
            }
        }
        dropped.sort_unstable();
        self.index.retain(|slot| dropped.is_empty() || dropped.binary_search(&slot.unit).is_err());
        self.erase(&dropped)
    }

    fn read_back(&self, unit: u32) -> Result<Vec<u8>, Error> {
        let offset = u64::from(unit) * UNIT as u64;
        let file = self.out.get_ref();
        let mut start = [0; 6];
        file.read_exact_at(&mut start, offset).map_err(|source| self.failed("read", source))?;
        let length = record::length(&start)
            .map_err(|source| Error::Record { path: self.beside.display().to_string(), source })?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).map_err(|source| self.failed("read", source))?;
        Ok(bytes)
    }

    /// Replaces records by gaps, which iteration skips.
    fn erase(&self, dropped: &[u32]) -> Result<(), Error> {
        for unit in dropped {
            let length = self.read_back(*unit)?.len();
            let gap = base::gap(length);
            let write = self.out.get_ref().write_all_at(&gap, u64::from(*unit) * UNIT as u64);
            write.map_err(|source| self.failed("write", source))?;
        }
        Ok(())
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        if !self.done {
            let _left_behind = fs::remove_file(&self.beside);
        }
    }
}

/// Waits until the names in a file's directory are on the disk.
pub(super) fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|source| Error::File {
        operation: "synchronise",
        path: directory.into(),
        source,
    })
}
