// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Directories that keep their names: those above what the policy speaks of, in what may be written to.
//!
//! The next launch looks paths up again. Had the command of this one moved `conf` away, a mask over `conf/secret.key`
//! would cover nothing then, and a grant of `conf/out` would be whatever the command has put there.

use super::grants::{Anchor, Grants};
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::view::USERS;
use crate::view::tree::{Show, Tree};
use palisade_policy::Grant;
use palisade_policy::decide::EffectivePath;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directories, by their paths inside, that lie in `path`, which may be written to, each with the path that it is
/// pinned for. Shallow to deep.
pub(super) fn below(facts: &Facts, path: &EffectivePath, grants: &Grants) -> BTreeMap<PathBuf, PathBuf> {
    let mut pins = BTreeMap::new();
    if !matches!(path.grant, Grant::Allowed { write: true, .. }) {
        return pins;
    }
    let Some(root) = facts.canonical(&path.source) else { return pins };
    let shown = shown(path, &root);
    for Anchor { source, destination, itself, pattern } in &grants.anchors {
        let kept = match pattern {
            // A `**` at the beginning finds the others wherever they are in this tree.
            Some(found) if root.starts_with(&found.base) => found.named,
            // In a larger tree they could be moved to where the pattern doesn't look.
            _ => usize::MAX,
        };
        let mut add = |rest: &Path| {
            let directories = rest.ancestors().skip(usize::from(!itself)).take(kept);
            for directory in directories.filter(|directory| !directory.as_os_str().is_empty()) {
                let host = root.join(directory);
                // A link can't be a mount point, and is no part of the way to what it leads to.
                if facts.canonical(&host).as_ref() == Some(&host) && facts.kind(&host) == Kind::Directory {
                    pins.entry(shown.join(directory)).or_insert_with(|| destination.clone());
                }
            }
        };
        if let Ok(rest) = destination.strip_prefix(shown) {
            add(rest);
        }
        // What is shown elsewhere is looked up here.
        if let Ok(rest) = source.strip_prefix(&root) {
            add(rest);
        }
    }
    pins
}

/// Where a path that leads to `root` shows inside: a link of the host's is a link there, too.
fn shown<'p>(path: &'p EffectivePath, root: &'p Path) -> &'p Path {
    if path.source == path.destination { root } else { &path.destination }
}

/// Makes them mounts of their own, which nobody can rename, right after the mount that they lie in.
pub(super) fn mount(
    tree: &mut Tree<'_>,
    facts: &Facts,
    path: &EffectivePath,
    pins: &BTreeMap<PathBuf, PathBuf>,
    mapped: bool,
) -> Result<(), PlanError> {
    let Grant::Allowed { write: true, execute } = path.grant else { return Ok(()) };
    let Some(root) = facts.canonical(&path.source) else { return Ok(()) };
    let show = Show { write: true, execute, map_owners: mapped, ..USERS };
    for pin in pins.keys() {
        let rest = pin.strip_prefix(shown(path, &root)).unwrap_or(pin);
        tree.show(&root.join(rest), pin, show)?;
    }
    Ok(())
}
