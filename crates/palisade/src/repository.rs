// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The statements of `--repo`: the whole git repository of the working directory is writable.
//!
//! A working directory below the top of a repository shows the rest read-only, so `git add` fails there. In a linked
//! worktree or a submodule git's data lies outside of the working tree, and even the top isn't enough.

use palisade_host::worktree::{self, Found, GitDirectory, Rejection};
use palisade_policy::{Access, LayerPolicy, PatternError};
use palisade_sandbox::facts::Facts;
use palisade_text::Show as _;
use std::path::Path;

/// Why a repository can't be made writable.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// There is none.
    #[error("--repo: there is no git repository in {directory} or above it")]
    Nothing {
        /// The working directory.
        directory: String,
    },
    /// The `.git` that was found could have been made to lead elsewhere.
    #[error("--repo: {root} isn't taken for a git repository: {reason}")]
    Rejected {
        /// The directory that has the `.git`.
        root: String,
        /// Why it isn't trusted.
        reason: Rejection,
    },
    /// A path can't be stated.
    #[error("--repo: {path}: {source}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        source: PatternError,
    },
}

impl RepositoryError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Nothing { .. } => {
                "palisade run -- COMMAND…   # the working directory is writable".to_owned()
            }
            Self::Rejected { .. } | Self::Path { .. } => {
                "palisade run --rw DIRECTORY -- COMMAND…   # names what is to be writable".to_owned()
            }
        }
    }
}

/// Adds the statements for the repository of the working directory. `argument` is the position of the option.
pub(crate) fn state(words: &mut LayerPolicy, facts: &Facts, argument: u32) -> Result<(), RepositoryError> {
    let account = &facts.account;
    let repository = match worktree::find(&facts.cwd, &account.home, account.uid) {
        Found::Repository(repository) => repository,
        Found::Nothing => {
            return Err(RepositoryError::Nothing { directory: facts.cwd.shown().to_string() });
        }
        Found::Rejected { root, reason } => {
            return Err(RepositoryError::Rejected { root: root.shown().to_string(), reason });
        }
    };
    let mut add = |access: Access, path: &Path| {
        words
            .add_exactly(access, path, argument)
            .map(drop)
            .map_err(|source| RepositoryError::Path { path: path.shown().to_string(), source })
    };
    let mut writable = vec![repository.root];
    match repository.git {
        GitDirectory::Inside(_) => {}
        GitDirectory::Submodule { gitdir } => writable.push(gitdir),
        GitDirectory::Worktree { gitdir, common } => {
            // What belongs to other worktrees, the main one among them, stays as it is.
            let others = ["worktrees", "HEAD", "index"].map(|name| common.join(name));
            for other in &others {
                // One that is made later makes another plan.
                facts.depends_on(other, false);
                if other.symlink_metadata().is_ok() {
                    add(Access::Read, other)?;
                }
            }
            writable.extend([common, gitdir]);
        }
    }
    for path in writable {
        // As `--rw`.
        add(Access::Write, &path)?;
        add(Access::Execute, &path)?;
    }
    Ok(())
}
