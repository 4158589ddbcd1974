// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports in a separate process that needs no rights. It sends its results as bounded records through a pipe.
//!
//! The loader reads the content of packages and directories, which is a lot of foreign input, as a user who owns no
//! files. Its parent checks form, paths and limits of each record before recording it. A compromised loader can still
//! report wrong digests. It can't make the parent write anything but records.
//!
//! A frame is its length (4 bytes, little-endian), a kind, and the fields of that kind. The last frame has the number
//! of frames.

use std::io::{self, Read, Write};

use super::base::{Base, decode_source, encode_source};
use super::entry::{Algorithm, Digest, Entry, Record, Source, is_real_path};
use super::import::{self, Event, Progress, Request, import};
use super::record::{self, Raw};

/// The first bytes of a loader's output.
const MAGIC: [u8; 8] = *b"PALLOAD1";
/// The longest name of a source, in bytes.
const LONGEST_NAME: usize = 4096;
/// The longest frame in bytes, without its length.
const LONGEST: usize = 1 + 5 + LONGEST_NAME + record::LONGEST;
/// The longest reason for failing.
const LONGEST_REASON: usize = 4096;

mod kind {
    pub(super) const TRUSTED: u8 = 1;
    pub(super) const DIFFERS: u8 = 2;
    pub(super) const UNREADABLE: u8 = 3;
    pub(super) const MISSING: u8 = 4;
    pub(super) const UNDIGESTED: u8 = 5;
    pub(super) const PROGRESS: u8 = 6;
    pub(super) const END: u8 = 7;
    pub(super) const FAILED: u8 = 8;
}

/// A loader failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The import.
    #[error(transparent)]
    Import(#[from] import::Error),
    /// The parent can't be reached.
    #[error("can't send the results to palisaded: {0}")]
    Write(#[from] io::Error),
}

/// A loader's output can't be accepted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pipe.
    #[error("can't read the loader's results: {0}")]
    Read(#[source] io::Error),
    /// The loader ended before its last frame.
    #[error("the loader ended before it had sent all results")]
    Ended,
    /// The output isn't a loader's, or has another version.
    #[error("the loader's results have another format or version")]
    Foreign,
    /// A frame is malformed.
    #[error("the loader's frame {number} is malformed ({what})")]
    Malformed {
        /// Which frame, from 1 on.
        number: u64,
        /// The wrong part of it.
        what: &'static str,
    },
    /// The loader sends more than is allowed.
    #[error("the loader sent more than {0} results")]
    TooMany(u64),
    /// The loader reports that it failed.
    #[error("the loader failed: {0}")]
    Failed(String),
}

/// The limits for a loader's output.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most frames.
    pub frames: u64,
    /// The largest file, in bytes.
    pub size: u64,
}

impl Default for Limits {
    /// 20 million frames, files of up to 1 TiB.
    fn default() -> Self {
        Self { frames: 20_000_000, size: 1 << 40 }
    }
}

/// Imports, and writes the results to `out`; a failure is written there, too.
///
/// # Errors
///
/// If the import fails or `out` can't be written.
pub fn serve_loader(request: &Request, previous: Option<&Base>, out: impl Write) -> Result<(), ServeError> {
    let mut out = io::BufWriter::with_capacity(64 << 10, out);
    let mut frame = Vec::new();
    let mut count: u64 = 0;
    out.write_all(&MAGIC)?;
    let done = import::<ServeError>(request, previous, |event| {
        count += 1;
        frame.clear();
        encode(&event, &mut frame);
        Ok(write_frame(&mut out, &frame)?)
    });
    frame.clear();
    match &done {
        Ok(_) => {
            frame.push(kind::END);
            frame.extend(count.to_le_bytes());
        }
        Err(error) => {
            frame.push(kind::FAILED);
            frame.extend(error.to_string().bytes().take(LONGEST_REASON));
        }
    }
    write_frame(&mut out, &frame)?;
    out.flush()?;
    done.map(drop)
}

fn write_frame(out: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(frame)
}

fn encode(event: &Event, out: &mut Vec<u8>) {
    let named = |out: &mut Vec<u8>, kind, path: &[u8], source, sums: &[[u8; 16]]| {
        out.push(kind);
        encode_source(source, out);
        sums.iter().for_each(|sum| out.extend(sum));
        out.extend(path);
    };
    let md5 = |digest: &Digest| if let Digest::Md5(bytes) = digest { *bytes } else { [0; 16] };
    match event {
        Event::Trusted(Record { entry, seen }) => {
            out.push(kind::TRUSTED);
            encode_source(&entry.source, out);
            let raw =
                Raw { path: &entry.path, size: entry.size, digest: entry.digest, source: 0, seen: *seen };
            // If a path can't be encoded, the frame is incomplete and the parent refuses it. Imports have no such
            // paths.
            let _refused_there = raw.encode(out);
        }
        Event::Differs { path, source, expected, found } => {
            named(out, kind::DIFFERS, path, source, &[md5(expected), md5(found)]);
        }
        Event::Unreadable { path, source, md5 } => {
            named(
                out,
                kind::UNREADABLE,
                path,
                source,
                &[[u8::from(md5.is_some()); 16], md5.unwrap_or_default()],
            );
        }
        Event::Missing { path, source } => named(out, kind::MISSING, path, source, &[]),
        Event::Undigested { path, source } => named(out, kind::UNDIGESTED, path, source, &[]),
        Event::Progress(Progress { done, total, bytes }) => {
            out.push(kind::PROGRESS);
            for number in [done, total, bytes] {
                out.extend(number.to_le_bytes());
            }
        }
    }
}

/// The records of a loader, one after the other; ends after an error.
#[derive(Debug)]
pub struct Received<R> {
    input: io::BufReader<R>,
    limits: Limits,
    frame: Vec<u8>,
    number: u64,
    begun: bool,
    ended: bool,
}

/// Receives a loader's output. The loader is not trusted: form, paths, sizes and counts are checked.
#[must_use]
pub fn receive<R: Read>(input: R, limits: Limits) -> Received<R> {
    let input = io::BufReader::with_capacity(64 << 10, input);
    Received { input, limits, frame: Vec::new(), number: 0, begun: false, ended: false }
}

impl<R: Read> Iterator for Received<R> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.step().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<R: Read> Received<R> {
    fn fill(&mut self, length: usize) -> Result<(), Error> {
        self.frame.resize(length, 0);
        self.input.read_exact(&mut self.frame).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Ended,
            _ => Error::Read(error),
        })
    }

    fn step(&mut self) -> Result<Option<Event>, Error> {
        if !self.begun {
            self.fill(MAGIC.len())?;
            if self.frame != MAGIC {
                return Err(Error::Foreign);
            }
            self.begun = true;
        }
        self.fill(4)?;
        let length = self.frame.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let malformed = |number, what| Error::Malformed { number, what };
        if length == 0 || length > LONGEST {
            return Err(malformed(self.number + 1, "its length"));
        }
        self.fill(length)?;
        let rest = &self.frame[1..];
        match self.frame[0] {
            kind::END => {
                let said = rest.as_array().map(|eight| u64::from_le_bytes(*eight));
                return if said == Some(self.number) {
                    Ok(None)
                } else {
                    Err(malformed(self.number + 1, "its count"))
                };
            }
            kind::FAILED => {
                let reason = rest[..rest.len().min(LONGEST_REASON)].escape_ascii().to_string();
                return Err(Error::Failed(reason));
            }
            _ => (),
        }
        self.number += 1;
        if self.number > self.limits.frames {
            return Err(Error::TooMany(self.limits.frames));
        }
        decode(&self.frame, &self.limits).map(Some).map_err(|what| malformed(self.number, what))
    }
}

fn decode(frame: &[u8], limits: &Limits) -> Result<Event, &'static str> {
    let (kind, mut rest) = frame.split_first().ok_or("empty")?;
    if *kind == kind::PROGRESS {
        let [done, total, bytes] = rest.as_chunks::<8>().0 else { return Err("its progress") };
        let [done, total, bytes] = [done, total, bytes].map(|number| u64::from_le_bytes(*number));
        return Ok(Event::Progress(Progress { done, total, bytes }));
    }
    let source = decode_source(&mut rest).ok_or("its source")?;
    check_source(&source)?;
    if *kind == kind::TRUSTED {
        let (raw, length) = Raw::decode(rest).map_err(|_| "its record")?;
        if length != rest.len() {
            return Err("its length");
        }
        if raw.size > limits.size {
            return Err("its size");
        }
        // An import sends SHA-256 and no weaker digest.
        if raw.digest.algorithm() != Some(Algorithm::Sha256) {
            return Err("its digest");
        }
        let entry = Entry { path: raw.path.to_vec(), size: raw.size, digest: raw.digest, source };
        return Ok(Event::Trusted(Record { entry, seen: raw.seen }));
    }
    let sums = if matches!(*kind, kind::DIFFERS | kind::UNREADABLE) { 2 } else { 0 };
    let (sums, path) = rest.split_at_checked(sums * 16).ok_or("its digests")?;
    if !is_real_path(path) {
        return Err("its path");
    }
    let path = path.to_vec();
    match (*kind, sums.as_chunks::<16>().0) {
        (kind::DIFFERS, [expected, found]) => {
            Ok(Event::Differs { path, source, expected: Digest::Md5(*expected), found: Digest::Md5(*found) })
        }
        (kind::UNREADABLE, [flag, md5]) => {
            // Without its MD5 a package's file would be trusted with any content.
            if flag[0] == 0 && matches!(source, Source::Dpkg(_) | Source::Rpm(_)) {
                return Err("its digest");
            }
            Ok(Event::Unreadable { path, source, md5: (flag[0] != 0).then_some(*md5) })
        }
        (kind::MISSING, _) => Ok(Event::Missing { path, source }),
        (kind::UNDIGESTED, _) => Ok(Event::Undigested { path, source }),
        _ => Err("its kind"),
    }
}

/// A loader may name only packages and directories; trust files belong to the administrator.
fn check_source(source: &Source) -> Result<(), &'static str> {
    let good = match source {
        Source::Dpkg(name) => {
            let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.:".contains(byte);
            !name.is_empty() && name.len() <= LONGEST_NAME && name.iter().all(allowed)
        }
        // Names of rpm's packages may contain a few more characters.
        Source::Rpm(name) => {
            let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._~^%()".contains(byte);
            !name.is_empty() && name.len() <= LONGEST_NAME && name.iter().all(allowed)
        }
        Source::Directory(name) => name[..] == *b"/" || is_real_path(name),
        Source::File(_) => false,
    };
    if good { Ok(()) } else { Err("its source") }
}

#[cfg(test)]
mod tests;
