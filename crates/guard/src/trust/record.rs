// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records as bytes: the same form in the database, in its write-ahead log and in the loader's output.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | checksum of what follows (the low half of xxh3) |
//! | 2 | how many bytes follow the checksum, these two too |
//! | 1 | digest: 0 none, 1 MD5, 2 SHA-1, 3 SHA-256, 4 SHA-512 |
//! | 1 | 1 if the file's looks are recorded, else 0 |
//! | 4 | source, an index into a list that is kept elsewhere |
//! | 8 | size of the file |
//! | 0–64 | digest |
//! | 0 or 48 | looks: device, inode, modified, changed, the package's MD5 |
//! | the rest | path |
//!
//! Numbers are little-endian. The checksum detects errors of disks and kernels, not deliberate changes: a process that
//! may write the database can also write valid checksums.

use xxhash_rust::xxh3::xxh3_64;

use super::entry::{Algorithm, Digest, LONGEST_PATH, Seen, is_real_path};

/// How many bytes come before the digest.
const FIXED: usize = 20;
/// How many bytes the looks take.
const SEEN: usize = 48;
/// The longest record in bytes.
pub const LONGEST: usize = FIXED + 64 + SEEN + LONGEST_PATH;
/// The shortest record in bytes: it has a path of two bytes.
pub const SHORTEST: usize = FIXED + 2;

/// Why a record is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There are fewer bytes than the record says.
    #[error("it ends too early")]
    Short,
    /// The checksum is wrong.
    #[error("its checksum is wrong")]
    Checksum,
    /// The kind of digest is unknown.
    #[error("its digest is of an unknown kind, {0}")]
    Digest(u8),
    /// The flags are unknown.
    #[error("its flags are unknown, {0}")]
    Flags(u8),
    /// The path isn't absolute and normalised.
    #[error("its path isn't an absolute, normalised one")]
    Path,
}

/// A record whose path is borrowed and whose source is an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Where the file is.
    pub path: &'a [u8],
    /// How many bytes it has.
    pub size: u64,
    /// Its digest.
    pub digest: Digest,
    /// Index of its source.
    pub source: u32,
    /// How it looked.
    pub seen: Option<Seen>,
}

impl<'a> Raw<'a> {
    /// Appends the record's bytes.
    ///
    /// # Errors
    ///
    /// If the path isn't absolute and normalised.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if !is_real_path(self.path) {
            return Err(Malformed::Path);
        }
        let start = out.len();
        let kind = match self.digest.algorithm() {
            None => 0,
            Some(Algorithm::Md5) => 1,
            Some(Algorithm::Sha1) => 2,
            Some(Algorithm::Sha256) => 3,
            Some(Algorithm::Sha512) => 4,
        };
        let digest = self.digest.bytes();
        let looks = if self.seen.is_some() { SEEN } else { 0 };
        let length = u16::try_from(FIXED - 4 + digest.len() + looks + self.path.len());
        let length = length.map_err(|_| Malformed::Path)?;
        out.extend([0; 4]);
        out.extend(length.to_le_bytes());
        out.extend([kind, u8::from(self.seen.is_some())]);
        out.extend(self.source.to_le_bytes());
        out.extend(self.size.to_le_bytes());
        out.extend(digest);
        if let Some(seen) = &self.seen {
            out.extend(seen.device.to_le_bytes());
            out.extend(seen.inode.to_le_bytes());
            out.extend(seen.modified.to_le_bytes());
            out.extend(seen.changed.to_le_bytes());
            out.extend(seen.md5);
        }
        out.extend(self.path);
        let sum = checksum(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&sum);
        Ok(())
    }

    /// The record at the beginning of `bytes`, and how many bytes it has.
    ///
    /// # Errors
    ///
    /// If it isn't a record, or isn't complete.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        let whole = length(bytes)?;
        let bytes = bytes.get(..whole).ok_or(Malformed::Short)?;
        if checksum(&bytes[4..]) != bytes[..4] {
            return Err(Malformed::Checksum);
        }
        let mut rest = &bytes[6..];
        let [kind, flags] = take(&mut rest)?;
        let source = u32::from_le_bytes(take(&mut rest)?);
        let size = u64::from_le_bytes(take(&mut rest)?);
        let digest = match kind {
            0 => Digest::None,
            1 => Digest::Md5(take(&mut rest)?),
            2 => Digest::Sha1(take(&mut rest)?),
            3 => Digest::Sha256(take(&mut rest)?),
            4 => Digest::Sha512(take(&mut rest)?),
            other => return Err(Malformed::Digest(other)),
        };
        let seen = match flags {
            0 => None,
            1 => Some(Seen {
                device: u64::from_le_bytes(take(&mut rest)?),
                inode: u64::from_le_bytes(take(&mut rest)?),
                modified: i64::from_le_bytes(take(&mut rest)?),
                changed: i64::from_le_bytes(take(&mut rest)?),
                md5: take(&mut rest)?,
            }),
            other => return Err(Malformed::Flags(other)),
        };
        if !is_real_path(rest) {
            return Err(Malformed::Path);
        }
        Ok((Self { path: rest, size, digest, source, seen }, whole))
    }
}

/// The length of the record at the beginning of `bytes`, as it states itself.
///
/// # Errors
///
/// If fewer than six bytes are there, or no record can be that short.
pub fn length(bytes: &[u8]) -> Result<usize, Malformed> {
    let [low, high] = *bytes.get(4..6).and_then(|two| two.as_array()).ok_or(Malformed::Short)?;
    let whole = usize::from(u16::from_le_bytes([low, high])) + 4;
    if (SHORTEST..=LONGEST).contains(&whole) { Ok(whole) } else { Err(Malformed::Short) }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, left) = rest.split_first_chunk::<N>().ok_or(Malformed::Short)?;
    *rest = left;
    Ok(*taken)
}

/// The checksum of some bytes, as records store it.
#[must_use]
pub fn checksum(bytes: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = xxh3_64(bytes).to_le_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digests() -> impl Strategy<Value = Digest> {
        prop_oneof![
            Just(Digest::None),
            any::<[u8; 16]>().prop_map(Digest::Md5),
            any::<[u8; 20]>().prop_map(Digest::Sha1),
            any::<[u8; 32]>().prop_map(Digest::Sha256),
            prop::collection::vec(any::<u8>(), 64)
                .prop_map(|bytes| Digest::new(Algorithm::Sha512, &bytes).unwrap()),
        ]
    }

    fn looks() -> impl Strategy<Value = Option<Seen>> {
        prop::option::of(any::<(u64, u64, i64, i64, [u8; 16])>().prop_map(
            |(device, inode, modified, changed, md5)| Seen { device, inode, modified, changed, md5 },
        ))
    }

    proptest! {
        #[test]
        fn come_back(
            name in "[^\0/.][^\0/]{0,80}", size: u64, source: u32,
            digest in digests(), seen in looks(), after: Vec<u8>,
        ) {
            let path = format!("/{name}").into_bytes();
            let record = Raw { path: &path, size, digest, source, seen };
            let mut bytes = Vec::new();
            record.encode(&mut bytes).unwrap();
            let length = bytes.len();
            bytes.extend(after);
            prop_assert_eq!(Raw::decode(&bytes), Ok((record, length)));
            prop_assert!(Raw::decode(&bytes[..length - 1]).is_err());
        }

        #[test]
        fn flipped_bits_are_seen(bit in 0..8 * 60_usize) {
            let digest = Digest::Sha256([7; 32]);
            let record = Raw { path: b"/a/b/c/d", size: 5, digest, source: 1, seen: None };
            let mut bytes = Vec::new();
            record.encode(&mut bytes).unwrap();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Raw::decode(&bytes).is_err());
        }
    }

    #[test]
    fn any_bytes() {
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            let _read = Raw::decode(bytes);
            // The checksum is right, so that the fields behind it are checked, too.
            let mut right = [&[0; 4][..], &[0; 2], bytes].concat();
            let rest = u16::try_from(right.len() - 4).unwrap_or(u16::MAX);
            right[4..6].copy_from_slice(&rest.to_le_bytes());
            let sum = checksum(&right[4..]);
            right[..4].copy_from_slice(&sum);
            if let Ok((raw, length)) = Raw::decode(&right) {
                let mut again = Vec::new();
                raw.encode(&mut again).unwrap();
                assert_eq!(again, right[..length]);
            }
        });
    }
}
