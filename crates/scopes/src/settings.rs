// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the settings of scopes: `scopes.toml`.

use crate::denied::{Denied, Hash, LONGEST_NAME};
use palisade_protocol::scope::{Depth, MOST_ANCESTRY, Profile};
use palisade_text::Show as _;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The version of the file format.
pub const SCHEMA: i64 = 1;

/// The largest settings file, in bytes.
pub const LARGEST: usize = 8 << 20;

/// The most denied entries of one kind.
pub const MOST: usize = 60_000;

/// Why the settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The text doesn't follow the file format.
    #[error("can't understand {}: {message}", path.shown())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's message: where and what, with a caret below the place.
        message: String,
    },
    /// The file has another version of the format.
    #[error("{} has schema {found}, and this version understands {SCHEMA}", path.shown())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: i64,
    },
    /// A value that isn't allowed.
    #[error("{}: {key}: {value:?} {what}", path.shown())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The file can't be read.
    #[error("can't read {}: {source}", path.shown())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is larger than [`LARGEST`].
    #[error("{} has {size} bytes, more than {LARGEST}", path.shown())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
}

impl SettingsError {
    /// A command that helps, or what to look at.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Schema { path, .. } => {
                Some(format!("write `schema = {SCHEMA}` in {}, or update Palisade", path.shown()))
            }
            Self::Malformed { path, .. } | Self::Value { path, .. } | Self::TooLarge { path, .. } => {
                Some(format!("sudo ${{EDITOR:-vi}} {}   # docs/scopes.md describes the keys", path.shown()))
            }
            Self::Read { .. } => None,
        }
    }
}

/// The settings that apply to all scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// How far below a mark a process may be.
    pub depth: Depth,
    /// How strictly the daemon handles what happens.
    pub profile: Profile,
    /// What may not be executed.
    pub denied: Denied,
    /// Whether each scope reports rare system calls.
    pub calls: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    schema: i64,
    #[serde(default)]
    enforcement: Enforcement,
    #[serde(default)]
    deny: Deny,
    #[serde(default)]
    events: Events,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Enforcement {
    depth: Option<String>,
    ancestry_max_depth: Option<i64>,
    profile: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deny {
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    files: Vec<PathBuf>,
    #[serde(default)]
    sha256: Vec<String>,
    #[serde(default)]
    memory: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Events {
    #[serde(default)]
    rare_calls: bool,
}

impl Settings {
    /// Reads a file. A missing file gives the default settings.
    ///
    /// # Errors
    /// If it can't be read or understood.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let failed = |source| SettingsError::Read { path: path.into(), source };
        match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.len() > LARGEST as u64 => {
                return Err(SettingsError::TooLarge { path: path.into(), size: metadata.len() });
            }
            Ok(_) => {}
        }
        Self::parse(&std::fs::read_to_string(path).map_err(failed)?, path)
    }

    /// Parses the text of a file; `path` is only for error messages.
    ///
    /// # Errors
    /// If the text doesn't follow the file format.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let file: File = toml::from_str(text).map_err(|error| SettingsError::Malformed {
            path: path.into(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        if file.schema != SCHEMA {
            return Err(SettingsError::Schema { path: path.into(), found: file.schema });
        }
        let wrong = |key: &'static str, value: &str, what: &'static str| SettingsError::Value {
            path: path.into(),
            key,
            value: value.into(),
            what,
        };
        let Enforcement { depth, ancestry_max_depth, profile } = file.enforcement;
        let mut settings = Self { calls: file.events.rare_calls, ..Self::default() };
        if let Some(word) = depth {
            settings.depth = word.parse().map_err(|_| {
                wrong("enforcement.depth", &word, "is none of one_level, ancestry, propagate_on_fork, cgroup")
            })?;
        }
        if let Some(number) = ancestry_max_depth {
            let what = "isn't between 1 and 16";
            let hops = u8::try_from(number).ok().filter(|hops| (1..=MOST_ANCESTRY).contains(hops));
            let hops =
                hops.ok_or_else(|| wrong("enforcement.ancestry_max_depth", &number.to_string(), what))?;
            if let Depth::Ancestry(_) = settings.depth {
                settings.depth = if hops == 1 { Depth::OneLevel } else { Depth::Ancestry(hops) };
            }
        }
        if let Some(word) = profile {
            settings.profile = word.parse().map_err(|_| {
                wrong("enforcement.profile", &word, "is none of prompt, audit, session, strict")
            })?;
        }
        settings.denied = file.deny.understood(wrong)?;
        Ok(settings)
    }
}

impl Deny {
    fn understood(
        self,
        wrong: impl Fn(&'static str, &str, &'static str) -> SettingsError,
    ) -> Result<Denied, SettingsError> {
        for (key, length) in [
            ("deny.names", self.names.len()),
            ("deny.files", self.files.len()),
            ("deny.sha256", self.sha256.len()),
        ] {
            if length > MOST {
                return Err(wrong(key, &length.to_string(), "entries are more than 60000"));
            }
        }
        let mut denied = Denied { memory: self.memory, ..Denied::default() };
        for name in self.names {
            if name.is_empty() || name.len() > LONGEST_NAME || name.contains(['/', '\0']) {
                return Err(wrong("deny.names", &name, "isn't a name of 1 to 63 bytes without a slash"));
            }
            denied.names.insert(name);
        }
        for file in self.files {
            if !file.is_absolute() {
                return Err(wrong("deny.files", &file.to_string_lossy(), "isn't an absolute path"));
            }
            denied.files.insert(file);
        }
        for text in self.sha256 {
            let hash = Hash::parse(&text);
            denied
                .contents
                .insert(hash.ok_or_else(|| wrong("deny.sha256", &text, "isn't 64 hexadecimal digits"))?);
        }
        Ok(denied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(text, Path::new("scopes.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn all_of_it() {
        let text = format!(
            "schema = 1\n[enforcement]\ndepth = \"ancestry\"\nancestry_max_depth = 4\nprofile = \"strict\"\n\
             [deny]\nnames = [\"nc\"]\nfiles = [\"/usr/bin/nc\"]\nsha256 = [\"{}\"]\nmemory = true\n\
             [events]\nrare-calls = true\n",
            "0".repeat(64)
        );
        let settings = parse(&text).unwrap();
        assert_eq!(
            (settings.depth, settings.profile, settings.calls),
            (Depth::Ancestry(4), Profile::Strict, true)
        );
        assert!(settings.denied.memory && settings.denied.names.contains("nc"));
        assert_eq!((settings.denied.files.len(), settings.denied.contents.len()), (1, 1));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, word) in [
            ("", "schema"),
            ("schema = 2", "schema 2"),
            ("schema = 1\n[enforcement]\ndepth = \"deep\"", "enforcement.depth: \"deep\""),
            ("schema = 1\n[enforcement]\nancestry_max_depth = 17", "17"),
            ("schema = 1\n[enforcement]\nancestry_max_depth = -1", "-1"),
            ("schema = 1\n[deny]\nnames = [\"a/b\"]", "a/b"),
            ("schema = 1\n[deny]\nfiles = [\"b\"]", "absolute"),
            ("schema = 1\n[deny]\nsha256 = [\"b\"]", "64"),
            ("schema = 1\n[deny]\nname = []", "unknown field"),
            ("schema = 1\n[enforcement]\nprofile = \"loud\"", "loud"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(word), "{text}: {said}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_says_nothing() {
        assert_eq!(Settings::read(Path::new("/nowhere/scopes.toml")).unwrap(), Settings::default());
    }

    proptest! {
        #[test]
        fn no_text_stops_the_reader(text in "\\PC{0,200}") {
            let _ = parse(&text);
            let _ = parse(&format!("schema = 1\n{text}"));
        }
    }
}
