// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes to another user before a launch. A command that escapes the sandbox then has an account that owns none of
//! the caller's files.
//!
//! The whole launcher changes to that user before it reads anything, and cannot change back. It executes itself again,
//! so its home, its policy files and its kept plans are the account's. The kernel lets root do this, and a process with
//! the capabilities `CAP_SETUID` and `CAP_SETGID`, such as a service with `AmbientCapabilities=`.

use palisade_host::account::{self, AccountError, Databases};
use rustix::fs::Access;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_ambient_set, clear_ambient_capability_set,
    set_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variables of the caller's environment that the account gets: they describe the terminal and the language.
const KEPT: [&str; 5] = ["TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ"];
const KEPT_PREFIX: &[u8] = b"LC_";
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why this process can't change to the user.
#[derive(Debug, thiserror::Error)]
pub enum BecomeError {
    /// No such account exists.
    #[error("there is no account {name:?} in /etc/passwd")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// The account is root's.
    #[error("can't launch as {name}: the account is root's")]
    Root {
        /// Its name.
        name: String,
    },
    /// The caller isn't root and hasn't got the capabilities.
    #[error(
        "only root, or a process with CAP_SETUID and CAP_SETGID as ambient capabilities, can launch as {name}"
    )]
    NotRoot {
        /// The account's name.
        name: String,
    },
    /// The accounts can't be read.
    #[error(transparent)]
    Database(#[from] AccountError),
    /// The kernel refuses the change.
    #[error("can't change to user {name}: {source}")]
    Become {
        /// The account's name.
        name: String,
        /// Why.
        source: rustix::io::Errno,
    },
    /// This program can't be executed again.
    #[error("can't start {program:?} as {name}: {source}")]
    Start {
        /// The account's name.
        name: String,
        /// This program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Changes to the user called `name` and executes this program again, as `own` with the arguments that `arguments`
/// gives. Returns if the caller is that user already.
///
/// # Errors
/// When it can't.
pub fn ensure<I>(name: &str, own: &str, arguments: impl FnOnce() -> I) -> Result<(), BecomeError>
where
    I: IntoIterator<Item = OsString>,
{
    let name = name.to_owned();
    let Some((uid, gid, home)) = account::by_name(&name, &Databases::default())? else {
        return Err(BecomeError::Unknown { name });
    };
    if uid == 0 {
        return Err(BecomeError::Root { name });
    }
    let caller = rustix::process::geteuid();
    if caller.as_raw() == uid {
        return Ok(());
    }
    if !caller.is_root() && !has_capabilities() {
        return Err(BecomeError::NotRoot { name });
    }
    let program = std::env::current_exe().unwrap_or_else(|_unknown| PathBuf::from(own));
    let failed = |source| BecomeError::Become { name: name.clone(), source };
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // The process has one thread, so these calls change the whole process. Groups come first: after the change of user
    // the process may not change them. It keeps only the account's own group: supplementary groups are what an account
    // would have in common with other accounts.
    set_thread_groups(&[group]).map_err(failed)?;
    set_thread_res_gid(group, group, group).map_err(failed)?;
    set_thread_res_uid(user, user, user).map_err(failed)?;
    // The kernel takes the capabilities of a process that was root, and of no other.
    clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(failed)?;
    enter(&home);
    let mut anew = Command::new("/proc/self/exe");
    anew.arg0(own).args(arguments()).env_clear();
    let kept =
        |name: &OsStr| KEPT.iter().any(|kept| name == *kept) || name.as_bytes().starts_with(KEPT_PREFIX);
    anew.envs(std::env::vars_os().filter(|(name, _value)| kept(name)));
    anew.env("HOME", &home).env("USER", &name).env("LOGNAME", &name).env("PATH", SYSTEM_PATH);
    Err(BecomeError::Start { name, program, source: anew.exec() })
}

/// Whether the caller gave this process the capabilities. They count only if they are ambient: capabilities of this
/// program's file (`setcap`) would let every user become every account.
fn has_capabilities() -> bool {
    let is_ambient = |capability| capability_is_in_ambient_set(capability) == Ok(true);
    is_ambient(CapabilitySet::SETUID) && is_ambient(CapabilitySet::SETGID)
}

/// Stays in the working directory if the account can read it, else changes to the account's home, else to `/`.
fn enter(home: &Path) {
    if rustix::fs::access(".", Access::READ_OK | Access::EXEC_OK).is_err() {
        let _or_there = rustix::process::chdir(home).or_else(|_| rustix::process::chdir("/"));
    }
}
