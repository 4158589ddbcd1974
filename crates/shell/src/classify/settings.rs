// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user can say about the guard: `[guard]` of the shell's settings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::rules::Rule;
use super::verdict::Level;

/// How lines are judged that weren't typed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strictness {
    /// As if they had been typed.
    Same,
    /// Rather asked about than warned of.
    #[default]
    Stricter,
    /// What would be asked about isn't run.
    Strictest,
}

/// `[guard]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Look at lines at all.
    pub enabled: bool,
    /// What pasted lines are judged like.
    pub pasted: Strictness,
    /// What lines are judged like that a program wrote.
    pub machine: Strictness,
    /// At most this is asked for by what isn't a rule of the user's.
    pub most: Level,
    /// Names of Palisade's rules that don't count: `group` or `group/name`.
    pub without: Vec<String>,
    /// The user's own; the first that matches counts.
    pub rules: Vec<Rule>,
    /// Where trusted lines and lists are: `$XDG_STATE_HOME/palisade`. Without it there are none. Not from a file.
    #[serde(skip)]
    pub state: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            pasted: Strictness::default(),
            machine: Strictness::default(),
            most: Level::Block,
            without: Vec::new(),
            rules: Vec::new(),
            state: None,
        }
    }
}
