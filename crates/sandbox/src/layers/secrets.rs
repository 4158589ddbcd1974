// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the files that hold secrets in what a launch shows of the user's projects, and hides them
//! (`filesystem.secrets = "hide"`).
//!
//! A file that git tracks is denied: as an empty file, git would take it for changed, and a commit would empty it. What a
//! user's own rule names, or its pattern finds, stays as that rule says.

use crate::facts::{Facts, Kind};
use crate::view;
use palisade_host::file::{self, Links};
use palisade_host::git_index;
use palisade_host::walk::WalkError;
use palisade_policy::resolve::Resolved;
use palisade_policy::secrets::{self, LARGEST, SKIPPED};
use palisade_policy::word::{Secrets, Switch};
use palisade_policy::{Access, Context, Grant, Layer, LayerPolicy, Policy};
use palisade_text::Show as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many files a note names.
const NAMED: usize = 3;

/// The rules about such files, and notes for the user. `None`: the policy shows secrets, or there are none.
///
/// # Errors
/// When a directory has too many files, or is changed all the time: no secret is shown unseen.
pub(super) fn rules(
    facts: &Facts,
    policy: &Policy,
    context: &Context,
) -> Result<Option<(LayerPolicy, Vec<String>)>, WalkError> {
    let stated = policy.secrets();
    if stated.value == Secrets::Show || facts.package().is_some() || facts.arrangement().is_some() {
        return Ok(None);
    }
    // What is wrong with the rules is reported when the launch is planned.
    let Ok(resolved) = policy.resolve(context) else { return Ok(None) };
    let mut files = BTreeSet::new();
    for top in tops(facts, policy, &resolved) {
        files.extend(find(facts, &top)?.into_iter().filter(|path| is_shown(&resolved, path)));
    }
    let mut trees = BTreeMap::new();
    let mut layer = LayerPolicy { file: stated.origin.file.clone(), ..LayerPolicy::command_line() };
    let (mut hidden, mut denied) = (Vec::new(), Vec::new());
    for path in files {
        let (access, named) = match is_tracked(&path, &mut trees) {
            true => (Access::Deny, &mut denied),
            false => (Access::Hide, &mut hidden),
        };
        // No rule can be about a path that is too long to be opened.
        if layer.add_exactly(access, &path, stated.origin.line).is_ok() {
            named.push(path);
        }
    }
    let notes: Vec<String> = [(&hidden, "hidden"), (&denied, "denied, because git tracks them")]
        .into_iter()
        .filter_map(|(paths, what)| note(facts, paths, what))
        .collect();
    Ok((!notes.is_empty()).then_some((layer, notes)))
}

/// The directories of the user's that are searched: the project, and what the user's own rules grant besides it, except
/// for directories of settings (`~/.config/…`).
fn tops(facts: &Facts, policy: &Policy, resolved: &Resolved) -> Vec<PathBuf> {
    let mut tops = Vec::new();
    if policy.switch(Switch::WorkingDirectory).value {
        tops.extend(view::repository_outside(facts));
        tops.push(facts.cwd.clone());
    }
    for path in resolved.effective() {
        let users = path.rule.origin.layer >= Layer::User && matches!(path.grant, Grant::Allowed { .. });
        let dotted = |path: &Path| {
            path.strip_prefix(&facts.account.home)
                .unwrap_or(path)
                .components()
                .any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
        };
        if users && !facts.layout.shows(&path.source) && !dotted(&path.source) {
            tops.extend(facts.canonical(&path.source));
        }
    }
    let suitable = |top: &PathBuf| {
        facts.kind(top) == Kind::Directory
            && top.file_name().is_some_and(|name| name != ".git")
            && !facts.account.home.starts_with(top)
    };
    tops.retain(suitable);
    tops.sort();
    tops.dedup_by(|below, above| below.starts_with(above));
    tops
}

/// The files below a directory that hold secrets.
fn find(facts: &Facts, top: &Path) -> Result<Vec<PathBuf>, WalkError> {
    let skipped = |path: &Path| path.file_name().is_some_and(|name| SKIPPED.iter().any(|one| name == *one));
    // A match isn't descended into, so directories that are skipped count as matches first.
    let found = facts.look_up(top, None, |path| skipped(path) || secrets::evidence(path).is_some())?;
    let holds = |path: &PathBuf| {
        let Some(evidence) = secrets::evidence(path).filter(|_| !skipped(path)) else { return false };
        if facts.kind(path) != Kind::Other {
            return false;
        }
        if !evidence.is_in_content() {
            return true;
        }
        facts.depends_on(path, true);
        // A file that can't be read here can't be read inside.
        file::read(path, LARGEST, Links::Refuse).is_ok_and(|content| evidence.holds(&content))
    };
    Ok(found.into_iter().filter(holds).collect())
}

/// Whether the launch would show a file, and no rule of the user's is about this very file.
fn is_shown(resolved: &Resolved, path: &Path) -> bool {
    let own = |rank: Layer| rank >= Layer::User;
    matches!(resolved.decide(path).grant, Grant::Allowed { .. } | Grant::Absent)
        && !resolved.stated_at(path).iter().any(|stated| own(stated.rule.origin.layer))
}

/// Whether git tracks a file, as far as that can be found out: else yes.
fn is_tracked(path: &Path, trees: &mut BTreeMap<PathBuf, Option<BTreeSet<PathBuf>>>) -> bool {
    let Some(tree) = git_index::tree_of(path, Path::new("/")) else { return false };
    let tracked = trees.entry(tree.to_owned()).or_insert_with(|| git_index::tracked(tree));
    match (tracked, path.strip_prefix(tree)) {
        (Some(tracked), Ok(rest)) => tracked.contains(rest),
        _ => true,
    }
}

fn note(facts: &Facts, paths: &[PathBuf], what: &str) -> Option<String> {
    let first = paths.first()?;
    let short = |path: &Path| path.strip_prefix(&facts.cwd).unwrap_or(path).shown().to_string();
    let named: Vec<String> = paths.iter().take(NAMED).map(|path| short(path)).collect();
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let option = crate::error::quoted(&short(first));
    Some(format!(
        "files with secrets are {what}: {}{more}; --ro {option} shows one, --secrets show shows all",
        named.join(", ")
    ))
}
