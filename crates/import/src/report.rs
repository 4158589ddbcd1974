// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of each statement of a foreign file.

use serde::Serialize;
use std::rc::Rc;

/// As much of a statement as is quoted.
const QUOTED: usize = 160;

/// Where a statement stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct At {
    /// The file's name, if it was included by the one that is imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Rc<str>>,
    /// Its line, counted from 1.
    pub line: usize,
}

impl At {
    /// A line of the file itself.
    pub const fn line(line: usize) -> Self {
        Self { file: None, line }
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}:{}", self.line),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// What became of a statement that isn't said exactly by the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Said otherwise, and never more loosely.
    Approximated,
    /// Not said. It granted or did something, which the profile doesn't.
    LeftOut,
    /// Not said. It kept something away, which the profile doesn't.
    NotKept,
}

/// A statement that isn't said exactly.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Where it stands.
    #[serde(flatten)]
    pub at: At,
    /// As it stands there; of a long one the beginning.
    pub statement: String,
    /// What became of it.
    #[serde(skip)]
    pub outcome: Outcome,
    /// Why it isn't said exactly.
    #[serde(rename = "reason")]
    pub why: &'static str,
    /// Whether it kept something away.
    pub restricts: bool,
}

impl Finding {
    /// What became of a statement, and why; of a long one the beginning is quoted.
    pub fn new(at: &At, statement: &str, outcome: Outcome, why: &'static str) -> Self {
        let mut quoted: String = statement.chars().take(QUOTED).collect();
        if quoted.len() < statement.len() {
            quoted.push('…');
        }
        let restricts = outcome == Outcome::NotKept;
        Self { at: at.clone(), statement: quoted, outcome, why, restricts }
    }

    /// For a comment.
    pub(crate) fn line(&self) -> String {
        let not = if self.restricts { "NOT KEPT: " } else { "" };
        format!("{}: `{}`: {not}{}", self.at, self.statement, self.why)
    }
}

/// What became of all statements.
#[derive(Debug, Default)]
pub struct Report {
    /// Statements that the profile says exactly.
    pub taken: usize,
    /// Statements that it doesn't say exactly.
    pub findings: Vec<Finding>,
    /// What the launcher itself doesn't know.
    pub unknown: Vec<Finding>,
    /// Programs that run on the host, around the sandbox.
    pub hooks: usize,
}

impl Report {
    /// Statements of which one of these came, in the file's order.
    pub fn of(&self, kinds: &[Outcome]) -> Vec<&Finding> {
        self.findings.iter().filter(|finding| kinds.contains(&finding.outcome)).collect()
    }

    /// Statements that the profile doesn't say.
    pub fn left_out(&self) -> Vec<&Finding> {
        self.of(&[Outcome::LeftOut, Outcome::NotKept])
    }
}
