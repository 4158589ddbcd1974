// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names, files and contents that may not be executed in a scope.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The longest name that the kernel side compares, in bytes.
pub const LONGEST_NAME: usize = 63;

/// A content's SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Parses 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (place, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *place = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Some(Self(hash))
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            write!(text, "{byte:02x}")?;
        }
        f.pad(&text)
    }
}

/// What may not be executed in a scope, if the profile says `session` or `strict`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denied {
    /// Names without directories.
    pub names: BTreeSet<String>,
    /// Paths. Each names the file that is there when the settings are read; renaming that file doesn't help.
    pub files: BTreeSet<PathBuf>,
    /// Contents, wherever a file with that content is.
    pub contents: BTreeSet<Hash>,
    /// Programs that exist only in memory.
    pub memory: bool,
}

impl Denied {
    /// Whether nothing is denied.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hashes_are_read_as_they_are_written(bytes: [u8; 32]) {
            let hash = Hash(bytes);
            prop_assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
            prop_assert_eq!(Hash::parse(&hash.to_string().to_uppercase()), Some(hash));
        }

        #[test]
        fn no_text_stops_the_reader(text in "\\PC{0,70}") {
            let _ = Hash::parse(&text);
        }
    }
}
