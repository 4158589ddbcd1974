// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pins directories: in writable trees the directories above a path with a rule keep their names.
//!
//! The next launch looks paths up again. If the command of this launch had moved `conf` away, a mask over
//! `conf/secret.key` would then cover nothing, and a grant of `conf/out` would show what the command has put there.

use super::grants::{Anchor, Grants};
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::view::USERS;
use crate::view::tree::{Show, Tree};
use palisade_policy::Grant;
use palisade_policy::decide::EffectivePath;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directories to pin in `path`, if it is writable. Each is a path inside, with the path that it is pinned for.
/// Paths of few components come first.
pub(super) fn below(facts: &Facts, path: &EffectivePath, grants: &Grants) -> BTreeMap<PathBuf, PathBuf> {
    let mut pins = BTreeMap::new();
    if !matches!(path.grant, Grant::Allowed { write: true, .. }) {
        return pins;
    }
    let Some(root) = facts.canonical(&path.source) else { return pins };
    let shown = shown(path, &root);
    for Anchor { source, destination, itself, pattern } in &grants.anchors {
        let kept = match pattern {
            // A `**` at the beginning finds a match again after directories above its named part have moved within this tree.
            Some(found) if root.starts_with(&found.base) => found.named,
            // In a larger tree they could be moved out of the pattern's reach.
            _ => usize::MAX,
        };
        let mut add = |rest: &Path| {
            let directories = rest.ancestors().skip(usize::from(!itself)).take(kept);
            for directory in directories.filter(|directory| !directory.as_os_str().is_empty()) {
                let host = root.join(directory);
                // A link can't be a mount point, and isn't part of the path to its target.
                if facts.canonical(&host).as_ref() == Some(&host) && facts.kind(&host) == Kind::Directory {
                    pins.entry(shown.join(directory)).or_insert_with(|| destination.clone());
                }
            }
        };
        if let Ok(rest) = destination.strip_prefix(shown) {
            add(rest);
        }
        // A path that is shown at another place is looked up at this one.
        if let Ok(rest) = source.strip_prefix(&root) {
            add(rest);
        }
    }
    pins
}

/// The path inside of a path that leads to `root`: a link of the host is a link inside, too.
fn shown<'p>(path: &'p EffectivePath, root: &'p Path) -> &'p Path {
    if path.source == path.destination { root } else { &path.destination }
}

/// Makes these directories mounts of their own, right after the mount that they lie in: a mount point can't be renamed.
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
