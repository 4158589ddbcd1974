// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a file tree with a package's files in place of the system's, and with the host's files that describe it and
//! its users.

use super::{PACKED, READ_BY_ALL, RESOLVER, Unpacked, is_packed};
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::view::USERS;
use crate::view::tree::Tree;
use palisade_host::walk::WalkError;
use palisade_policy::decide::EffectivePath;
use palisade_policy::{EffectiveGlob, Grant, NetworkMode};
use std::path::{Path, PathBuf};

/// Files of the kernel that libraries read in every program.
const PROCESSORS: [&str; 3] =
    ["/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible", "/sys/devices/system/cpu/present"];

/// Shows a package's files, and the host's files that every program reads.
pub(crate) fn compose(
    tree: &mut Tree<'_>,
    facts: &Facts,
    package: &Unpacked,
    network: NetworkMode,
) -> Result<(), PlanError> {
    for directory in ["/usr", "/etc", "/var", "/sys", "/mnt"] {
        tree.directory(Path::new(directory), 0o755)?;
    }
    for inside in PACKED {
        let (host, inside) = (package.host(Path::new(inside)), Path::new(inside));
        match host.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                if let Ok(target) = std::fs::read_link(&host) {
                    tree.symlink(inside, &target)?;
                }
            }
            Ok(_) => tree.show(&host, inside, USERS)?,
            Err(_not_in_it) => {}
        }
    }
    tree.symlink(Path::new("/var/run"), Path::new("../run"))?;
    if !facts.cwd.starts_with("/var/tmp") {
        tree.symlink(Path::new("/var/tmp"), Path::new("../tmp"))?;
    }
    let resolver = (network == NetworkMode::Host).then_some(RESOLVER);
    for path in READ_BY_ALL.into_iter().chain(resolver).chain(PROCESSORS) {
        // Shown under its own name, wherever the file really is: the target of a link may be missing inside.
        if let Some(real) = facts.canonical(Path::new(path))
            && facts.kind(&real) == Kind::Other
        {
            tree.show(&real, Path::new(path), USERS)?;
        }
    }
    Ok(())
}

/// A rule's path in the tree of a package: `None` if it is visible already, or doesn't exist.
pub(crate) fn placed(package: &Unpacked, path: EffectivePath) -> Option<EffectivePath> {
    if !is_packed(&path.source) || !matches!(path.grant, Grant::Allowed { .. }) {
        return Some(path);
    }
    let source = package.host(&path.source);
    let moved = path.source != path.destination && source.symlink_metadata().is_ok();
    // A package's files are never writable, whatever a rule says.
    let grant = match path.grant {
        Grant::Allowed { execute, .. } => Grant::Allowed { write: false, execute },
        other => other,
    };
    moved.then_some(EffectivePath { source, grant, ..path })
}

/// The matches of a pattern in a package, by their paths inside.
pub(crate) fn look_up(
    facts: &Facts,
    package: &Unpacked,
    glob: &EffectiveGlob,
) -> Result<Vec<PathBuf>, WalkError> {
    let base = package.host(&glob.base);
    let found = facts.look_up(&base, glob.depth(), |path| glob.matches(&package.inside(path)))?;
    Ok(found.into_iter().map(|path| package.inside(&path)).collect())
}
