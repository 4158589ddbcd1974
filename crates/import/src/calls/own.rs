// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Palisade's own form of learned calls, as TOML or JSON: complete, with binaries.

use super::{ExchangeError, Imported, Warning};
use palisade_syscall::Syscall;
use palisade_syscall::store::{Binary, Learned};
use palisade_syscall::table::names;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The version of the form.
pub(super) const SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: u32,
    /// The profile that the calls were learned for, for people. The importer names the profile that gets them.
    profile: String,
    /// The calls that were stated for the profile itself.
    #[serde(default)]
    calls: Vec<String>,
    #[serde(default, rename = "binary", skip_serializing_if = "Vec::is_empty")]
    binaries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The path's bytes, where it isn't UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    hash: String,
    calls: Vec<String>,
}

fn document(profile: &str, learned: &[Learned]) -> Document {
    let texts = |calls| names(calls).into_iter().map(str::to_owned).collect();
    let mut document =
        Document { schema: SCHEMA, profile: profile.to_owned(), calls: Vec::new(), binaries: Vec::new() };
    for Learned { binary, calls } in learned {
        let Some(binary) = binary else {
            document.calls = texts(calls);
            continue;
        };
        let path = &binary.path;
        let text = path.to_str().map(str::to_owned);
        let digits = |byte: &u8| format!("{byte:02x}");
        let path_hex = if text.is_none() {
            Some(path.as_os_str().as_bytes().iter().map(digits).collect())
        } else {
            None
        };
        document.binaries.push(Entry { path: text, path_hex, hash: binary.hex(), calls: texts(calls) });
    }
    document
}

/// What was learned, as TOML.
pub(super) fn toml(profile: &str, learned: &[Learned]) -> Result<String, ExchangeError> {
    Ok(toml::to_string(&document(profile, learned))?)
}

/// What was learned, as JSON.
pub(super) fn json(profile: &str, learned: &[Learned]) -> Result<String, ExchangeError> {
    Ok(serde_json::to_string_pretty(&document(profile, learned))? + "\n")
}

/// Reads TOML.
pub(super) fn from_toml(text: &str) -> Result<Imported, ExchangeError> {
    understand(toml::from_str(text)?)
}

/// Reads JSON.
pub(super) fn from_json(value: serde_json::Value) -> Result<Imported, ExchangeError> {
    understand(serde_json::from_value(value)?)
}

fn understand(document: Document) -> Result<Imported, ExchangeError> {
    if document.schema != SCHEMA {
        return Err(ExchangeError::Schema { found: document.schema });
    }
    let mut unknown = BTreeSet::new();
    let mut calls = |names: Vec<String>| -> BTreeSet<Syscall> {
        let parse = |name: String| name.parse().map_err(|_error| unknown.insert(name)).ok();
        names.into_iter().filter_map(parse).collect()
    };
    let mut learned = Vec::new();
    let stated = calls(document.calls);
    if !stated.is_empty() {
        learned.push(Learned { binary: None, calls: stated });
    }
    for entry in document.binaries {
        let binary = Binary { path: path(&entry)?, hash: hash(&entry.hash)? };
        learned.push(Learned { binary: Some(binary), calls: calls(entry.calls) });
    }
    Ok(Imported { learned, warnings: Warning::of_unknown(unknown).into_iter().collect() })
}

fn path(entry: &Entry) -> Result<PathBuf, ExchangeError> {
    let bytes = match (&entry.path, &entry.path_hex) {
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(digits)) => {
            bytes(digits).ok_or_else(|| ExchangeError::Digits { digits: digits.clone() })?
        }
        _ => return Err(ExchangeError::Path),
    };
    let path = PathBuf::from(OsString::from_vec(bytes));
    if !path.is_absolute() || path.as_os_str().as_bytes().contains(&0) {
        return Err(ExchangeError::Relative { path });
    }
    Ok(path)
}

fn hash(digits: &str) -> Result<[u8; 32], ExchangeError> {
    let bytes = bytes(digits).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| ExchangeError::Hash { digits: digits.to_owned() })
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn learned() -> impl Strategy<Value = Vec<Learned>> {
        let all: Vec<Syscall> = Syscall::all().collect();
        let calls = proptest::collection::btree_set(proptest::sample::select(all), 0..20);
        let path = proptest::collection::vec(1_u8..=255, 0..12)
            .prop_map(|name| PathBuf::from(OsString::from_vec([b"/".as_slice(), &name].concat())));
        let binary = (path, any::<[u8; 32]>()).prop_map(|(path, hash)| Binary { path, hash });
        let binaries = proptest::collection::btree_map(binary, calls.clone(), 0..5);
        (calls, binaries).prop_map(|(stated, binaries)| {
            let stated = (!stated.is_empty()).then_some(Learned { binary: None, calls: stated });
            let of = |(binary, calls)| Learned { binary: Some(binary), calls };
            stated.into_iter().chain(binaries.into_iter().map(of)).collect()
        })
    }

    proptest! {
        #[test]
        fn what_is_exported_is_imported_as_it_was(name in "\\PC*", learned in learned()) {
            let read = from_toml(&toml(&name, &learned).unwrap()).unwrap();
            prop_assert_eq!((&read.learned, read.warnings.len()), (&learned, 0));
            let value = serde_json::from_str(&json(&name, &learned).unwrap()).unwrap();
            prop_assert_eq!(from_json(value).unwrap().learned, learned);
        }
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let hash = "0".repeat(64);
        for (text, problem) in [
            ("schema = 2\nprofile = \"\"".to_owned(), "its schema is 2"),
            ("schema = 1\nprofile = \"\"\ncall = []".to_owned(), "unknown field `call`"),
            ("profile = \"\"".to_owned(), "missing field `schema`"),
            (
                format!(
                    "schema = 1\nprofile = \"\"\n[[binary]]\npath = \"x\"\nhash = \"{hash}\"\ncalls = []"
                ),
                "not an absolute path",
            ),
            (
                format!("schema = 1\nprofile = \"\"\n[[binary]]\nhash = \"{hash}\"\ncalls = []"),
                "either `path` or",
            ),
            (
                format!(
                    "schema = 1\nprofile = \"\"\n[[binary]]\npath_hex = \"2g\"\nhash = \"{hash}\"\ncalls = []"
                ),
                "not hexadecimal",
            ),
            (
                "schema = 1\nprofile = \"\"\n[[binary]]\npath = \"/x\"\nhash = \"é\"\ncalls = []".to_owned(),
                "not a hash",
            ),
        ] {
            let found = from_toml(&text).err().unwrap().to_string();
            assert!(found.contains(problem), "{found}");
        }
        let read = from_toml("schema = 1\nprofile = \"\"\ncalls = [\"bind\", \"teleport\"]").unwrap();
        assert_eq!(names(&read.learned[0].calls), ["bind"]);
        assert!(read.warnings[0].to_string().contains("`teleport`"), "{:?}", read.warnings);
    }
}
