// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes plans for the system store on behalf of a user.

use super::{STORE, is_there, plans_of, unpacked};
use crate::plan::cache::Cache;
use palisade_host::account::{self, AccountError, Databases};
use palisade_host::environment::Environment;
use palisade_sys::fork::{self, User};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The largest plan.
const LARGEST: u64 = 16 << 20;
/// `PATH` after a login, if nothing else sets it.
const LOGIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";

/// Why plans can't be made for a user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The system store doesn't exist.
    #[error("there is no system's store of plans")]
    NoStore,
    /// No such account exists, or it is root's.
    #[error("there is no ordinary account {name:?} in /etc/passwd")]
    NoAccount {
        /// Its name.
        name: String,
    },
    /// The accounts can't be read.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The variables of the user's process can't be read.
    #[error("can't read {path:?}: {source}")]
    Variables {
        /// The file with the variables.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// A user for whom plans are made.
#[derive(Debug)]
pub struct ForUser(User);

/// The number of a plan's steps, and its [`packed`](super::packed) form if it may be kept.
pub type Made = (usize, Option<Vec<u8>>);

impl ForUser {
    /// The user called `name`, with the variables of process `like`, or with those of a login.
    ///
    /// # Errors
    /// When the store, the ordinary account, or the user's process doesn't exist.
    pub fn new(name: &str, like: Option<u32>) -> Result<Self, UserError> {
        if !is_there() {
            return Err(UserError::NoStore);
        }
        let databases = Databases::default();
        let unknown = || UserError::NoAccount { name: name.to_owned() };
        let (uid, gid, home) = account::by_name(name, &databases)?.ok_or_else(unknown)?;
        if uid == 0 {
            return Err(unknown());
        }
        let environment = match like {
            Some(pid) => variables_of(pid, uid)?,
            None => login(name, uid, &home),
        };
        let groups = groups(uid, gid, &databases, &home)?;
        Ok(Self(User { uid, gid, groups, environment }))
    }

    /// The user's plans.
    #[must_use]
    pub fn cache(&self) -> Cache {
        plans_of(self.0.uid)
    }

    /// Makes a plan by `make` in a process of the user, and keeps it if `keep` is set. Returns the number of its steps,
    /// and whether it is kept.
    ///
    /// # Errors
    /// Why it isn't made or kept: the error of `make`, or the end of the process.
    pub fn plan(
        &self,
        keep: bool,
        make: impl FnOnce() -> Result<Made, String>,
    ) -> Result<(usize, bool), String> {
        const DONE: u8 = 0;
        const FAILED: u8 = 1;
        let work = || match make() {
            Ok((steps, packed)) => {
                let mut said = vec![DONE];
                said.extend_from_slice(&(steps as u64).to_le_bytes());
                said.extend(packed.unwrap_or_default());
                said
            }
            Err(error) => [&[FAILED][..], error.as_bytes()].concat(),
        };
        let said = fork::as_user(&self.0, LARGEST, work).map_err(|error| error.to_string())?;
        match said.split_first() {
            Some((&DONE, rest)) => {
                let (steps, packed) =
                    rest.split_first_chunk::<8>().ok_or("the process sent an incomplete answer")?;
                let steps = usize::try_from(u64::from_le_bytes(*steps)).unwrap_or(0);
                let Some((key, body)) = unpacked(packed).filter(|_| keep) else {
                    return Ok((steps, false));
                };
                let kept = self.cache().put(&key, body);
                kept.map_err(|errno| format!("can't write below {STORE}: {errno}"))?;
                Ok((steps, true))
            }
            Some((_failed, why)) => Err(String::from_utf8_lossy(why).into_owned()),
            None => Err("the process sent no answer".to_owned()),
        }
    }
}

fn groups(uid: u32, gid: u32, databases: &Databases, home: &Path) -> Result<Vec<u32>, AccountError> {
    let environment = Environment::from_iter([("HOME", home)]);
    let account = account::lookup(uid, gid, databases, &environment)?;
    Ok(account.groups.iter().map(|group| group.gid).collect())
}

/// The variables of a login.
fn login(name: &str, uid: u32, home: &Path) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("HOME".into(), home.into()),
        ("USER".into(), name.into()),
        ("LOGNAME".into(), name.into()),
        ("PATH".into(), LOGIN_PATH.into()),
    ];
    let runtime = PathBuf::from(format!("/run/user/{uid}"));
    if runtime.is_dir() {
        variables.push(("XDG_RUNTIME_DIR".into(), runtime.into()));
    }
    variables
}

/// The variables of one of the user's processes.
fn variables_of(pid: u32, uid: u32) -> Result<Vec<(OsString, OsString)>, UserError> {
    let path = PathBuf::from(format!("/proc/{pid}/environ"));
    let failed = |source| UserError::Variables { path: path.clone(), source };
    let owner = std::fs::metadata(path.with_file_name("")).map_err(failed)?.uid();
    if owner != uid {
        return Err(failed(std::io::Error::other(format!("process {pid} belongs to user {owner}"))));
    }
    let bytes = std::fs::read(&path).map_err(failed)?;
    let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((OsStr::from_bytes(&pair[..at]).to_owned(), OsStr::from_bytes(&pair[at + 1..]).to_owned()))
    });
    Ok(pairs.collect())
}
