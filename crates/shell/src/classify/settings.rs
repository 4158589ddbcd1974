// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user's settings for the line guard: `[guard]` in the shell's settings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::model;
use super::rules::Rule;
use super::verdict::Level;

/// How strictly lines that weren't typed are judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strictness {
    /// As if they had been typed.
    Same,
    /// A line that would cause a warning is asked about.
    #[default]
    Stricter,
    /// What would be asked about isn't run.
    Strictest,
}

/// What a line becomes in the kernel, where `palisaded` runs. Each value is at least as strict as the daemon's own
/// profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Nothing: the daemon isn't asked.
    Off,
    /// The line gets a scope. The shell shows what is refused in it.
    #[default]
    Prompt,
    /// As `Prompt`, and each exec is reported to the programs that follow the scope.
    Audit,
    /// As `Audit`, and the daemon kills denied execs.
    Session,
    /// As `Session`, and the kernel refuses denied execs.
    Strict,
}

/// `[guard]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether lines are judged at all.
    pub enabled: bool,
    /// How pasted lines are judged.
    pub pasted: Strictness,
    /// How lines that a program wrote are judged.
    pub machine: Strictness,
    /// The highest level that anything other than a rule of the user's can cause.
    pub most: Level,
    /// Names of Palisade's rules that don't count: `group` or `group/name`.
    pub without: Vec<String>,
    /// What the line becomes in the kernel.
    pub scope: Scope,
    /// The user's own rules; the first match counts.
    pub rules: Vec<Rule>,
    /// A model to ask in addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<model::Settings>,
    /// The directory of the trusted lines and lists: `$XDG_STATE_HOME/palisade`. Without it there are none. It can't be
    /// set in the file.
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
