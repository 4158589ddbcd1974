// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups of commands that are still open, and the words that may come next in them.

/// The kind of group.
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

/// The stage that a group has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The condition of `if` or `while`.
    Condition,
    /// The words of `for` or `case` before the commands.
    Header,
    /// The commands.
    Body,
    /// After `else`.
    Else,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) group: Group,
    pub(crate) stage: Stage,
    /// A command has begun since the last word that requires one.
    pub(crate) is_filled: bool,
}

impl Frame {
    pub(crate) fn new(group: Group, stage: Stage) -> Self {
        Self { group, stage, is_filled: false }
    }

    /// The stage that follows after `word`; `None` if the word isn't allowed at this stage.
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

    /// Whether `word`, which may be `)`, ends the group.
    pub(crate) fn ends_with(&self, word: &str) -> bool {
        match self.group {
            Group::If => word == "fi" && matches!(self.stage, Stage::Body | Stage::Else),
            Group::While | Group::For => word == "done" && self.stage == Stage::Body,
            Group::Case => word == "esac",
            Group::Brace => word == "}",
            Group::Paren => word == ")",
        }
    }

    /// Whether the group has the commands that it needs. Only the commands of `case` and the list of `for` may be
    /// empty.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_filled || self.group == Group::Case || self.stage == Stage::Header
    }
}
