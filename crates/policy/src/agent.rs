// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a profile says about a coding agent: where to get it, where its login is, and what its own sandbox does inside.
//! The rules of the launch stay in the other sections.

use serde::Serialize;

/// `[agent]` of a profile. It isn't inherited.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Agent {
    /// Its package in the npm registry.
    pub npm: Option<String>,
    /// Its package in PyPI.
    pub pypi: Option<String>,
    /// The page that explains how to install it.
    pub page: Option<String>,
    /// Which sandbox confines its commands: a sentence for users.
    pub nested: Option<String>,
    /// Files of its login, below the home: copied into its own home on request.
    pub login: Vec<String>,
}

impl Agent {
    /// The command that installs it for this user.
    #[must_use]
    pub fn installing(&self) -> Option<String> {
        match (&self.npm, &self.pypi) {
            (Some(package), _) => Some(format!("npm install -g {package}")),
            (None, Some(package)) => Some(format!("pipx install {package}")),
            (None, None) => self.page.as_ref().map(|page| format!("{page}   # says how to install it")),
        }
    }
}

/// Whether a text is a path below the home that leads nowhere else: `.claude/settings.json`.
#[must_use]
pub fn is_below_home(text: &str) -> bool {
    !text.is_empty() && text.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}
