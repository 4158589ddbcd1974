// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protected names: names that programs outside obey, such as `.git/hooks`, `.vscode`, `.bashrc`. In a writable
//! directory they are protected whether they exist or not, at any depth and in any spelling.
//!
//! - `builtin`: the list that is compiled in, `names.toml`
//! - `pattern`, `glob`: the syntax of a name, and what one component matches
//! - `table`: all names in a form for fast lookups; `spelling`: other spellings that a file system accepts for a name
//! - `repository`: directories that git treats like `.git`
//! - `choose`: what the layers of a policy add to the list and remove from it
//! - `subject`: what a statement is about: a name, or a group of built-in names
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
    /// Components separated by `/`. `*` and `?` stand for characters of one component, `**` for any number of
    /// components. A backslash makes a character ordinary.
    pub path: String,
    /// The harm without the protection; for users, one clause without a full stop.
    pub reason: String,
    /// Where it was stated.
    pub origin: Origin,
    /// Repositories contain the name, so a checkout writes it. It is refused nevertheless. git gets no error and ends
    /// as if the file had been removed afterwards.
    pub carried: bool,
    /// The rule doesn't apply below directories with these names (one or more components) inside the writable tree.
    pub except_below: Vec<String>,
    /// Whether the content of the file matters.
    pub content: Content,
    /// The path starts at `/`. Other rules apply at any depth.
    pub anchored: bool,
    /// No grant lifts the rule, not even one for the name itself.
    pub locked: bool,
}

/// Whether a protected file may be changed under a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// It may not be changed.
    #[default]
    Never,
    /// A git configuration: it may be changed if the change adds no command that git would run.
    GitConfig,
    /// It may be written while its directory is new.
    WithDirectory,
    /// A directory with this name is ordinary. Only a file or a link leads a program to another place.
    Directory,
}

/// The status of a path with regard to protected names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameStatus<'r> {
    /// Nothing protects it.
    Free,
    /// It is a protected name, or lies below one.
    Protected(&'r NameRule),
    /// Protected names begin here. As a directory it contains such names, and moving it moves them. As a link, or as
    /// a file that git follows, it would lead to others.
    Holder(&'r NameRule),
}

/// The protected names of one launch, ready for lookups.
///
/// Serialised as the list of its rules.
#[derive(Clone, Default)]
pub struct NameRules {
    rules: Vec<NameRule>,
    /// Built at the first lookup: a launch that reads rules from a kept plan needs no lookup.
    table: OnceLock<Table>,
}

impl NameRule {
    /// A greater value is stricter. Of several rules for one name the strictest counts.
    const fn strictness(&self) -> u8 {
        let content = match self.content {
            // This rule protects nothing by itself. Where a name begins, it says more than the others.
            Content::Directory => 6,
            Content::Never => 4,
            Content::WithDirectory => 2,
            Content::GitConfig => 0,
        };
        content + if self.carried { 0 } else { 1 }
    }

    /// Whether programs follow a file of this name to another place. For a path with the status
    /// [`NameStatus::Holder`] by this rule.
    #[must_use]
    pub fn follows_file(&self, name: &[u8]) -> bool {
        let last = self.path.rsplit('/').next().unwrap_or_default();
        let name = spelling::without_dots(name);
        name.eq_ignore_ascii_case(b".git")
            || self.content == Content::Directory && last.as_bytes().eq_ignore_ascii_case(name)
    }
}

/// The greatest strictness of a rule that protects a path.
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

    /// These rules and further ones.
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

    /// Whether there are no rules.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The status of a path.
    ///
    /// `path` is absolute and canonical (no `.`, `..`, `//` or trailing `/`), as seen inside. `root` is the number of
    /// its leading components that name the writable tree itself. A protected name counts only if it ends below them,
    /// so a grant of such a name makes it writable, unless the rule is locked. ASCII case is ignored, and so are
    /// other differences that file systems with case folding ignore.
    ///
    /// Doesn't allocate, except at the first lookup, and for paths of more than 4096 bytes that aren't ASCII.
    /// aren't ASCII.
    #[must_use]
    pub fn judge(&self, path: &[u8], root: usize) -> NameStatus<'_> {
        let table = self.table.get_or_init(|| Table::new(&self.rules));
        let found = spelling::folded(path, |plain| table.judge(&self.rules, plain, root));
        if matches!(found, NameStatus::Protected(_)) || spelling::is_plain(path) {
            return found;
        }
        // A rule itself may contain such characters, or lie below a directory that does.
        match table.judge(&self.rules, path, root) {
            NameStatus::Free => found,
            as_written => as_written,
        }
    }

    /// A rule that doesn't apply below `inside` (for example below `node_modules`) but applies below `outside`. Both
    /// are absolute paths, with the number of leading components that name the writable tree.
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
