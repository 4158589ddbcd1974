// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of commands that aren't closed yet, and which word may come next in them.

/// What a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    If,
    /// `while`, `until`
    While,
    /// `for`, `select`
    For,
    Case,
    Brace,
    Paren,
}

/// How far a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// What `if` and `while` ask.
    Condition,
    /// What `for` and `case` say before their commands.
    Header,
    /// The commands.
    Body,
    /// Behind `else`.
    Else,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) group: Group,
    pub(crate) stage: Stage,
    /// A command began since the last word that may need one.
    pub(crate) is_filled: bool,
}

impl Frame {
    pub(crate) fn new(group: Group, stage: Stage) -> Self {
        Self { group, stage, is_filled: false }
    }

    /// The stage that a word leads to from this one; `None`: it may not stand here.
    pub(crate) fn after(&self, word: &str) -> Option<Stage> {
        match (word, self.group, self.stage) {
            ("then", Group::If, Stage::Condition)
            | ("do", Group::While, Stage::Condition)
            | ("do", Group::For, Stage::Header) => Some(Stage::Body),
            ("elif", Group::If, Stage::Body) => Some(Stage::Condition),
            ("else", Group::If, Stage::Body) => Some(Stage::Else),
            _ => None,
        }
    }

    /// Whether a word, or `)`, ends the group.
    pub(crate) fn ends_with(&self, word: &str) -> bool {
        match self.group {
            Group::If => word == "fi" && matches!(self.stage, Stage::Body | Stage::Else),
            Group::While | Group::For => word == "done" && self.stage == Stage::Body,
            Group::Case => word == "esac",
            Group::Brace => word == "}",
            Group::Paren => word == ")",
        }
    }

    /// Whether the group may be as empty as it is. Only commands of `case`, and the list of `for`, may.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_filled || self.group == Group::Case || self.stage == Stage::Header
    }
}
