// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and checks settings and rules before anything changes.
//!
//! `guard.toml` has the settings and may have rules; `guard.d` has rule files in fapolicyd's grammar. Rules of the
//! settings come first, because they are the administrator's own exceptions. Without rule files a built-in set follows.

use crate::rule::accounts::AccountFiles;
use crate::rule::error::LoadError;
use crate::rule::files::{Reader, Writers};
use crate::rule::parse::{Parser, Placeholder};
use crate::rule::{RuleSet, Text};
use crate::settings::{BuiltIn, LARGEST, Settings, SettingsError};
use crate::watch::line::FormatError;
use crate::{linkers, policies};
use palisade_text::Show as _;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Why the settings or rules are invalid.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The log's format.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The rules.
    #[error(transparent)]
    Rules(#[from] LoadError),
    /// A file that can't be read.
    #[error("can't read {}: {source}", path.shown())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is too large.
    #[error("{} is larger than {LARGEST} bytes", path.shown())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

impl SetupError {
    /// A command that helps, or what to look at.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(_) | Self::Format(_) => Some("palisade guard check".into()),
            // These errors bring their own hint.
            Self::Rules(_) => None,
            Self::Read { path, .. } | Self::TooLarge { path } => {
                Some(format!("ls -l {}", palisade_text::quoted(&path.to_string_lossy())))
            }
        }
    }

    /// Its class, for programs.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Settings(_) => "settings",
            Self::Format(_) => "settings.log-format",
            Self::Rules(_) => "rules",
            Self::Read { .. } => "read",
            Self::TooLarge { .. } => "too-large",
        }
    }
}

/// Everything that a guard is made of.
#[derive(Debug)]
pub struct Setup {
    /// The settings.
    pub settings: Settings,
    /// The rules.
    pub rules: RuleSet,
    /// The host's run-time linkers.
    pub linkers: Vec<Text>,
    /// Where the rules are from, for people.
    pub from: String,
}

impl Setup {
    /// Reads the files below `config`. With `other`, the rules are those of that file or directory. `writers` may be
    /// able to write the files.
    ///
    /// # Errors
    /// [`SetupError`]: nothing of the setup is used then.
    pub fn read(config: &Path, other: Option<&Path>, writers: Writers) -> Result<Self, SetupError> {
        let path = config.join("guard.toml");
        let text = read(&path)?;
        let settings = match &text {
            Some(text) => Settings::parse(text, &path)?,
            None => Settings::default(),
        };
        let linkers = linkers::of_host();
        let accounts = AccountFiles::host();
        let placeholders = placeholders(&linkers);
        let reader = Reader { writers, accounts: &accounts, placeholders: &placeholders };
        let (rules, from) = match other {
            Some(path) if path.is_dir() => (reader.directory(path)?, path.shown().to_string()),
            Some(path) => (reader.files(&[path.to_owned()])?, path.shown().to_string()),
            None => own_rules(&reader, config, &settings)?,
        };
        Ok(Self { settings, rules, linkers, from })
    }
}

fn own_rules(
    reader: &Reader<'_>,
    config: &Path,
    settings: &Settings,
) -> Result<(RuleSet, String), SetupError> {
    let toml = config.join("guard.toml");
    let toml = toml.exists().then_some(toml);
    let directory = config.join("guard.d");
    let files = if directory.is_dir() { reader.list(&directory)? } else { Vec::new() };
    if !files.is_empty() {
        let all: Vec<PathBuf> = toml.into_iter().chain(files).collect();
        return Ok((reader.files(&all)?, directory.shown().to_string()));
    }
    let (name, text) = match settings.rules {
        BuiltIn::KnownLibs => ("known-libs", policies::KNOWN_LIBS),
        BuiltIn::Restrictive => ("restrictive", policies::RESTRICTIVE),
    };
    let mut parser = Parser::new(reader.accounts, reader.placeholders);
    if let Some(path) = &toml
        && let Some(text) = read(path)?
    {
        parser.toml(path, text.as_bytes());
    }
    parser.file(Path::new(name), text.as_bytes());
    Ok((parser.finish()?, format!("the built-in \"{name}\"")))
}

/// The placeholders of fapolicyd's unbuilt rules, for this host with these run-time linkers.
#[must_use]
pub fn placeholders(linkers: &[Text]) -> Vec<Placeholder> {
    let mut found = vec![Placeholder { name: "ld_so_path".into(), values: linkers.to_vec() }];
    for (name, path) in [("python2_path", "/usr/bin/python2"), ("python3_path", "/usr/bin/python3")] {
        if let Ok(path) = Path::new(path).canonicalize() {
            found.push(Placeholder {
                name: name.into(),
                values: vec![path.into_os_string().into_vec().into()],
            });
        }
    }
    found
}

fn read(path: &Path) -> Result<Option<String>, SetupError> {
    let failed = |source| SetupError::Read { path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(LARGEST as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() > LARGEST {
        return Err(SetupError::TooLarge { path: path.to_owned() });
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_settings_and_rules() {
        let config = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let text = "schema = 1\n[guard]\nmode = \"enforce\"\n[guard.watch]\nonly = [\"/srv\"]\n\
                    [guard.trust]\nsources = []\n[guard.log]\nterminal = false\n\
                    [[guard.rule]]\nallow = \"any\"\nobject = { dir = \"/srv/\" }";
        let written = std::fs::write(config.path().join("guard.toml"), text);
        written.unwrap_or_else(|error| panic!("{error}"));
        let setup =
            Setup::read(config.path(), None, Writers::Anybody).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(setup.settings.mode, crate::settings::Mode::Enforce);
        let first = setup.rules.iter().next().map(|(id, _)| setup.rules.show(id));
        assert_eq!(first.as_deref(), Some("allow perm=any all : dir=/srv/"));
    }
}
