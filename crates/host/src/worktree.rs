// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the git repository that a working directory belongs to, and the other directories that git needs to work
//! there.
//!
//! In a linked worktree or a submodule, `.git` is a file that names a directory elsewhere. The project controls that
//! file, so it can name `~/.ssh` as well. The file is trusted only if the directory that it names refers back to this
//! working tree, in a file that the project can't have written.
//!
//! - A worktree: `GITDIR/gitdir` names our `.git`, and `GITDIR` is `COMMON/worktrees/ID` of a
//!   repository (`HEAD`, `objects`, `refs`).
//! - A submodule: `GITDIR/config` has `core.worktree` leading back to us, and `GITDIR` is a
//!   repository.
//!
//! Directories inside the project need no proof, because they are shown anyway. Nothing outside the project is added
//! for them: alternates and a `commondir` that leads out are not followed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use crate::file::{self, FileError, Links};
use crate::gitconfig::syntax;

/// `.git`, `gitdir` and `commondir` hold one path (PATH_MAX is 4096).
const POINTER_CAP: usize = 8 * 1024;
/// A repository's `config`.
const CONFIG_CAP: usize = 1024 * 1024;

/// The result for a working directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// No repository here or above.
    Nothing,
    /// A repository.
    Repository(Repository),
    /// An untrusted directory that claims to be a repository: only the working directory itself should be shown for
    /// it.
    Rejected {
        /// The directory that has the `.git`.
        root: PathBuf,
        /// Why it isn't trusted.
        reason: Rejection,
    },
}

/// A git repository's working tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// The top of the working tree (canonical).
    pub root: PathBuf,
    /// Where git keeps its data.
    pub git: GitDirectory,
}

/// Where git keeps a repository's data. All paths are canonical.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GitDirectory {
    /// Inside the working tree: normally `.git` itself.
    Inside(PathBuf),
    /// A linked worktree.
    Worktree {
        /// `COMMON/worktrees/ID`: this worktree's own `HEAD` and index.
        gitdir: PathBuf,
        /// The repository that holds objects, refs, configuration and hooks. A process that can write to its `config`
        /// or `hooks` runs code on the host at the next git command there.
        common: PathBuf,
    },
    /// A submodule: its repository, in that of its superproject.
    Submodule {
        /// `SUPER/.git/modules/NAME`.
        gitdir: PathBuf,
    },
}

impl GitDirectory {
    /// The directories outside the working tree that git needs, outermost only.
    #[must_use]
    pub fn outside(&self) -> Option<&Path> {
        match self {
            Self::Inside(_) => None,
            // The worktree's gitdir lies in the common one.
            Self::Worktree { common, .. } => Some(common),
            Self::Submodule { gitdir } => Some(gitdir),
        }
    }
}

/// Why a `.git` isn't trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// `.git` is a symbolic link or a special file.
    #[error(".git is neither a directory nor a regular file")]
    Kind,
    /// It belongs to another user; git itself calls that "dubious ownership".
    #[error("{path} belongs to user {owner}")]
    Owner {
        /// The path that belongs to another user.
        path: PathBuf,
        /// The user that it belongs to.
        owner: u32,
    },
    /// `.git` can't be read or doesn't say `gitdir: PATH`.
    #[error("the file .git doesn't name a directory")]
    Unreadable,
    /// The named place doesn't exist or isn't a directory.
    #[error(".git names {path}, which isn't a directory")]
    Missing {
        /// The place named.
        path: PathBuf,
    },
    /// The named place doesn't refer back to this working tree.
    #[error(".git names {path}, which doesn't name this working tree in return")]
    NotMutual {
        /// The place named.
        path: PathBuf,
    },
    /// The named place isn't a git repository, or isn't where a repository keeps its worktrees.
    #[error("{path} isn't a git repository")]
    NotRepository {
        /// The path that isn't a repository.
        path: PathBuf,
    },
    /// The repository's data would be the home directory or lie above it.
    #[error("{path} contains the home directory")]
    Home {
        /// The place.
        path: PathBuf,
    },
}

/// Finds the repository of `cwd`, searching upwards as git does: not across a file system boundary, and (unlike git)
/// neither in the home directory nor in `/`, because a repository of dotfiles would make all of home the project.
/// `uid` is the user whose files are trusted.
#[must_use]
pub fn find(cwd: &Path, home: &Path, uid: u32) -> Found {
    let Ok(cwd) = cwd.canonicalize() else {
        return Found::Nothing;
    };
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let Ok(device) = rustix::fs::stat(&cwd).map(|stat| stat.st_dev) else {
        return Found::Nothing;
    };
    for root in cwd.ancestors() {
        let outside =
            home.starts_with(root) || rustix::fs::stat(root).map_or(true, |stat| stat.st_dev != device);
        if outside {
            break;
        }
        let dot_git = root.join(".git");
        let Ok(stat) = rustix::fs::lstat(&dot_git) else {
            continue;
        };
        let git = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                // Git continues upwards past a directory `.git` that isn't a repository.
                if !is_repository(&dot_git) {
                    continue;
                }
                owned(root, uid).and_then(|()| owned(&dot_git, uid)).map(|()| GitDirectory::Inside(dot_git))
            }
            FileType::RegularFile => owned(root, uid).and_then(|()| pointed_at(root, &dot_git, &home, uid)),
            _ => Err(Rejection::Kind),
        };
        let root = root.to_owned();
        return match git {
            Ok(git) => Found::Repository(Repository { root, git }),
            Err(reason) => Found::Rejected { root, reason },
        };
    }
    Found::Nothing
}

/// Follows a `.git` file.
fn pointed_at(root: &Path, dot_git: &Path, home: &Path, uid: u32) -> Result<GitDirectory, Rejection> {
    let text = file::read(dot_git, POINTER_CAP, Links::Refuse).map_err(|_| Rejection::Unreadable)?;
    let named = text.strip_prefix(b"gitdir: ").and_then(single_path).ok_or(Rejection::Unreadable)?;
    let missing = || Rejection::Missing { path: root.join(&named) };
    let gitdir = root.join(&named).canonicalize().map_err(|_| missing())?;
    if !gitdir.is_dir() {
        return Err(missing());
    }
    if gitdir.starts_with(root) {
        return if is_repository(&gitdir) {
            Ok(GitDirectory::Inside(gitdir))
        } else {
            Err(Rejection::NotRepository { path: gitdir })
        };
    }
    if home.starts_with(&gitdir) {
        return Err(Rejection::Home { path: gitdir });
    }
    owned(&gitdir, uid)?;

    match file::read(&gitdir.join("gitdir"), POINTER_CAP, Links::Refuse) {
        Ok(back) => worktree(dot_git, gitdir, &back, home, uid),
        Err(error) if error.is_absent() => submodule(root, gitdir),
        Err(_) => Err(Rejection::NotMutual { path: gitdir }),
    }
}

fn worktree(
    dot_git: &Path,
    gitdir: PathBuf,
    back: &[u8],
    home: &Path,
    uid: u32,
) -> Result<GitDirectory, Rejection> {
    // Relative back-pointers exist since git 2.48 (worktree.useRelativePaths).
    let names_us = single_path(back)
        .and_then(|back| canonical_entry(&gitdir.join(back)))
        .is_some_and(|back| back == dot_git);
    if !names_us {
        return Err(Rejection::NotMutual { path: gitdir });
    }
    let common =
        read_pointer(&gitdir.join("commondir")).ok().and_then(|named| gitdir.join(named).canonicalize().ok());
    // `commondir` is in a directory of which we only know that it names us. So `commondir` must lead to the place
    // that git gives to worktrees of that repository.
    let common = common
        .filter(|common| gitdir.parent() == Some(common.join("worktrees").as_path()))
        .ok_or_else(|| Rejection::NotRepository { path: gitdir.clone() })?;
    if home.starts_with(&common) {
        return Err(Rejection::Home { path: common });
    }
    if !is_repository(&common) {
        return Err(Rejection::NotRepository { path: common });
    }
    owned(&common, uid)?;
    Ok(GitDirectory::Worktree { gitdir, common })
}

fn submodule(root: &Path, gitdir: PathBuf) -> Result<GitDirectory, Rejection> {
    if !is_repository(&gitdir) {
        return Err(Rejection::NotRepository { path: gitdir });
    }
    let names_us = file::read(&gitdir.join("config"), CONFIG_CAP, Links::Refuse)
        .ok()
        .and_then(|text| syntax::parse(&text).ok())
        .and_then(|entries| {
            entries.into_iter().rev().find(|entry| {
                entry.section == "core" && entry.subsection.is_none() && entry.key == "worktree"
            })
        })
        .and_then(|entry| entry.value)
        .and_then(|value| gitdir.join(OsStr::from_bytes(&value)).canonicalize().ok())
        .is_some_and(|worktree| worktree == root);
    if !names_us {
        return Err(Rejection::NotMutual { path: gitdir });
    }
    Ok(GitDirectory::Submodule { gitdir })
}

/// Git's conditions for a repository directory (`is_git_directory`), but without the links that git permits there: a
/// link `objects` in a hostile place proves nothing.
fn is_repository(path: &Path) -> bool {
    let kind = |name: &str| {
        rustix::fs::lstat(path.join(name)).map(|stat| FileType::from_raw_mode(stat.st_mode)).ok()
    };
    // HEAD of old repositories is a link to a branch.
    matches!(kind("HEAD"), Some(FileType::RegularFile | FileType::Symlink))
        && kind("objects") == Some(FileType::Directory)
        && kind("refs") == Some(FileType::Directory)
}

fn owned(path: &Path, uid: u32) -> Result<(), Rejection> {
    let owner = rustix::fs::lstat(path).map_err(|_| Rejection::Missing { path: path.to_owned() })?.st_uid;
    if owner == uid { Ok(()) } else { Err(Rejection::Owner { path: path.to_owned(), owner }) }
}

/// The canonical form of a path. Its last component isn't followed.
fn canonical_entry(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    Some(path.parent()?.canonicalize().ok()?.join(name))
}

fn read_pointer(path: &Path) -> Result<PathBuf, FileError> {
    let text = file::read(path, POINTER_CAP, Links::Refuse)?;
    single_path(&text).ok_or_else(|| FileError::NotRegular { path: path.to_owned() })
}

/// A file's content as one path: git strips trailing line breaks only.
fn single_path(text: &[u8]) -> Option<PathBuf> {
    let mut text = text;
    while let [rest @ .., b'\n' | b'\r'] = text {
        text = rest;
    }
    (!text.is_empty() && !text.contains(&0) && !text.contains(&b'\n'))
        .then(|| PathBuf::from(OsStr::from_bytes(text)))
}

#[cfg(test)]
#[path = "worktree_tests.rs"]
mod tests;
