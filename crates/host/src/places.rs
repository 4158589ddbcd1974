// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the places of Palisade's own files, and checks whether they can be trusted.
//!
//! A policy file that another user may write can't be trusted. Before a layer is read, the file and every directory
//! above it must belong to root or to the user, and no other user may be able to write to them.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use crate::environment::Environment;

/// The administrator's layer.
pub const ADMINISTRATOR: &str = "/etc/palisade";
/// The distribution's layer.
pub const DISTRIBUTION: &str = "/usr/share/palisade";
/// The project's file, looked for in the working directory and above.
pub const PROJECT_FILE: &str = ".palisade.toml";
/// The store of refusals, in the state directory.
const EVENTS: &str = "events.sqlite";
/// The store of learned system calls, in the state directory.
const SYSCALLS: &str = "syscalls.sqlite";
/// The store of typed lines, in the state directory.
const HISTORY: &str = "history.sqlite";

/// Directories by the XDG Base Directory Specification, each ending in `palisade`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The user's policy and profiles: `$XDG_CONFIG_HOME`, else `~/.config`.
    pub config: PathBuf,
    /// Plans, which can be made again: `$XDG_CACHE_HOME`, else `~/.cache`.
    pub cache: PathBuf,
    /// Approvals, histories, homes of sandboxes: `$XDG_STATE_HOME`, else `~/.local/state`.
    pub state: PathBuf,
    /// Files that the user made or installed: `$XDG_DATA_HOME`, else `~/.local/share`.
    pub data: PathBuf,
    /// Sockets, and the list of running sandboxes: `$XDG_RUNTIME_DIR`, else `/tmp/palisade-UID`.
    pub runtime: PathBuf,
    /// Runtime directories of this user's launches in other environments, whose variables have other values.
    pub other_runtimes: Vec<PathBuf>,
    /// [`ADMINISTRATOR`].
    pub administrator: PathBuf,
    /// [`DISTRIBUTION`].
    pub distribution: PathBuf,
}

impl Places {
    /// Computes the places for a user with this home and environment; touches no file.
    #[must_use]
    pub fn new(home: &Path, uid: u32, environment: &Environment) -> Self {
        let own = |name: &str, fallback: &str| {
            environment.absolute(name).map_or_else(|| home.join(fallback), Path::to_path_buf).join("palisade")
        };
        let usual = runtimes(uid);
        let runtime = environment.absolute("XDG_RUNTIME_DIR").map(|directory| directory.join("palisade"));
        let runtime = runtime.unwrap_or_else(|| without_session(uid));
        Self {
            config: own("XDG_CONFIG_HOME", ".config"),
            cache: own("XDG_CACHE_HOME", ".cache"),
            state: own("XDG_STATE_HOME", ".local/state"),
            data: own("XDG_DATA_HOME", ".local/share"),
            other_runtimes: usual.into_iter().filter(|other| *other != runtime).collect(),
            runtime,
            administrator: PathBuf::from(ADMINISTRATOR),
            distribution: PathBuf::from(DISTRIBUTION),
        }
    }

    /// The store of refusals.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.state.join(EVENTS)
    }

    /// The store of learned system calls.
    #[must_use]
    pub fn syscalls(&self) -> PathBuf {
        self.state.join(SYSCALLS)
    }

    /// The store of typed lines.
    #[must_use]
    pub fn history(&self) -> PathBuf {
        self.state.join(HISTORY)
    }

    /// All directories, so that a sandbox can be kept from writing to them.
    #[must_use]
    pub fn all(&self) -> Vec<&Path> {
        self.own().chain([self.administrator.as_path(), &self.distribution]).collect()
    }

    /// All directories that belong to this user.
    pub fn own(&self) -> impl Iterator<Item = &Path> {
        [&self.config, &self.cache, &self.state, &self.data]
            .into_iter()
            .map(PathBuf::as_path)
            .chain(self.runtimes())
    }

    /// The runtime directories of this user's launches. The first one is that of this environment.
    pub fn runtimes(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.runtime).chain(&self.other_runtimes).map(PathBuf::as_path)
    }
}

/// The runtime directory of a user without a session. It stays after logout, and any user can have made it: the code
/// that uses it must check its owner.
#[must_use]
pub fn without_session(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/palisade-{uid}"))
}

/// The runtime directories of a user whose environment is unknown.
#[must_use]
pub fn runtimes(uid: u32) -> [PathBuf; 2] {
    [PathBuf::from(format!("/run/user/{uid}/palisade")), without_session(uid)]
}

/// The project's file that applies to `cwd`: the nearest one upwards, but not in or above `home` (a file in `home`
/// would apply to everything below) and never in `/`.
#[must_use]
pub fn project_file(cwd: &Path, home: &Path) -> Option<PathBuf> {
    cwd.ancestors()
        .take_while(|directory| *directory != home && directory.parent().is_some())
        .map(|directory| directory.join(PROJECT_FILE))
        .find(|file| rustix::fs::lstat(file).is_ok())
}

/// The user and group that are trusted, in addition to root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trustee {
    /// The user; root is trusted, too.
    pub uid: u32,
    /// The user's own group if it has no other member, see
    /// [`Account::private_group`](crate::account::Account::private_group).
    pub private_group: Option<u32>,
}

/// Owner and permissions of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// File type and permission bits (`st_mode`).
    pub mode: u32,
}

impl From<&Stat> for Permissions {
    fn from(stat: &Stat) -> Self {
        Self { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode }
    }
}

/// Why a path's content isn't trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It belongs to another user.
    #[error("it belongs to user {uid}")]
    Owner {
        /// The owner.
        uid: u32,
    },
    /// A group that may have other members can write to it.
    #[error("group {gid} may write to it (mode {mode:04o})")]
    GroupWritable {
        /// The group.
        gid: u32,
        /// The permission bits.
        mode: u32,
    },
    /// Every user can write to it.
    #[error("everybody may write to it (mode {mode:04o})")]
    WorldWritable {
        /// The permission bits.
        mode: u32,
    },
}

/// Judges one path by its owner and mode. A directory with the sticky bit (`/tmp`) may be writable by other users:
/// they can't rename or remove files of others in it. This applies only to an *ancestor*: pass `ancestor` false for
/// the file itself.
///
/// # Errors
/// The [`Distrust`] found.
pub fn judge(path: Permissions, trustee: Trustee, ancestor: bool) -> Result<(), Distrust> {
    if path.uid != 0 && path.uid != trustee.uid {
        return Err(Distrust::Owner { uid: path.uid });
    }
    let directory = FileType::from_raw_mode(path.mode) == FileType::Directory;
    if ancestor && directory && path.mode & 0o1000 != 0 {
        return Ok(());
    }
    let mode = path.mode & 0o7777;
    if mode & 0o002 != 0 {
        return Err(Distrust::WorldWritable { mode });
    }
    if mode & 0o020 != 0 && path.gid != 0 && trustee.private_group != Some(path.gid) {
        return Err(Distrust::GroupWritable { gid: path.gid, mode });
    }
    Ok(())
}

/// Why a path failed [`check`].
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The path, or one above it, can't be examined.
    #[error("can't examine {path}: {source}")]
    Examine {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Other users may change the path, or one above it.
    #[error("{path} isn't trusted: {reason}")]
    Distrusted {
        /// The path that is the reason: the file or a directory above it.
        path: PathBuf,
        /// Why.
        reason: Distrust,
    },
}

/// Checks that only root and the user can change what `path` leads to: the file behind all links, and every directory
/// above it. Returns the real path; read that one. (This also covers links along the path: a user who can change a
/// link can make it lead to another file, but only a file of the user's or root's passes this check.)
///
/// # Errors
/// [`TrustError`] with the offending path.
pub fn check(path: &Path, trustee: Trustee) -> Result<PathBuf, TrustError> {
    let real = path.canonicalize().map_err(|source| TrustError::Examine { path: path.to_owned(), source })?;
    for (depth, part) in real.ancestors().enumerate() {
        let stat = rustix::fs::lstat(part)
            .map_err(|source| TrustError::Examine { path: part.to_owned(), source: source.into() })?;
        judge(Permissions::from(&stat), trustee, depth > 0)
            .map_err(|reason| TrustError::Distrusted { path: part.to_owned(), reason })?;
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn places_follow_xdg() {
        let plain = Places::new(Path::new("/home/a"), 7, &Environment::empty());
        assert_eq!(plain.config, Path::new("/home/a/.config/palisade"));
        assert_eq!(plain.state, Path::new("/home/a/.local/state/palisade"));
        assert_eq!(plain.events(), Path::new("/home/a/.local/state/palisade/events.sqlite"));
        assert_eq!(plain.runtime, Path::new("/tmp/palisade-7"));
        assert_eq!(plain.other_runtimes, [Path::new("/run/user/7/palisade")]);
        let environment = Environment::from_iter([
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_CACHE_HOME", "relative"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
        ]);
        let set = Places::new(Path::new("/home/a"), 7, &environment);
        assert_eq!(set.config, Path::new("/c/palisade"));
        assert_eq!(set.cache, Path::new("/home/a/.cache/palisade"));
        let runtimes: Vec<_> = set.runtimes().collect();
        assert_eq!(
            runtimes,
            ["/run/user/1/palisade", "/run/user/7/palisade", "/tmp/palisade-7"].map(Path::new)
        );
        assert_eq!(set.all().len(), 9);
    }

    #[test]
    fn the_truth_table_of_trust() {
        const FILE: u32 = 0o100_000;
        const DIRECTORY: u32 = 0o040_000;
        let us = Trustee { uid: 1000, private_group: Some(1000) };
        let judge = |uid, gid, mode, ancestor| judge(Permissions { uid, gid, mode }, us, ancestor);
        assert_eq!(judge(1000, 1000, FILE | 0o644, false), Ok(()));
        assert_eq!(judge(0, 0, FILE | 0o644, false), Ok(()));
        assert_eq!(judge(1000, 1000, FILE | 0o664, false), Ok(()), "umask 002");
        assert_eq!(judge(1001, 1001, FILE | 0o600, false), Err(Distrust::Owner { uid: 1001 }));
        assert!(judge(1000, 100, FILE | 0o664, false).is_err());
        assert!(judge(1000, 1000, FILE | 0o646, false).is_err());
        assert!(judge(0, 0, DIRECTORY | 0o1777, true).is_ok(), "/tmp above");
        assert!(judge(0, 0, DIRECTORY | 0o1777, false).is_err());
        assert!(judge(0, 0, DIRECTORY | 0o777, true).is_err());
    }

    #[test]
    fn a_writable_directory_above_spoils_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("sub");
        fs::create_dir(&sub).unwrap();
        let file = sub.join("policy");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&sub, fs::Permissions::from_mode(0o700)).unwrap();
        let us = Trustee { uid: rustix::process::geteuid().as_raw(), private_group: None };
        assert_eq!(check(&file, us).unwrap(), file.canonicalize().unwrap());
        fs::set_permissions(&sub, fs::Permissions::from_mode(0o777)).unwrap();
        match check(&file, us) {
            Err(TrustError::Distrusted { path, .. }) => {
                assert_eq!(path, sub.canonicalize().unwrap());
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_nearest_project_file_but_not_the_homes() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let deep = home.join("project/a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(home.join(PROJECT_FILE), "").unwrap();
        assert_eq!(project_file(&deep, &home), None);
        let file = home.join("project").join(PROJECT_FILE);
        fs::write(&file, "").unwrap();
        assert_eq!(project_file(&deep, &home), Some(file));
        assert_eq!(project_file(&home, &home), None);
    }
}
