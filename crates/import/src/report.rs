// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of each statement of a foreign file.

use serde::Serialize;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How much of a statement is quoted.
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

/// What became of a statement that the profile doesn't express exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Expressed differently, and never more loosely.
    Approximated,
    /// Not expressed. It granted or did something that the profile doesn't.
    LeftOut,
    /// Not expressed. It restricted something that the profile doesn't restrict.
    NotKept,
}

/// A statement that the profile doesn't express exactly.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Where it stands.
    #[serde(flatten)]
    pub at: At,
    /// The statement; only the beginning of a long one.
    pub statement: String,
    /// What became of it.
    #[serde(skip)]
    pub outcome: Outcome,
    /// Why it isn't expressed exactly.
    #[serde(rename = "reason")]
    pub why: &'static str,
    /// Whether it restricted something.
    pub restricts: bool,
}

impl Finding {
    /// What became of a statement, and why. Only the beginning of a long statement is quoted.
    pub fn new(at: &At, statement: &str, outcome: Outcome, why: &'static str) -> Self {
        let mut quoted: String = statement.chars().take(QUOTED).collect();
        if quoted.len() < statement.len() {
            quoted.push('…');
        }
        let restricts = outcome == Outcome::NotKept;
        Self { at: at.clone(), statement: quoted, outcome, why, restricts }
    }

    /// The line of a comment.
    pub(crate) fn line(&self) -> String {
        let not = if self.restricts { "NOT KEPT: " } else { "" };
        format!("{}: `{}`: {not}{}", self.at, self.statement, self.why)
    }
}

/// What became of all statements.
#[derive(Debug, Default)]
pub struct Report {
    /// How many statements the profile expresses exactly.
    pub taken: usize,
    /// The statements that it doesn't express exactly.
    pub findings: Vec<Finding>,
    /// The statements that the launcher itself doesn't know.
    pub unknown: Vec<Finding>,
    /// How many programs run on the host, around the sandbox.
    pub hooks: usize,
    /// The files that were read and belong to another user, who isn't root either.
    pub others: Vec<PathBuf>,
}

impl Report {
    /// Notes to whom a file belongs.
    pub(crate) fn read(&mut self, file: &Path, owner: u32, user: u32) {
        if owner != user && owner != 0 {
            self.others.push(file.to_owned());
        }
    }

    /// The statements with one of these outcomes, in the file's order.
    pub fn of(&self, kinds: &[Outcome]) -> Vec<&Finding> {
        self.findings.iter().filter(|finding| kinds.contains(&finding.outcome)).collect()
    }

    /// The statements that the profile doesn't express.
    pub fn left_out(&self) -> Vec<&Finding> {
        self.of(&[Outcome::LeftOut, Outcome::NotKept])
    }
}
