// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations that calls perform on names, and whether a rule on a name permits them.
//!
//! The decision depends on the name and on the state after the operation, never on earlier operations: another launch
//! or another sandbox doesn't know those. ADR 0038 states the invariants that follow from this table.

use palisade_policy::names::{Content, NameRule};

/// What a call would do to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Open an existing file for writing, or truncate it.
    Change,
    /// Make a file, or open it for writing if it exists.
    MakeFile,
    /// Make a directory.
    MakeDirectory,
    /// Make a symbolic link: a new one, a hard link to one, or one that is moved here.
    MakeLink,
    /// Give the file at this name another name.
    LinkFrom,
    /// Give a file this name as a further one.
    LinkTo,
    /// Move the file away from this name.
    MoveFrom {
        /// The file is a directory.
        directory: bool,
    },
    /// Move a file that isn't a symbolic link to this name.
    MoveTo {
        /// The file is a directory.
        directory: bool,
    },
    /// Remove the file.
    Remove {
        /// The file is a directory, and empty.
        directory: bool,
    },
    /// Change permissions, owner or extended attributes.
    Attributes,
}

impl Operation {
    /// Whether the operation can put a file at this name that wasn't there before.
    pub(crate) const fn makes(self) -> bool {
        matches!(
            self,
            Self::MakeFile | Self::MakeDirectory | Self::MakeLink | Self::LinkTo | Self::MoveTo { .. }
        )
    }

    /// Whether `rule`, which protects a name, permits this operation on it. `fresh` says whether the directory of the
    /// name was made after the launch began. Then no program outside relies on its content yet.
    pub(crate) fn may_be_done(self, name: &[u8], rule: &NameRule, fresh: impl Fn() -> bool) -> bool {
        let in_hooks = rule.path.ends_with("hooks") && !rule.carried;
        match self {
            // git's templates contain such files, and git executes none of them.
            _ if in_hooks && name.ends_with(b".sample") => {
                !matches!(self, Self::MakeDirectory | Self::MakeLink | Self::MoveTo { directory: true })
            }
            // Only empty directories that git's templates contain.
            Self::MakeDirectory if matches!(name, b"hooks" | b"branches") && !rule.carried => fresh(),
            // A clone can be deleted again. A hook stays, even if its directory was made inside.
            Self::Remove { directory } => (directory || rule.content != Content::Never) && fresh(),
            Self::Attributes => {
                (rule.content != Content::Never || matches!(name, b"hooks" | b"branches")) && fresh()
            }
            // The file leads to a repository. The names that git obeys in that repository are protected, wherever it
            // lies.
            Self::MakeFile | Self::Change | Self::MoveTo { directory: false }
                if rule.content == Content::WithDirectory =>
            {
                fresh()
            }
            _ => false,
        }
    }

    /// Whether this operation is permitted on a name below which protected names begin (`.cargo`). A directory of
    /// this name holds protected names; a link would lead to others.
    ///
    /// When a directory is moved away from there, its content is also checked.
    pub(crate) fn may_be_done_to_holder(
        self,
        name: &[u8],
        rule: &NameRule,
        fresh: impl Fn() -> bool,
    ) -> bool {
        match self {
            Self::MakeDirectory | Self::Remove { .. } | Self::Attributes | Self::MoveFrom { .. } => true,
            Self::MoveTo { directory: true } | Self::MakeLink => false,
            Self::Change
            | Self::MakeFile
            | Self::LinkFrom
            | Self::LinkTo
            | Self::MoveTo { directory: false } => {
                // git and Jujutsu follow a file of this name to any directory. A directory that already exists would
                // become the working tree of another repository. By a second hard link the file could be changed at
                // any time.
                !rule.follows_file(name) || matches!(self, Self::Change | Self::MakeFile) && fresh()
            }
        }
    }
}
