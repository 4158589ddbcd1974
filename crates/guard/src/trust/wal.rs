// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The write-ahead log: small changes beside the database file. Trusting one more file must not write a million records
//! again.
//!
//! ```text
//! header    magic (8 bytes), id of the database that it belongs to (8), checksum of both (8)
//! frame     length of the payload (4), checksum of the length (4), checksum of the payload (8), payload
//! payload   for each path: length (2), path, how many records (4); for each record: source, record
//! ```
//!
//! A frame is one change, which is applied completely or not at all. It holds all records that its paths have from then
//! on, so reading a frame twice, or losing earlier frames, doesn't change the result for these paths. A process that is
//! killed while it writes leaves a torn frame at the end. That frame was never acknowledged; readers skip it, and the
//! next change removes it. Damage anywhere else is an error. A write-ahead log of another database is left by a rebuild
//! that was killed after the new database was in place. The new database already contains it, so it is ignored.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use foldhash::fast::RandomState;
use xxhash_rust::xxh3::xxh3_64;

use super::base::{decode_source, encode_source};
use super::entry::{Entry, Record, is_real_path};
use super::record::{Malformed, Raw, checksum};

/// The first bytes of a write-ahead log.
const MAGIC: [u8; 8] = *b"PALTLOG1";
/// The length of its header.
const HEADER: usize = 24;
/// The length of a frame's header.
const FRAME: usize = 16;
/// The largest log that is read, in bytes. The database should have been rebuilt long before.
const LARGEST: u64 = 256 << 20;

/// A write-ahead log can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be opened, read, written or synchronised.
    #[error("can't {operation} the write-ahead log of the trust database {path}: {source}")]
    File {
        /// What can't be done.
        operation: &'static str,
        /// The write-ahead log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Users other than root, or than the calling user, could have written it.
    #[error("refusing the write-ahead log {path}: its owner or mode is unsafe (user {owner}, mode {mode:o})")]
    Writable {
        /// The write-ahead log.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// It is damaged, and not only at its end.
    #[error("the write-ahead log {path} is damaged at byte {offset}: the trust database has to be rebuilt")]
    Damaged {
        /// The write-ahead log.
        path: PathBuf,
        /// Where.
        offset: usize,
    },
    /// It is larger than a log should become.
    #[error(
        "the write-ahead log {path} has {size} bytes, more than {LARGEST}: the trust database has to be rebuilt"
    )]
    TooLarge {
        /// The write-ahead log.
        path: PathBuf,
        /// How large it is.
        size: u64,
    },
    /// A record can't be recorded.
    #[error("can't record {path}: {source}")]
    Record {
        /// The file's path, escaped.
        path: String,
        /// Why.
        source: Malformed,
    },
}

/// All records that a path has from now on; empty if it isn't trusted any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path.
    pub path: Vec<u8>,
    /// Its records. They all have this path.
    pub records: Vec<Record>,
}

/// The changes in a write-ahead log, which override the database.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    /// For each path that was changed, all its records.
    pub(super) paths: HashMap<Box<[u8]>, Vec<Record>, RandomState>,
    /// How many bytes of the write-ahead log are whole frames.
    pub(super) read: u64,
    /// The log's attributes when it was read: its size, and its time of change.
    pub(super) looks: (u64, i64, i64),
}

impl Overlay {
    /// Reads the write-ahead log at `path` of the database `id`. If there is no log, or it belongs to another database,
    /// there are no changes.
    ///
    /// # Errors
    ///
    /// If it can't be read, other users could have written it, or it is damaged in another way than by being cut off.
    pub fn read(path: &Path, id: u64) -> Result<Self, Error> {
        let failed = |source| Error::File { operation: "read", path: path.into(), source };
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(failed)?,
        };
        let about = file.metadata().map_err(failed)?;
        if about.mode() & 0o022 != 0
            || (about.uid() != 0 && about.uid() != rustix::process::geteuid().as_raw())
        {
            return Err(Error::Writable {
                path: path.into(),
                owner: about.uid(),
                mode: about.mode() & 0o7777,
            });
        }
        let size = about.len();
        if size > LARGEST {
            return Err(Error::TooLarge { path: path.into(), size });
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let decoded = Self::decode(&bytes, id);
        let mut overlay = decoded.map_err(|offset| Error::Damaged { path: path.into(), offset })?;
        overlay.looks = looks(&about);
        Ok(overlay)
    }

    /// Decodes a write-ahead log's bytes. The error is the position of the damage.
    pub(super) fn decode(bytes: &[u8], id: u64) -> Result<Self, usize> {
        let mut overlay = Self::default();
        // Too short: the writer was killed while it made the log. A wrong header: the log of another database.
        let Some(rest) = bytes.strip_prefix(&header(id)[..]) else { return Ok(overlay) };
        let mut rest = rest;
        overlay.read = HEADER as u64;
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            let Some((frame, after)) = rest.split_first_chunk::<FRAME>() else { break };
            let (length, sums) = frame.split_at(4);
            if checksum(length) != sums[..4] {
                // After a loss of power a file may end in zeros that were never written.
                if rest.iter().all(|byte| *byte == 0) {
                    break;
                }
                return Err(at);
            }
            let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let Some((payload, after)) = after.split_at_checked(length) else { break };
            if xxh3_64(payload).to_le_bytes() != sums[4..] {
                if after.is_empty() {
                    break;
                }
                return Err(at);
            }
            for change in decode_payload(payload).ok_or(at)? {
                overlay.paths.insert(change.path.into(), change.records);
            }
            rest = after;
            overlay.read = (bytes.len() - rest.len()) as u64;
        }
        Ok(overlay)
    }

    /// How many paths were changed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Was nothing changed?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Appends changes to the write-ahead log at `path` of the database `id`, waits until they are on the disk, and
    /// applies them to this overlay. The caller must hold the lock and must have read all of the write-ahead log.
    ///
    /// # Errors
    ///
    /// If a path isn't absolute and normalised, or the disk is full; nothing has changed then.
    pub fn append(&mut self, path: &Path, id: u64, changes: Vec<Change>) -> Result<(), Error> {
        let failed = |operation| move |source| Error::File { operation, path: path.into(), source };
        let frame = encode_frame(&changes)?;
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).append(true).create(true).mode(0o640).open(path).map_err(failed("open"))?;
        let written = (|| {
            // What follows is torn, or belongs to another database.
            file.set_len(self.read)?;
            if self.read == 0 {
                file.write_all(&header(id))?;
            }
            file.write_all(&frame)?;
            file.sync_data()
        })();
        if let Err(source) = written {
            let _torn_then = file.set_len(self.read);
            return Err(failed("write")(source));
        }
        if self.read == 0 {
            super::build::sync_directory(path).map_err(|error| {
                failed("synchronise the directory of")(io::Error::other(error.to_string()))
            })?;
            self.read = HEADER as u64;
        }
        self.read += frame.len() as u64;
        self.looks = file.metadata().map(|about| looks(&about)).unwrap_or_default();
        for change in changes {
            self.paths.insert(change.path.into(), change.records);
        }
        Ok(())
    }
}

/// Attributes that show whether a write-ahead log was changed.
pub(super) fn looks(about: &std::fs::Metadata) -> (u64, i64, i64) {
    (about.len(), about.ctime(), about.ctime_nsec())
}

fn header(id: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&id.to_le_bytes());
    let sum = xxh3_64(&bytes[..16]);
    bytes[16..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn encode_frame(changes: &[Change]) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; FRAME];
    for Change { path, records } in changes {
        let refused = |source| Error::Record { path: path.escape_ascii().to_string(), source };
        if !is_real_path(path) || records.iter().any(|record| record.entry.path != *path) {
            return Err(refused(Malformed::Path));
        }
        let length = u16::try_from(path.len()).map_err(|_| refused(Malformed::Path))?;
        let count = u32::try_from(records.len()).map_err(|_| refused(Malformed::Path))?;
        bytes.extend(length.to_le_bytes());
        bytes.extend(path);
        bytes.extend(count.to_le_bytes());
        for Record { entry, seen } in records {
            encode_source(&entry.source, &mut bytes);
            let raw = Raw { path, size: entry.size, digest: entry.digest, source: 0, seen: *seen };
            raw.encode(&mut bytes).map_err(refused)?;
        }
    }
    let sum = xxh3_64(&bytes[FRAME..]);
    // A frame of 4 GiB can't be read again, because it is larger than any write-ahead log may be.
    let length = u32::try_from(bytes.len() - FRAME).unwrap_or(u32::MAX).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    bytes[4..8].copy_from_slice(&checksum(&length));
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
    Ok(bytes)
}

fn decode_payload(mut rest: &[u8]) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while !rest.is_empty() {
        let (length, left) = rest.split_first_chunk::<2>()?;
        let (path, left) = left.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let (count, left) = left.split_first_chunk::<4>()?;
        if !is_real_path(path) {
            return None;
        }
        rest = left;
        let mut records = Vec::new();
        for _ in 0..u32::from_le_bytes(*count) {
            let source = decode_source(&mut rest)?;
            let (raw, length) = Raw::decode(rest).ok()?;
            if raw.path != path {
                return None;
            }
            let entry = Entry { path: path.into(), size: raw.size, digest: raw.digest, source };
            records.push(Record { entry, seen: raw.seen });
            rest = rest.get(length..)?;
        }
        changes.push(Change { path: path.into(), records });
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::super::entry::{Digest, Source};
    use super::*;

    fn change(path: &str, sizes: &[u64]) -> Change {
        let record = |size: &u64| Record {
            entry: Entry {
                path: path.into(),
                size: *size,
                digest: Digest::Sha256([9; 32]),
                source: Source::File(b"/etc/trust".as_slice().into()),
            },
            seen: None,
        };
        Change { path: path.into(), records: sizes.iter().map(record).collect() }
    }

    #[test]
    fn any_cut_leaves_whole_frames() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trust.log");
        let mut overlay = Overlay::read(&path, 7).unwrap();
        let mut ends = Vec::new();
        for number in 0..4 {
            overlay.append(&path, 7, vec![change(&format!("/{number}"), &[1, 2])]).unwrap();
            ends.push(usize::try_from(overlay.read).unwrap());
        }
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(Overlay::decode(&bytes[..cut], 7).unwrap().len(), whole);
            // Zeros in place of what wasn't written: the same result.
            let zeros = [&bytes[..cut], &vec![0; bytes.len() - cut]].concat();
            if let Ok(overlay) = Overlay::decode(&zeros, 7) {
                assert!(overlay.len() <= whole + 1);
            }
        }
        // The next frame overwrites a torn one.
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let mut torn = Overlay::read(&path, 7).unwrap();
        assert_eq!(torn.len(), 3);
        torn.append(&path, 7, vec![change("/last", &[])]).unwrap();
        let read = Overlay::read(&path, 7).unwrap();
        assert_eq!(read.paths, torn.paths);
        assert_eq!(read.len(), 4);
        // The log of another database is empty here, and is started again.
        assert!(Overlay::read(&path, 8).unwrap().is_empty());
    }

    #[test]
    fn damage_before_the_end_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trust.log");
        let mut overlay = Overlay::default();
        overlay.append(&path, 7, vec![change("/a", &[1])]).unwrap();
        let end = usize::try_from(overlay.read).unwrap();
        overlay.append(&path, 7, vec![change("/b", &[1])]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for at in HEADER..end {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(Overlay::decode(&flipped, 7).is_err(), "{at}");
        }
    }

    #[test]
    fn any_bytes() {
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            let _read = Overlay::decode(bytes, 1);
            let sum = xxh3_64(bytes).to_le_bytes();
            let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            let frame = [&header(1)[..], &length, &checksum(&length), &sum, bytes].concat();
            if let Ok(overlay) = Overlay::decode(&frame, 1) {
                assert!(overlay.len() <= bytes.len());
            }
        });
    }
}
