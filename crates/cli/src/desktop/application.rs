// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of a profile the desktop needs to know.

use crate::answer::Failure;
use palisade_policy::LayerPolicy;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{self, LayerError};
use std::ffi::OsStr;
use std::path::PathBuf;

/// A profile as the desktop sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Application {
    /// The profile's name.
    pub(super) name: String,
    /// What it says about itself.
    pub(super) description: Option<String>,
    /// The application's id: its desktop file and its name on the bus.
    pub(super) id: Option<String>,
    /// Its program, a path or a name; the profile's name where nothing is said.
    pub(super) program: Option<PathBuf>,
    /// The names of its configurations.
    pub(super) configurations: Vec<String>,
}

/// A profile can't have a place on the desktop.
#[derive(Debug, thiserror::Error)]
#[error("can't enable profile {name:?}: {why}")]
pub(crate) struct NameError {
    name: String,
    why: &'static str,
}

impl Application {
    /// Finds the profile of that name and reads it.
    pub(super) fn find(facts: &Facts, name: &OsStr) -> Result<Self, Failure> {
        let shown = name.to_string_lossy();
        let all = layers::profiles(facts);
        let Some(profile) = all.iter().find(|profile| name == OsStr::new(&profile.name)) else {
            let names = all.iter().map(|profile| profile.name.as_str());
            let nearest = palisade_policy::suggest::nearest(&shown, names).map(str::to_owned);
            return Err(LayerError::Unknown { name: shown.into_owned(), by: None, nearest }.into());
        };
        check(&profile.name).map_err(super::error::DesktopError::from)?;
        let policy = layers::read_profile(facts, profile)?;
        Ok(Self::of(&profile.name, &policy))
    }

    /// WIRE HERE: `id`, `program` and `configurations` come from the profile's `[program]` and
    /// `[configurations.*]`, with what it inherits, once `palisade_policy` reads these keys. What it
    /// gives for `id` goes through `is_id`.
    fn of(name: &str, policy: &LayerPolicy) -> Self {
        let id: Option<String> = None;
        Self {
            name: name.to_owned(),
            description: policy.description.as_ref().map(|description| description.value.clone()),
            id: id.filter(|id| is_id(id)),
            program: None,
            configurations: Vec::new(),
        }
    }

    /// The program, as the profile names it.
    pub(super) fn program(&self) -> PathBuf {
        self.program.clone().unwrap_or_else(|| PathBuf::from(&self.name))
    }
}

/// Profiles may be called what files and command lines can't bear.
fn check(name: &str) -> Result<(), NameError> {
    let why = if name.starts_with('-') {
        "its name would be taken for an option"
    } else if name == "palisade" {
        "a link of that name would be Palisade itself"
    } else if name.contains(['\u{2028}', '\u{2029}']) {
        "its name has a line separator in it"
    } else {
        return Ok(());
    };
    Err(NameError { name: name.to_owned(), why })
}

/// Whether an id can be a file's name and a name on the bus.
pub(super) fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !id.is_empty() && id.len() <= 200 && !id.starts_with(['.', '-']) && id.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_words_are_refused() {
        for name in ["-x", "--all", "palisade", "a\u{2028}b"] {
            assert!(check(name).is_err(), "{name}");
        }
        for name in ["okular", "my app", "a\"b$", "é"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for id in ["", "a/b", "../a", ".a", "-a", "a b"] {
            assert!(!is_id(id), "{id}");
        }
        assert!(is_id("org.kde.okular"));
    }
}
