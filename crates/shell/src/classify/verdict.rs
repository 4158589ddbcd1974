// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes out: whether to ask, and why.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::model::Opinion;

/// What to do about a line. Ordered: the later, the more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Nothing.
    #[default]
    Allow,
    /// Say what it does, and run it.
    Warn,
    /// Ask the first time in a session.
    ConfirmOnce,
    /// Ask.
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

    /// As rules spell it.
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
    /// Key by key.
    #[default]
    Typed,
    /// From a clipboard, all or part of it.
    Pasted,
    /// A program wrote it: an agent, a macro.
    Machine,
}

/// Why a line isn't simply run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Which rule says so: `group/name`.
    pub rule: String,
    /// What this alone asks for.
    pub level: Level,
    /// What it is about, in bytes of the line; between characters.
    pub span: Range<usize>,
    /// What to tell the user, without a full stop.
    pub words: String,
    /// The technique: `T…` of MITRE ATT&CK, `GTFOBins:…`, an OSV or CVE number; empty without one.
    pub reference: String,
}

/// What to do about a line, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// What to do.
    pub level: Level,
    /// The strongest first. Trusted lines and lines that a rule of the user's allows keep theirs.
    pub reasons: Vec<Reason>,
    /// What small signs add up to in this line; for [`Session::note`](super::Session::note).
    pub score: u32,
    /// Names of files that the line gets from the network; for the same.
    #[serde(skip)]
    pub(super) downloads: Vec<String>,
    /// The first command's name.
    #[serde(skip)]
    pub command: String,
    /// It was typed, and all that it does is to ask about scopes.
    #[serde(skip)]
    pub of_scopes: bool,
    /// What the user's model said, if there is one.
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
