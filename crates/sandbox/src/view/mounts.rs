// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protects names by mounts: existing files with protected names are mounted read-only.
//!
//! This costs nothing while the command runs, but is incomplete: a name that doesn't exist can be made, and if a
//! program of the host saves a file by a rename, the mount disappears. The directories that hold such names are mounts,
//! too, so that the command can't rename them.

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::plan::repository;
use crate::view::USERS;
use crate::view::tree::{Show, Tree};
use palisade_host::walk::{self, FileKind, Visit};
use palisade_policy::decide::EffectivePath;
use palisade_policy::names::{Content, NameRules, NameStatus};
use palisade_policy::resolve::Resolved;
use palisade_policy::{Grant, Policy};
use palisade_text::Show as _;
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) fn protect(
    tree: &mut Tree<'_>,
    facts: &Facts,
    policy: &Policy,
    resolved: &Resolved,
    paths: &[EffectivePath],
    mapped: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    let names = policy.names();
    let anchored = NameRules::new(resolved.protected_paths());
    if names.is_empty() && anchored.is_empty() {
        return Ok(());
    }
    for path in paths {
        let Grant::Allowed { write: true, execute } = path.grant else { continue };
        if facts.kind(&path.source) != Kind::Directory {
            continue;
        }
        // The existing names must be looked up at every launch.
        facts.set_volatile();
        let root = path.source.components().count().saturating_sub(1);
        let inside = |host: &Path| match host.strip_prefix(&path.source) {
            Ok(rest) => path.destination.join(rest),
            Err(_outside) => host.to_owned(),
        };
        let mut holders: Vec<PathBuf> = Vec::new();
        let visit = |host: &Path, kind: FileKind| {
            let path = host.as_os_str().as_bytes();
            let in_repository =
                || names.judge_in_repositories(path, root, |above| repository::is_above(host, above)).status;
            let status = match names.judge(path, root) {
                NameStatus::Free => match anchored.judge(inside(host).as_os_str().as_bytes(), 0) {
                    NameStatus::Free => in_repository(),
                    other => other,
                },
                other => other,
            };
            match (status, kind) {
                (NameStatus::Protected(_), _) => Visit::Match,
                // A file in place of a directory names another directory.
                (NameStatus::Holder(rule), FileKind::File) if rule.content == Content::Directory => {
                    Visit::Match
                }
                (NameStatus::Holder(_), FileKind::Directory) => {
                    holders.push(host.to_owned());
                    Visit::Descend
                }
                (_, FileKind::Directory) => Visit::Descend,
                _ => Visit::Skip,
            }
        };
        let found = walk::walk(&path.source, walk::DEFAULT_LIMIT, visit)
            .map_err(|source| PlanError::Walk { rule: Box::new(path.rule.clone()), source })?;
        // A tree that the caller states may hide a part of what lies in another part.
        let is_shown = |tree: &Tree<'_>, host: &Path| {
            facts.arrangement().is_none()
                || tree.host_path(&tree.resolve(&inside(host))).as_deref() == Some(host)
        };
        let pinned = Show { write: true, execute, map_owners: mapped, ..USERS };
        for holder in holders {
            if !is_shown(tree, &holder) {
                continue;
            }
            tree.show(&holder, &inside(&holder), pinned)?;
        }
        let kept = Show { execute, renewed: true, map_owners: mapped, ..USERS };
        for host in found.matches {
            if !is_shown(tree, &host) {
                continue;
            }
            if host.is_symlink() {
                notes.push(Cow::Owned(format!("{} is a link: a mount can't protect it", host.shown())));
                continue;
            }
            tree.show(&host, &inside(&host), kept)?;
        }
    }
    Ok(())
}
