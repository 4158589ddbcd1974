// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of classifying a line: whether to ask, and why.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::model::Opinion;

/// What to do about a line. Later values are stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Run it without a message.
    #[default]
    Allow,
    /// Tell the user what it does, and run it.
    Warn,
    /// Ask the user, but only the first time in a session.
    ConfirmOnce,
    /// Ask the user.
    Confirm,
    /// Don't run it.
    Block,
}

impl Level {
    pub(super) fn of_letter(letter: &str) -> Option<Self> {
        Some(match letter {
            "W" => Self::Warn,
            "O" => Self::ConfirmOnce,
            "C" => Self::Confirm,
            "B" => Self::Block,
            _ => return None,
        })
    }

    /// The level's name in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::ConfirmOnce => "confirm-once",
            Self::Confirm => "confirm",
            Self::Block => "block",
        }
    }
}

/// Where a line comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Typed key by key.
    #[default]
    Typed,
    /// Pasted from a clipboard, in part or as a whole.
    Pasted,
    /// Written by a program: an agent, a macro.
    Machine,
}

/// Why a line isn't simply run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The rule that matched: `group/name`.
    pub rule: String,
    /// The level that this reason alone causes.
    pub level: Level,
    /// The part of the line that the reason is about, in bytes, at character boundaries.
    pub span: Range<usize>,
    /// The message for the user, without a full stop.
    pub words: String,
    /// The technique: `T…` of MITRE ATT&CK, `GTFOBins:…`, an OSV or CVE number; empty without one.
    pub reference: String,
}

/// What to do about a line, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// What to do.
    pub level: Level,
    /// The reasons, strongest first. They are kept even if the line is trusted or a rule of the user's allows it.
    pub reasons: Vec<Reason>,
    /// The sum of the weak signs in this line; for [`Session::note`](super::Session::note).
    pub score: u32,
    /// Names of files that the line downloads; also for [`Session::note`](super::Session::note).
    #[serde(skip)]
    pub(super) downloads: Vec<String>,
    /// The first command's name.
    #[serde(skip)]
    pub command: String,
    /// The line was typed, and it only asks about scopes.
    #[serde(skip)]
    pub of_scopes: bool,
    /// The opinion of the user's model, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Opinion>,
}

impl Verdict {
    /// The reason that decided.
    #[must_use]
    pub fn first(&self) -> Option<&Reason> {
        self.reasons.first()
    }
}
