// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An entry: what is known of a trusted file. It has the path, the size, the digest, and the source that trusts it.

use std::fmt;
use std::sync::Arc;

/// The longest path in bytes; `PATH_MAX` counts the terminating zero, too.
pub const LONGEST_PATH: usize = 4095;

/// How a digest is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// MD5, for package databases that have only this; collisions can be constructed.
    Md5,
    /// SHA-1, of IMA's older policies; collisions can be constructed.
    Sha1,
    /// SHA-256, which imports record.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// The digest of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Digest {
    /// Only the size is known.
    None,
    /// MD5.
    Md5([u8; 16]),
    /// SHA-1.
    Sha1([u8; 20]),
    /// SHA-256.
    Sha256([u8; 32]),
    /// SHA-512.
    Sha512([u8; 64]),
}

/// The source that trusts a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An installed package of dpkg, by name (`bash`, `libc6:amd64`).
    Dpkg(Arc<[u8]>),
    /// An installed package of rpm, by name.
    Rpm(Arc<[u8]>),
    /// A trust file of the administrator, by path.
    File(Arc<[u8]>),
    /// A trusted directory, by path, with the content that it had when it was imported.
    Directory(Arc<[u8]>),
}

/// A trusted file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Its real path: absolute, without symbolic links, `.` and `..`; any bytes but zero.
    pub path: Vec<u8>,
    /// How many bytes it has.
    pub size: u64,
    /// The digest of its content.
    pub digest: Digest,
    /// The source that trusts it.
    pub source: Source,
}

/// A file's attributes when it was hashed. As long as they are the same, the file isn't hashed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seen {
    /// The device that the file is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// The time of its last content change, in nanoseconds since 1970.
    pub modified: i64,
    /// The time of its last change of any kind, in nanoseconds since 1970. No user can set it.
    pub changed: i64,
    /// The MD5 that the package gives for it, or zeros.
    pub md5: [u8; 16],
}

/// The database's record of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// The trusted file.
    pub entry: Entry,
    /// The attributes when it was hashed, if they are worth recording: see [`measure`](super::measure).
    pub seen: Option<Seen>,
}

impl Algorithm {
    /// How many bytes its digests have.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl Digest {
    /// The digest of `algorithm` with these bytes; `None` if their number is wrong.
    #[must_use]
    pub fn new(algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
        Some(match algorithm {
            Algorithm::Md5 => Self::Md5(bytes.try_into().ok()?),
            Algorithm::Sha1 => Self::Sha1(bytes.try_into().ok()?),
            Algorithm::Sha256 => Self::Sha256(bytes.try_into().ok()?),
            Algorithm::Sha512 => Self::Sha512(bytes.try_into().ok()?),
        })
    }

    /// How it was computed.
    #[must_use]
    pub const fn algorithm(&self) -> Option<Algorithm> {
        match self {
            Self::None => None,
            Self::Md5(_) => Some(Algorithm::Md5),
            Self::Sha1(_) => Some(Algorithm::Sha1),
            Self::Sha256(_) => Some(Algorithm::Sha256),
            Self::Sha512(_) => Some(Algorithm::Sha512),
        }
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Md5(bytes) => bytes,
            Self::Sha1(bytes) => bytes,
            Self::Sha256(bytes) => bytes,
            Self::Sha512(bytes) => bytes,
        }
    }
}

impl Source {
    /// The package's name or the path.
    #[must_use]
    pub const fn name(&self) -> &Arc<[u8]> {
        match self {
            Self::Dpkg(name) | Self::Rpm(name) | Self::File(name) | Self::Directory(name) => name,
        }
    }

    /// The kind of source, by fapolicyd's names: `debdb`, `rpmdb` or `filedb`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Dpkg(_) => "debdb",
            Self::Rpm(_) => "rpmdb",
            Self::File(_) | Self::Directory(_) => "filedb",
        }
    }
}

/// Can this be a trusted file's path: absolute, normalized, not too long, and without a zero byte?
#[must_use]
pub fn is_real_path(path: &[u8]) -> bool {
    path.len() <= LONGEST_PATH
        && !path.contains(&0)
        && path.strip_prefix(b"/").is_some_and(|rest| {
            rest.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
        })
}

/// The bytes of hexadecimal digits; `None` if the text isn't that.
#[must_use]
pub fn from_hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self, Self::None) {
            return f.write_str("-");
        }
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm() {
            Some(algorithm) => write!(f, "{algorithm:?}({self})"),
            None => f.write_str("None"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Dpkg(_) => "dpkg",
            Self::Rpm(_) => "rpm",
            Self::File(_) => "file",
            Self::Directory(_) => "directory",
        };
        write!(f, "{kind}:{}", self.name().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_paths() {
        for good in [&b"/a"[..], b"/usr/bin/ls", b"/a b\n\xff", b"/...", b"/.a"] {
            assert!(is_real_path(good), "{}", good.escape_ascii());
        }
        for bad in [&b""[..], b"/", b"a", b"/a/", b"//a", b"/a/../b", b"/./a", b"/a\0b", b"/a/.."] {
            assert!(!is_real_path(bad), "{}", bad.escape_ascii());
        }
        assert!(is_real_path(&[b"/".as_slice(), &[b'x'; LONGEST_PATH - 1]].concat()));
        assert!(!is_real_path(&[b"/".as_slice(), &[b'x'; LONGEST_PATH]].concat()));
    }

    #[test]
    fn digests_are_of_their_length() {
        let bytes = from_hexadecimal(b"00ffA0b1c2d3e4f5061728394a5b6c7d").unwrap();
        let digest = Digest::new(Algorithm::Md5, &bytes).unwrap();
        assert_eq!(digest.to_string(), "00ffa0b1c2d3e4f5061728394a5b6c7d");
        assert_eq!(Digest::new(Algorithm::Sha256, &bytes), None);
        assert_eq!(from_hexadecimal(b"0"), None);
        assert_eq!(from_hexadecimal(b"0g"), None);
    }
}
