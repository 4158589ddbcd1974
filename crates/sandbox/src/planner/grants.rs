// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which paths a policy grants on this host.

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::package;
use palisade_policy::decide::EffectivePath;
use palisade_policy::resolve::Resolved;
use palisade_policy::{Grant, Layer};
use std::borrow::Cow;

/// The paths that rules speak of, globs looked up, shallow to deep, without those that can't be.
pub(super) fn grants(
    facts: &Facts,
    resolved: &Resolved,
    shows_cwd: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<Vec<EffectivePath>, PlanError> {
    let mut paths = Vec::new();
    for path in resolved.effective() {
        let path = match facts.package() {
            Some(package) => match package::view::placed(package, path) {
                Some(path) => path,
                None => continue,
            },
            None => path,
        };
        let own_directory = path.source == facts.cwd && path.rule.origin.layer == Layer::BuiltIn;
        if own_directory && path.rule.origin.file.is_none() && !shows_cwd {
            continue;
        }
        if own_directory && let Some(reason) = unsuitable(facts) {
            notes.push(Cow::Owned(reason));
            continue;
        }
        let allowed = matches!(path.grant, Grant::Allowed { .. });
        if allowed && facts.kind(&path.source) == Kind::Missing {
            missing(&path, notes)?;
            continue;
        }
        paths.push(path);
    }
    for glob in resolved.globs() {
        let packed = facts.package().filter(|_package| package::is_packed(&glob.base));
        let found = match packed {
            Some(package) => package::view::look_up(facts, package, &glob),
            None => facts.look_up(&glob.base, glob.depth(), |path| glob.matches(path)),
        };
        let found = found.map_err(|source| PlanError::Walk { rule: Box::new(glob.rule.clone()), source })?;
        for source in found {
            let destination = glob.inside(&source);
            let decision = resolved.decide(&destination);
            // A link is judged by where it leads when it is used, and can't be mounted over.
            if !paths.iter().any(|path| path.destination == destination) {
                let source = decision.source.unwrap_or(source);
                let path =
                    EffectivePath { source, destination, grant: decision.grant, rule: glob.rule.clone() };
                match facts.package() {
                    Some(package) => paths.extend(package::view::placed(package, path)),
                    None => paths.push(path),
                }
            }
        }
    }
    paths.sort_by_key(|path| path.destination.components().count());
    Ok(paths)
}

/// A rule names what isn't there: on the command line an error, elsewhere a note.
fn missing(path: &EffectivePath, notes: &mut Vec<Cow<'static, str>>) -> Result<(), PlanError> {
    let rule = &path.rule;
    match rule.origin.layer {
        Layer::CommandLine => {
            Err(PlanError::Missing { path: path.source.clone(), rule: Box::new(rule.clone()) })
        }
        Layer::BuiltIn | Layer::Distribution => Ok(()),
        _ => {
            notes.push(Cow::Owned(format!("{} doesn't exist: {rule} has no effect", path.source.display())));
            Ok(())
        }
    }
}

/// Why the working directory can't simply be writable, if it can't.
fn unsuitable(facts: &Facts) -> Option<String> {
    let cwd = &facts.cwd;
    let home = &facts.account.home;
    if facts.layout.shows(cwd) {
        return Some(format!("the working directory {} is a system directory: read-only", cwd.display()));
    }
    if home.starts_with(cwd) {
        let reason = if cwd == home { "is your home" } else { "holds your home" };
        return Some(format!(
            "the working directory {} {reason}: private and empty inside; change to a project's directory, or add --rw DIRECTORY",
            cwd.display()
        ));
    }
    for taken in ["/proc", "/sys", "/dev", "/run"] {
        if cwd.starts_with(taken) {
            return Some(format!(
                "the working directory {} isn't a place to work in: not shown",
                cwd.display()
            ));
        }
    }
    None
}
