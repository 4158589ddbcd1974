// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user can say about the guard: `[guard]` of the shell's settings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::model;
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

/// What a line becomes in the kernel, where `palisaded` runs. Each makes no less of what happens than the daemon's own
/// profile does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Nothing: the daemon isn't asked.
    Off,
    /// A scope; what is refused in it is told here.
    #[default]
    Prompt,
    /// And each exec is told to who follows.
    Audit,
    /// And what is denied is killed by the daemon.
    Session,
    /// And what is denied is refused by the kernel.
    Strict,
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
    /// What becomes of the line in the kernel.
    pub scope: Scope,
    /// The user's own; the first that matches counts.
    pub rules: Vec<Rule>,
    /// A model that is asked, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<model::Settings>,
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
            scope: Scope::default(),
            rules: Vec::new(),
            model: None,
            state: None,
        }
    }
}
