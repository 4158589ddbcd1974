// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enforces the policy without namespaces, by Landlock alone.

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::plan::Step;
use crate::plan::planner::real;
use crate::plan::text::Text;
use crate::view::tree::WRITABLE;
use palisade_host::layout::RootKind;
use palisade_host::toolchain;
use palisade_policy::decide::EffectivePath;
use palisade_policy::resolve::Resolved;
use palisade_policy::{Grant, Layer};
use palisade_sys::landlock::Rights;
use palisade_text::Show as _;
use std::borrow::Cow;
use std::path::Path;

/// The Landlock rules, and the directory in which the command starts.
pub(crate) fn steps(
    facts: &Facts,
    resolved: &Resolved,
    paths: &[EffectivePath],
    best_effort: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(Vec<Step<'static>>, Text<'static>), PlanError> {
    let mut steps = Vec::new();
    let programs = Rights::READ.union(Rights::EXECUTE);
    for directory in &facts.layout.system {
        allow(&mut steps, facts, &directory.canonical, programs)?;
    }
    for name in &facts.layout.merged {
        if name.kind == RootKind::Directory {
            allow(&mut steps, facts, &name.path, programs)?;
        }
    }
    allow(
        &mut steps,
        facts,
        Path::new("/dev"),
        Rights::READ.union(Rights::WRITE_FILE).union(Rights::IOCTL_DEV),
    )?;
    allow(&mut steps, facts, Path::new("/proc"), Rights::READ.union(Rights::WRITE_FILE))?;
    for found in toolchain::find(&facts.account.home, &facts.environment, &facts.layout).found {
        allow(&mut steps, facts, &found.canonical, programs)?;
    }
    for path in paths {
        match path.grant {
            Grant::Allowed { write, execute } => {
                let mut rights = Rights::READ;
                if write {
                    rights = rights.union(WRITABLE.without(Rights::EXECUTE));
                }
                if execute {
                    rights = rights.union(Rights::EXECUTE);
                }
                if path.source != path.destination {
                    give_up(
                        path,
                        "a path can't be shown at another path without a mount namespace",
                        best_effort,
                        notes,
                    )?;
                }
                if let Some(place) = own_place(facts, &path.source, write) {
                    keep_own_place(path, place, best_effort, notes)?;
                    // The user didn't request the working directory: this rule is built in.
                    if path.rule.origin.layer == Layer::BuiltIn {
                        continue;
                    }
                }
                allow(&mut steps, facts, &path.source, rights)?;
            }
            Grant::Hidden | Grant::Denied | Grant::Tmpfs | Grant::Absent => {}
        }
        if is_allowed_above(facts, path, paths) {
            give_up(path, "Landlock can't restrict a path below one that it allows", best_effort, notes)?;
        }
    }
    let directory = resolved.cwd().map_or(&facts.cwd, |cwd| &cwd.value);
    Ok((steps, Text::path(directory)?))
}

/// Whether another rule, or the system's view, allows more at a place where this rule allows less.
fn is_allowed_above(facts: &Facts, path: &EffectivePath, paths: &[EffectivePath]) -> bool {
    let real = |path: &Path| facts.canonical(path).unwrap_or_else(|| path.to_owned());
    let place = real(&path.source);
    let less = |write: bool, execute: bool| match path.grant {
        Grant::Allowed { write: also_write, execute: also_execute } => {
            write && !also_write || execute && !also_execute
        }
        Grant::Hidden | Grant::Denied | Grant::Tmpfs => true,
        Grant::Absent => false,
    };
    let by_rule = paths.iter().any(|other| {
        let Grant::Allowed { write, execute } = other.grant else { return false };
        let above =
            path.destination.starts_with(&other.destination) || place.starts_with(real(&other.source));
        above && less(write, execute)
    });
    // System directories may be read and executed, whatever a rule says. This opens none of the user's files.
    let is_cover = !matches!(path.grant, Grant::Allowed { .. } | Grant::Absent);
    let by_view = || facts.layout.system.iter().any(|directory| place.starts_with(&directory.canonical));
    by_rule || path.grant == Grant::Tmpfs || is_cover && by_view()
}

/// Palisade's own directory that a grant of `source` would open. Directories that only root writes may be read.
fn own_place<'f>(facts: &'f Facts, source: &Path, write: bool) -> Option<&'f Path> {
    let source = real(source);
    let opens = |place: &&Path| {
        let place = real(place);
        place.starts_with(&source) || source.starts_with(&place)
    };
    let of_system = [facts.places.administrator.as_path(), &facts.places.distribution];
    facts.places.own().chain(of_system.into_iter().filter(|_| write)).find(opens)
}

/// Refuses such a grant. The built-in grant of the working directory is only left out. Any other grant is an error,
/// except with `--best-effort`.
fn keep_own_place(
    path: &EffectivePath,
    place: &Path,
    best_effort: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    let source = path.source.shown();
    let reason = format!(
        "{} lies in {source}, and Landlock can't restrict a path below one that it allows",
        place.shown()
    );
    if path.rule.origin.layer == Layer::BuiltIn {
        notes.push(Cow::Owned(format!(
            "the working directory isn't shown: {reason}; change to a project's directory"
        )));
        return Ok(());
    }
    if best_effort {
        notes.push(Cow::Owned(format!("Palisade's own files can be reached: {reason}")));
        return Ok(());
    }
    Err(PlanError::Guarantee { guarantee: "Palisade's own files stay outside", reason })
}

/// Reports that the view `closure` isn't possible.
pub(crate) fn no_closure(best_effort: bool, notes: &mut Vec<Cow<'static, str>>) -> Result<(), PlanError> {
    if best_effort {
        notes.push(Cow::Borrowed("not enforced: the view closure: system directories can be read"));
        return Ok(());
    }
    Err(PlanError::Guarantee {
        guarantee: "only the program's own files are visible",
        reason: "that needs a mount namespace".to_owned(),
    })
}

fn give_up(
    path: &EffectivePath,
    reason: &str,
    best_effort: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    if best_effort {
        notes.push(Cow::Owned(format!("not enforced: {}: {reason}", path.rule)));
        return Ok(());
    }
    Err(PlanError::Guarantee {
        guarantee: "the file rules are enforced",
        reason: format!("{}: {reason}", path.rule),
    })
}

fn allow(
    steps: &mut Vec<Step<'static>>,
    facts: &Facts,
    path: &Path,
    rights: Rights,
) -> Result<(), PlanError> {
    let rights = match facts.kind(path) {
        Kind::Missing => return Ok(()),
        Kind::Directory => rights,
        Kind::Other => rights.intersection(Rights::OF_FILES),
    };
    steps.push(Step::Allow { path: Text::path(path)?, rights });
    Ok(())
}
