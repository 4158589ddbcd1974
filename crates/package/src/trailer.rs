// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trailer: bytes in the program, found by their mark, that state where the package is in the file.

use palisade_sys::trailer::{LENGTH, MARK};
use std::fs::File;
use std::io::Read;

/// Where in the file the manifest is, and what it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Where the manifest begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
    /// BLAKE3 of it. It contains the hashes of all content, so this is the package's name, too.
    pub hash: [u8; 32],
}

impl Trailer {
    /// What this program carries, if it carries anything.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::decode(&palisade_sys::trailer::read())
    }

    /// From the bytes in a program.
    fn decode(bytes: &[u8; LENGTH]) -> Option<Self> {
        let (numbers, _rest) = bytes[MARK..].as_chunks::<8>();
        let [offset, length, rest @ ..] = numbers else { return None };
        let hash = rest.as_flattened().first_chunk::<32>()?;
        let length = u64::from_le_bytes(*length);
        (length > 0).then_some(Self { offset: u64::from_le_bytes(*offset), length, hash: *hash })
    }

    /// The bytes, including the mark.
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..MARK].copy_from_slice(&palisade_sys::trailer::read()[..MARK]);
        bytes[MARK..MARK + 8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[MARK + 8..MARK + 16].copy_from_slice(&self.length.to_le_bytes());
        bytes[MARK + 16..MARK + 48].copy_from_slice(&self.hash);
        bytes
    }

    /// The package's name.
    #[must_use]
    pub fn name(&self) -> String {
        blake3::Hash::from_bytes(self.hash).to_hex().to_string()
    }
}

/// Where in a file the trailer is, and what it states; `None` for a file that isn't this program.
///
/// # Errors
/// When the file can't be read.
pub fn find(mut file: &File) -> std::io::Result<Option<(u64, Option<Trailer>)>> {
    let own = palisade_sys::trailer::read();
    let mut at = 0;
    // The static is aligned to its own length, and so is its place in the file.
    let mut buffer = vec![0; LENGTH * 8192];
    loop {
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read(&mut buffer[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        let (chunks, _rest) = buffer[..filled].as_chunks::<LENGTH>();
        for (nth, chunk) in chunks.iter().enumerate() {
            if chunk[..MARK] == own[..MARK] {
                let place = at + u64::try_from(nth * LENGTH).unwrap_or_default();
                return Ok(Some((place, Trailer::decode(chunk))));
            }
        }
        if filled < buffer.len() {
            return Ok(None);
        }
        at += u64::try_from(filled).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_it_writes_and_an_ordinary_program_carries_nothing() {
        let trailer = Trailer { offset: 1 << 40, length: 7, hash: [3; 32] };
        assert_eq!(Trailer::decode(&trailer.encode()), Some(trailer));
        assert_eq!(Trailer::own(), None);
        let own = File::open("/proc/self/exe").unwrap();
        assert!(matches!(find(&own), Ok(Some((_, None)))));
        let other = tempfile::tempfile().unwrap();
        assert!(matches!(find(&other), Ok(None)));
    }
}
