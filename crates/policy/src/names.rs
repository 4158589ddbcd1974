// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that programs outside obey: `.git/hooks`, `.vscode`, `.bashrc`. In a directory that may be
//! written to they are protected, whether they exist or not, at any depth and in any spelling.
//!
//! - `builtin`: the list that is compiled in, `names.toml`
//! - `pattern`, `glob`: how a name is written and what one component matches
//! - `table`: all of them, ready to be asked; `spelling`: what a file system may take for a name
//! - `repository`: directories that are to git what `.git` is
//! - `choose`: what the layers of a policy add to the list and take off it
//! - `subject`: what a statement of a policy is about: a name, or a group of the built-in ones
//! - `paths`: `protect_paths` as rules of the same kind

use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::layer::Origin;

mod builtin;
pub(crate) mod choose;
mod glob;
mod paths;
mod pattern;
pub mod repository;
mod spelling;
mod subject;
mod table;

pub use builtin::{BuiltInName, built_in};
pub use choose::{NameChange, UnknownName};
pub use pattern::{NameError, NamePattern};
pub use subject::{GROUP, NameSubject};

pub use crate::value::Protect;

use table::Table;

/// One protected name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRule {
    /// Components with `/` between them: `*` and `?` stand for characters of one, `**` for any
    /// number of them. A backslash makes a character ordinary.
    pub path: String,
    /// What goes wrong otherwise; for people, one clause without a full stop.
    pub reason: String,
    /// Who says so.
    pub origin: Origin,
    /// Repositories carry the name, so checking one out writes it. It is refused all the same; git is told nothing of
    /// that, and ends as if the file had been removed afterwards.
    pub carried: bool,
    /// Below directories of these names (one or more components), inside the writable tree, the rule doesn't count.
    pub except_below: Vec<String>,
    /// Whether what is written matters.
    pub content: Content,
    /// The path is one from `/` on. Others hold at any depth.
    pub anchored: bool,
    /// Nothing lifts it, not even granting the name itself.
    pub locked: bool,
}

/// Whether a protected file may be changed after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// It may not.
    #[default]
    Never,
    /// A configuration of git: it may, if no command of the change is one that git would run.
    GitConfig,
    /// It may be written while the directory that it lies in is new.
    WithDirectory,
    /// A directory of the name is an ordinary one. Only a file, or a link, leads a program to another place.
    Directory,
}

/// How a path stands to the protected names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameStatus<'r> {
    /// Nothing protects it.
    Free,
    /// It is a protected name, or lies beneath one.
    Protected(&'r NameRule),
    /// It is where a protected name begins: as a directory it holds such names (moving it moves
    /// them), and as a link, or a file that git follows, it would lead to others.
    Holder(&'r NameRule),
}

/// The protected names of one launch, ready to be asked.
///
/// Serialised as the list of its rules.
#[derive(Clone, Default)]
pub struct NameRules {
    rules: Vec<NameRule>,
    /// Made by the first question: a launch reads rules from a kept plan and asks none.
    table: OnceLock<Table>,
}

impl NameRule {
    /// Greater is stricter. Of several rules on one name the strictest counts.
    const fn strictness(&self) -> u8 {
        let content = match self.content {
            // It protects nothing. Where a name begins, it says more than the others.
            Content::Directory => 6,
            Content::Never => 4,
            Content::WithDirectory => 2,
            Content::GitConfig => 0,
        };
        content + if self.carried { 0 } else { 1 }
    }

    /// Whether a program follows a file of this name to wherever it says, at a path for which
    /// [`NameStatus::Holder`] gives this rule.
    #[must_use]
    pub fn follows_file(&self, name: &[u8]) -> bool {
        let last = self.path.rsplit('/').next().unwrap_or_default();
        let name = spelling::without_dots(name);
        name.eq_ignore_ascii_case(b".git")
            || self.content == Content::Directory && last.as_bytes().eq_ignore_ascii_case(name)
    }
}

/// The strictness that no rule on a protected path exceeds.
const STRICTEST: u8 = 5;

/// `.git/hooks (built in): git runs what is in it`.
impl fmt::Display for NameRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.anchored { "/" } else { "" };
        write!(f, "{slash}{} ({}): {}", self.path, self.origin, self.reason)
    }
}

impl NameRules {
    /// The rules of a launch.
    #[must_use]
    pub const fn new(rules: Vec<NameRule>) -> Self {
        Self { rules, table: OnceLock::new() }
    }

    /// The rules, and more of them.
    #[must_use]
    pub fn and(mut self, more: Vec<NameRule>) -> Self {
        self.rules.extend(more);
        Self::new(self.rules)
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[NameRule] {
        &self.rules
    }

    /// Whether nothing is protected.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// How a path stands to the protected names.
    ///
    /// `path` is absolute and canonical (no `.`, `..`, `//` or `/` at the end), as it is seen
    /// inside. `root` is the number of its leading components that name the writable tree itself:
    /// a protected name counts only if it ends below them, so that whoever grants such a name
    /// can write it, unless it is locked. ASCII case doesn't count, nor do the other differences that file systems
    /// with case folding overlook.
    ///
    /// Doesn't allocate, but for the first question, and for paths of more than 4096 bytes that
    /// aren't ASCII.
    #[must_use]
    pub fn judge(&self, path: &[u8], root: usize) -> NameStatus<'_> {
        let table = self.table.get_or_init(|| Table::new(&self.rules));
        let found = spelling::folded(path, |plain| table.judge(&self.rules, plain, root));
        if matches!(found, NameStatus::Protected(_)) || spelling::is_plain(path) {
            return found;
        }
        // A rule may be written in such characters itself, or lie below a directory that is.
        match table.judge(&self.rules, path, root) {
            NameStatus::Free => found,
            as_written => as_written,
        }
    }

    /// A rule that doesn't hold below `inside`, as below `node_modules`, and holds below `outside`: absolute paths, each
    /// with the number of its leading components that name the writable tree.
    #[must_use]
    pub fn exception(&self, inside: (&[u8], usize), outside: (&[u8], usize)) -> Option<&NameRule> {
        self.table.get_or_init(|| Table::new(&self.rules)).exception(&self.rules, inside, outside)
    }
}

impl PartialEq for NameRules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl Eq for NameRules {}

impl fmt::Debug for NameRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rules).finish()
    }
}

impl Serialize for NameRules {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.rules.serialize(to)
    }
}

impl<'de> Deserialize<'de> for NameRules {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::new(Vec::deserialize(from)?))
    }
}

#[cfg(test)]
mod tests;
