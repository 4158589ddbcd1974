// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses the cases and tools to run, by environment variables.

use std::collections::BTreeSet;
use std::path::Path;

use crate::case::Case;

/// What the environment picks.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// `PALISADE_ACCEPTANCE_ONLY`: a text in the name, or after `=` the whole name.
    pub only: Option<String>,
    /// The names in the list that `PALISADE_ACCEPTANCE_LIST` names.
    pub list: Option<BTreeSet<String>>,
}

impl Selection {
    /// Reads the environment, and the list in `data`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn find(data: &Path) -> Result<Selection, String> {
        let only = std::env::var("PALISADE_ACCEPTANCE_ONLY").ok();
        let list = match std::env::var("PALISADE_ACCEPTANCE_LIST") {
            Ok(name) => Some(read_list(data, &name)?),
            Err(_unset) => None,
        };
        Ok(Selection { only, list })
    }

    /// Whether `case` is picked.
    #[must_use]
    pub fn has(&self, case: &Case) -> bool {
        let only = self.only.as_ref().is_none_or(|only| match only.strip_prefix('=') {
            Some(name) => case.name == name,
            None => case.name.contains(only.as_str()),
        });
        only && self.list.as_ref().is_none_or(|list| list.contains(&case.name))
    }

    /// Whether everything is picked.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.only.is_none() && self.list.is_none()
    }
}

/// The names in `NAME.list` of the data directory, one a line; what follows a `#` is for readers.
///
/// # Errors
/// If it can't be read, in words.
pub fn read_list(data: &Path, name: &str) -> Result<BTreeSet<String>, String> {
    let path = data.join(format!("{name}.list"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
    let names = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// `PALISADE_ACCEPTANCE_TOOLS`, by default Palisade alone.
///
/// # Errors
/// Words about a name that is no tool's.
pub fn tools() -> Result<BTreeSet<String>, String> {
    let list = std::env::var("PALISADE_ACCEPTANCE_TOOLS").unwrap_or_else(|_unset| "palisade".into());
    let names: BTreeSet<String> =
        list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    match names.iter().find(|name| !["palisade", "bwrap"].contains(&name.as_str())) {
        Some(stranger) => {
            Err(format!("PALISADE_ACCEPTANCE_TOOLS names {stranger:?}: palisade and bwrap are known"))
        }
        None if names.is_empty() => Err("PALISADE_ACCEPTANCE_TOOLS names no tool".into()),
        None => Ok(names),
    }
}
