// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Strings of a plan, in a form for the kernel and a form for the user.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A string without null bytes, borrowed from the cache file if it was read from there.
///
/// In the cache it has its final null byte, so that it can be passed to the kernel unchanged. In JSON it is a string,
/// or an array of bytes for a path that isn't UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(Cow<'a, CStr>);

/// A string holds a null byte, which no path, argument or variable can.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} holds a null byte")]
pub struct NullByte {
    /// The string.
    pub text: String,
}

impl<'a> Text<'a> {
    /// From bytes.
    ///
    /// # Errors
    /// If there is a null byte among them.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Text<'static>, NullByte> {
        CString::new(bytes)
            .map(|string| Text(Cow::Owned(string)))
            .map_err(|error| NullByte { text: String::from_utf8_lossy(&error.into_vec()).into_owned() })
    }

    /// From a path.
    ///
    /// # Errors
    /// If it holds a null byte; no path from the kernel does.
    pub fn path(path: &Path) -> Result<Text<'static>, NullByte> {
        Text::new(path.as_os_str().as_bytes())
    }

    /// From a literal.
    #[must_use]
    pub const fn literal(string: &'a CStr) -> Self {
        Self(Cow::Borrowed(string))
    }

    /// A copy without borrows.
    #[must_use]
    pub fn into_owned(self) -> Text<'static> {
        Text(Cow::Owned(self.0.into_owned()))
    }

    /// In the kernel's form.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        &self.0
    }

    /// As a path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.0.to_bytes()))
    }

    /// As bytes, without the final null.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.to_bytes()
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if !to.is_human_readable() {
            return to.serialize_bytes(self.0.to_bytes_with_nul());
        }
        match self.0.to_str() {
            Ok(string) => to.serialize_str(string),
            Err(_not_utf8) => to.collect_seq(self.0.to_bytes()),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() { from.deserialize_any(Human) } else { from.deserialize_bytes(Stored) }
    }
}

/// Reads the form with a final null byte.
struct Stored;

impl<'de> Visitor<'de> for Stored {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes that end in a null byte")
    }

    fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        CStr::from_bytes_with_nul(bytes).map(|string| Text(Cow::Borrowed(string))).map_err(E::custom)
    }
}

/// Reads the form in JSON.
struct Human;

impl<'de> Visitor<'de> for Human {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an array of bytes")
    }

    fn visit_str<E: de::Error>(self, string: &str) -> Result<Self::Value, E> {
        Text::new(string).map_err(E::custom)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = sequence.next_element::<u8>()? {
            bytes.push(byte);
        }
        Text::new(bytes).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_back_what_went_in() {
        for bytes in [&b"/usr/bin"[..], b"", b"a b\nc", b"not \xff utf8"] {
            let text = Text::new(bytes).unwrap();
            let stored = postcard::to_allocvec(&text).unwrap();
            assert_eq!(postcard::from_bytes::<Text<'_>>(&stored).unwrap(), text);
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<Text<'_>>(&json).unwrap(), text);
        }
    }

    #[test]
    fn null_bytes_are_refused() {
        assert!(Text::new(&b"a\0b"[..]).is_err());
        assert!(serde_json::from_str::<Text<'_>>(r#""a\u0000b""#).is_err());
        assert!(postcard::from_bytes::<Text<'_>>(b"\x02ab").is_err());
    }
}
