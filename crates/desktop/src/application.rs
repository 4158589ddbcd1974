// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the desktop needs to know of a profile.

use crate::error::{DesktopError, FindError};
use palisade_policy::word::{List, Word};
use palisade_policy::{LayerPolicy, template};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::application::named;
use palisade_sandbox::layers::{self, LayerError, Loaded, Request, Sort};
use palisade_sandbox::plan::planner;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A profile as the desktop sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Application {
    /// The profile's name.
    pub(crate) name: String,
    /// What it says about itself.
    pub(crate) description: Option<String>,
    /// The application's id: its desktop file and its name on the bus.
    pub(crate) id: Option<String>,
    /// Its program, a path or a name, and the alternatives if that doesn't exist. If the profile states none, its own
    /// name is used.
    pub(crate) programs: Vec<PathBuf>,
    /// The names of its configurations.
    pub(crate) configurations: Vec<String>,
}

/// The profile can't be used on the desktop.
#[derive(Debug, thiserror::Error)]
#[error("can't enable profile {name:?}: {why}")]
pub struct NameError {
    name: String,
    why: &'static str,
}

impl Application {
    /// Finds the profile of that name, and reads its statements and the inherited ones.
    pub(crate) fn find(facts: &mut Facts, name: &OsStr) -> Result<Self, FindError> {
        let shown = name.to_string_lossy();
        let sort = Sort::Profile;
        let all = layers::definitions(facts, sort);
        let Some(profile) = all.iter().find(|profile| name == OsStr::new(&profile.name)) else {
            let names = all.iter().map(|profile| profile.name.as_str());
            let nearest = palisade_policy::suggest::nearest(&shown, names).map(str::to_owned);
            return Err(LayerError::Unknown { sort, name: shown.into_owned(), by: None, nearest }.into());
        };
        check(&profile.name).map_err(DesktopError::from)?;
        // Other than for a launch from here, no project file applies.
        facts.cwd = PathBuf::from("/");
        facts.application = Some(named(name));
        let request = Request { profile: Some(name), open: true, configuration: None };
        let loaded = layers::load(facts, request, LayerPolicy::command_line())?;
        Ok(Self::of(facts, &profile.name, &loaded))
    }

    /// What a profile of that name states.
    pub(crate) fn of(facts: &Facts, name: &str, loaded: &Loaded) -> Self {
        let profile = loaded.profile.as_ref();
        let configurations = profile.map(|profile| profile.configurations.as_slice()).unwrap_or_default();
        let stated = loaded.policy.word(Word::Program).into_iter();
        let alternatives = loaded.policy.list(List::Alternatives);
        let programs = stated.map(|word| word.value).chain(alternatives.into_iter().map(|entry| entry.value));
        Self {
            name: name.to_owned(),
            description: profile
                .and_then(|profile| profile.description.as_ref())
                .map(|description| description.value.clone()),
            id: loaded.policy.word(Word::Id).map(|id| id.value).filter(|id| is_id(id)),
            programs: programs.filter_map(|program| filled(facts, &program)).collect(),
            configurations: configurations.iter().map(|found| found.name.value.clone()).collect(),
        }
    }

    /// The program, as the profile names it.
    pub(crate) fn program(&self) -> PathBuf {
        self.programs().next().unwrap_or_default()
    }

    /// The program, and the alternatives if it doesn't exist.
    pub(crate) fn programs(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.programs.is_empty().then(|| PathBuf::from(&self.name));
        self.programs.iter().cloned().chain(own)
    }
}

/// A program with its variables filled in. `None` if a variable has no value here.
fn filled(facts: &Facts, program: &str) -> Option<PathBuf> {
    if let Some(below) = program.strip_prefix('~') {
        let mut path = facts.account.home.clone().into_os_string();
        path.push(below);
        return Some(path.into());
    }
    template::fill(program, &planner::context(facts, None)).ok().map(|path: OsString| path.into())
}

/// Checks a profile's name: some names can't be used in files or on command lines.
fn check(name: &str) -> Result<(), NameError> {
    let why = if name.starts_with('-') {
        "its name would be read as an option"
    } else if name == "palisade" {
        "a link with that name would run Palisade itself"
    } else if name.ends_with(".toml") {
        "its name would be read as a file name"
    } else if name.contains(['\u{2028}', '\u{2029}']) {
        "its name has a line separator in it"
    } else {
        return Ok(());
    };
    Err(NameError { name: name.to_owned(), why })
}

/// Whether an id can be a file's name and a name on the bus.
pub(crate) fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !id.is_empty() && id.len() <= 200 && !id.starts_with(['.', '-']) && id.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_words_are_refused() {
        for name in ["-x", "--all", "palisade", "x.toml", "a\u{2028}b"] {
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
