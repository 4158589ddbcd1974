// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps protected paths of a home that outlives the launch: a program's own settings and hooks, which the program obeys
//! at its next start. The broker doesn't judge such a home, because no program outside obeys files in it.
//!
//! Each path is mounted read-only onto itself, and the directories above it are mounts, too: a mount point can't be
//! renamed or removed. A path that doesn't exist is made first, or else the program could make it.

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::view::tree::{Show, Tree};
use crate::view::{USERS, mount_point};
use palisade_policy::decide::Protected;
use palisade_policy::resolve::Resolved;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Mounts the protected paths of the home whose files are in `kept`.
pub(crate) fn protect(
    tree: &mut Tree<'_>,
    facts: &Facts,
    resolved: &Resolved,
    kept: &Path,
    mapped: bool,
) -> Result<(), PlanError> {
    let home = &facts.account.home;
    let below = |protected: Protected| match protected {
        Protected::Path(path, _rule) => path.strip_prefix(home).ok().map(Path::to_owned),
        Protected::Glob(_) => None,
    };
    let all: BTreeSet<PathBuf> = resolved.protected().into_iter().filter_map(below).collect();
    let named = |path: &&PathBuf| {
        !path.as_os_str().is_empty() && !path.ancestors().skip(1).any(|above| all.contains(above))
    };
    let paths: Vec<&PathBuf> = all.iter().filter(named).collect();
    for path in &paths {
        make(facts, kept, path)?;
    }
    // A shallow directory comes before those in it.
    let above: BTreeSet<&Path> = paths
        .iter()
        .flat_map(|path| path.ancestors().skip(1))
        .filter(|above| !above.as_os_str().is_empty())
        .collect();
    let pinned = Show { write: true, execute: true, map_owners: mapped, ..USERS };
    for directory in above {
        tree.show(&kept.join(directory), &home.join(directory), pinned)?;
    }
    for path in paths {
        tree.show(&kept.join(path), &home.join(path), Show { execute: true, map_owners: mapped, ..USERS })?;
    }
    Ok(())
}

/// Makes a path in the home, if it is missing.
fn make(facts: &Facts, kept: &Path, path: &Path) -> Result<(), PlanError> {
    let host = kept.join(path);
    let file = match host.symlink_metadata() {
        Ok(found) => !found.is_dir(),
        Err(_missing) => is_file(path),
    };
    let inside = || facts.account.home.join(path);
    if let Some(found) = mount_point::in_the_way(&[kept.to_owned()], &host, file) {
        return Err(PlanError::InTheWay { path: inside(), found, file });
    }
    let made = if host.symlink_metadata().is_ok() {
        true
    } else if file {
        mount_point::make_file(kept, &host, nothing(path))
    } else {
        mount_point::make(&[kept.to_owned()], &host, false)
    };
    facts.depends_on(&host, false);
    if made && facts.kind(&host) != Kind::Missing {
        Ok(())
    } else {
        Err(PlanError::NoMountPoint { path: inside(), host })
    }
}

/// Whether a missing path is meant for a file: its name has an ending.
fn is_file(path: &Path) -> bool {
    path.extension().is_some()
}

/// The content of a settings file that states nothing: some programs refuse an empty one.
fn nothing(path: &Path) -> &'static [u8] {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json" | "jsonc" | "yml" | "yaml") => b"{}\n",
        _ => b"",
    }
}
