// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The format of `tests/others/NAME.toml`: how a suite is obtained, run and read.

use super::outcome::Format;
use serde::Deserialize;
use std::path::PathBuf;

/// One of the files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Suite {
    #[serde(skip)]
    pub(super) name: String,
    /// What the suite finds, and which parts of it are left out why.
    #[expect(dead_code, reason = "for the reader of the file")]
    why: String,
    /// What to do where it can't be obtained.
    pub(super) hint: String,
    /// Shell: fills the directory `tree`. It runs in the suite's directory of the store, as the user that runs the tests,
    /// and only once for each text. The functions of `obtain.sh` are there.
    pub(super) obtain: String,
    /// Shell: prints the units, one a line. It runs in a copy of the tree.
    pub(crate) units: String,
    /// Shell: runs the unit `$1`, in a copy of the tree.
    pub(crate) run: String,
    /// How what it prints is read.
    pub(super) format: Format,
    /// Seconds that a unit may take on an idle machine.
    pub(super) limit: u64,
    /// How many units run at a time.
    #[serde(default = "two")]
    pub(super) jobs: usize,
    /// At least as many tests pass outside: with fewer the suite doesn't work.
    pub(crate) least: usize,
}

fn two() -> usize {
    2
}

impl Suite {
    pub(crate) fn read(name: &str) -> Self {
        let path = directory().join(format!("{name}.toml"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let suite: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { name: name.to_owned(), ..suite }
    }
}

/// Where the descriptions are.
pub(super) fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/others"))
}
