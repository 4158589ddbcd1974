// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a call would do to a name, and whether a rule on that name lets it.
//!
//! A name is judged by what it is and by what would be there afterwards, never by what happened before: another
//! launch or another sandbox knows nothing of that. ADR 0038 has the invariants that follow from this table.

use palisade_policy::names::{Content, NameRule};

/// What a call would do to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Open a file that is there for writing, or truncate it.
    Change,
    /// Make a file, or open it for writing if it is there.
    MakeFile,
    /// Make a directory.
    MakeDirectory,
    /// Make a symbolic link: anew, by another name for one, or by moving one here.
    MakeLink,
    /// Give the file another name: this is its first.
    LinkFrom,
    /// Give a file this name too.
    LinkTo,
    /// Move it away from here.
    MoveFrom {
        /// It is a directory.
        directory: bool,
    },
    /// Move something here that is no link.
    MoveTo {
        /// That is a directory.
        directory: bool,
    },
    /// Remove it.
    Remove {
        /// It is a directory, and empty.
        directory: bool,
    },
    /// Change permissions, owner or extended attributes.
    Attributes,
}

impl Operation {
    /// Whether there may be something of this name afterwards that wasn't there before.
    pub(crate) const fn makes(self) -> bool {
        matches!(
            self,
            Self::MakeFile | Self::MakeDirectory | Self::MakeLink | Self::LinkTo | Self::MoveTo { .. }
        )
    }

    /// Whether `rule`, which protects a name, lets this be done to it. `fresh` is asked whether the directory that the
    /// name lies in was born since the launch began: nobody outside has come to rely on what is there.
    pub(crate) fn may_be_done(self, name: &[u8], rule: &NameRule, fresh: impl Fn() -> bool) -> bool {
        let in_hooks = rule.path.ends_with("hooks") && !rule.carried;
        match self {
            // git's templates have them, and git runs none of them.
            _ if in_hooks && name.ends_with(b".sample") => {
                !matches!(self, Self::MakeDirectory | Self::MakeLink | Self::MoveTo { directory: true })
            }
            // Empty ones, of those that git's templates have.
            Self::MakeDirectory if matches!(name, b"hooks" | b"branches") && !rule.carried => fresh(),
            // So that a clone can be deleted again. A hook stays, whoever made the directory.
            Self::Remove { directory } => (directory || rule.content != Content::Never) && fresh(),
            Self::Attributes => {
                (rule.content != Content::Never || matches!(name, b"hooks" | b"branches")) && fresh()
            }
            // It leads to a repository, of which what git obeys is protected, wherever it is.
            Self::MakeFile | Self::Change | Self::MoveTo { directory: false }
                if rule.content == Content::WithDirectory =>
            {
                fresh()
            }
            _ => false,
        }
    }

    /// Whether this may be done to a name at which protected ones begin (`.cargo`): as a directory it holds them, as a
    /// link it would lead to others.
    ///
    /// What is moved away from there is looked through besides.
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
                // git, or Jujutsu, follows a file of this name to wherever it says: a directory that is known would
                // become the working tree of another repository. By another name it could be written at any time.
                !rule.follows_file(name) || matches!(self, Self::Change | Self::MakeFile) && fresh()
            }
        }
    }
}
