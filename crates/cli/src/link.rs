// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links to this program, and small files beside them, which are made and removed. A file that somebody else has put
//! there stays.

use crate::hook_error::HookError;
use palisade_host::account::{self, Databases};
use palisade_host::environment::Environment;
use palisade_host::places::{self, TrustError, Trustee};
use palisade_settings::Loaded;
use std::ffi::OsStr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// This program's file.
pub(crate) fn myself() -> Result<PathBuf, HookError> {
    let path = std::env::current_exe().and_then(|path| path.canonicalize());
    path.map_err(|source| HookError::Myself { source })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> HookError {
    let path = path.to_owned();
    move |source| HookError::Write { action, path, source }
}

/// Makes a directory that only this user can write to.
pub(crate) fn make_directory(path: &Path) -> Result<(), HookError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(failed("make directory", path))?;
    check_trust(path)?;
    Ok(())
}

/// Checks that nobody else can change what a path leads to.
pub(crate) fn check_trust(path: &Path) -> Result<(), TrustError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let check = |private_group| places::check(path, Trustee { uid, private_group }).map(|_real| ());
    check(None).or_else(|error| {
        // Only now does it matter whether the group has other members: its file is read at each launch otherwise.
        let environment = Environment::from_iter(std::env::vars_os());
        let account = account::lookup(uid, gid, &Databases::default(), &environment).ok();
        match account.filter(|account| account.private_group) {
            Some(account) => check(Some(account.gid)),
            None => Err(error),
        }
    })
}

/// Where a link leads. `None`: nothing is there. Another file is in the way.
fn target(path: &Path) -> Result<Option<PathBuf>, HookError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed("examine", path)(source)),
        Ok(found) if found.is_symlink() => {
            std::fs::read_link(path).map(Some).map_err(failed("read the link", path))
        }
        Ok(_other) => Err(HookError::InTheWay { path: path.to_owned() }),
    }
}

/// Whether a link can be made: nothing is there, or a link to a file named as this program is.
pub(crate) fn check(path: &Path) -> Result<(), HookError> {
    let is_ours = |target: PathBuf| target.file_name() == Some(OsStr::new(env!("CARGO_BIN_NAME")));
    match target(path)? {
        Some(target) if !is_ours(target.clone()) && target != myself()? => {
            Err(HookError::InTheWay { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Makes a link to this program. Returns whether it wasn't there.
pub(crate) fn make(path: &Path) -> Result<bool, HookError> {
    check(path)?;
    let myself = myself()?;
    if target(path)?.as_ref() == Some(&myself) {
        return Ok(false);
    }
    let temporary = path.with_file_name(".palisade-new");
    let _left_by_a_killed_process = std::fs::remove_file(&temporary);
    std::os::unix::fs::symlink(&myself, &temporary).map_err(failed("make link", path))?;
    std::fs::rename(&temporary, path).map_err(failed("make link", path))?;
    Ok(true)
}

/// Removes a link that was made. Returns whether it was there.
pub(crate) fn remove(path: &Path) -> Result<bool, HookError> {
    check(path)?;
    remove_file(path)
}

/// Removes a file that was made. Returns whether it was there.
pub(crate) fn remove_file(path: &Path) -> Result<bool, HookError> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            Ok(false)
        }
        Err(source) => Err(failed("remove", path)(source)),
    }
}

/// Writes a program. Returns whether it was another one.
pub(crate) fn write_program(path: &Path, text: &str) -> Result<bool, HookError> {
    let loaded = Loaded::read(path)?;
    if loaded.content.as_deref() == Some(text.as_bytes()) {
        return Ok(false);
    }
    loaded.replace(text.as_bytes(), 0o700)?;
    Ok(true)
}

/// Removes directories that are empty, in this order.
pub(crate) fn remove_empty(directories: &[&Path]) {
    for directory in directories {
        let _not_empty = std::fs::remove_dir(directory);
    }
}
