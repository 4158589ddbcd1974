// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enforces the policy without namespaces, by Landlock alone.

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::guarantee::Demands;
use crate::plan::Step;
use crate::plan::planner::real;
use crate::plan::text::Text;
use crate::view::DEVICES;
use crate::view::tree::WRITABLE;
use palisade_host::layout::RootKind;
use palisade_host::toolchain;
use palisade_policy::decide::EffectivePath;
use palisade_policy::resolve::Resolved;
use palisade_policy::{Grant, Guarantee, Layer};
use palisade_sys::landlock::Rights;
use palisade_text::Show as _;
use std::borrow::Cow;
use std::path::Path;

/// The Landlock rules, and the directory in which the command starts.
pub(crate) fn steps(
    facts: &Facts,
    resolved: &Resolved,
    paths: &[EffectivePath],
    demands: &Demands,
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
    // Not `/dev` as a whole: there are disks, and root may open them.
    for name in DEVICES.into_iter().chain(["ptmx", "pts"]) {
        let rights = Rights::READ.union(Rights::WRITE_FILE).union(Rights::IOCTL_DEV);
        allow(&mut steps, facts, &Path::new("/dev").join(name), rights)?;
    }
    let processes = match facts.account.uid {
        // Settings of the kernel belong to root, and need no capability.
        0 => Rights::READ,
        _ => Rights::READ.union(Rights::WRITE_FILE).union(Rights::TRUNCATE),
    };
    allow(&mut steps, facts, Path::new("/proc"), processes)?;
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
                    not_enforced(
                        path,
                        "a path can't be shown at another path without a mount namespace",
                        demands,
                        notes,
                    )?;
                }
                if let Some(place) = own_place(facts, &path.source, write) {
                    keep_own_place(path, place, demands, notes)?;
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
            not_enforced(path, "Landlock can't restrict a path below one that it allows", demands, notes)?;
        }
    }
    let directory = resolved.cwd().map_or(&facts.cwd, |cwd| &cwd.value);
    Ok((steps, Text::path(directory)?))
}

/// What a listener of another sandbox does for the command, Landlock doesn't see: a broker creates files with the rights that
/// it has itself.
pub(crate) fn answered_elsewhere(
    facts: &Facts,
    demands: &Demands,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    if !facts.is_listened_to() {
        return Ok(());
    }
    let reason =
        "another program makes system calls for the command, and Landlock doesn't restrict that program";
    for guarantee in [Guarantee::Unchanged, Guarantee::RulesHold] {
        if demands.required().names(guarantee) {
            return Err(demands.lacking(guarantee, reason));
        }
        demands.lose(guarantee);
    }
    notes.push(Cow::Owned(format!("files outside the writable paths can be written: {reason}")));
    Ok(())
}

/// Whether the command may read what is at a path.
pub(crate) fn shows(steps: &[Step<'_>], path: &Path) -> bool {
    steps.iter().any(|step| match step {
        Step::Allow { path: allowed, rights } => {
            path.starts_with(allowed.as_path()) && rights.intersection(Rights::READ_FILE) == Rights::READ_FILE
        }
        _ => false,
    })
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
    demands: &Demands,
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
    let words = "Palisade's own files stay outside";
    demands.give_up_part(Guarantee::RulesHold, words, &reason, notes, || {
        format!("Palisade's own files can be reached: {reason}")
    })
}

/// Reports that the view `closure` isn't possible.
pub(crate) fn no_closure(demands: &Demands, notes: &mut Vec<Cow<'static, str>>) -> Result<(), PlanError> {
    let words = "only the program's own files are visible";
    demands.give_up_part(Guarantee::Hidden, words, "that needs a mount namespace", notes, || {
        "not enforced: the view closure: system directories can be read".to_owned()
    })
}

/// A rule that Landlock can't enforce.
fn not_enforced(
    path: &EffectivePath,
    reason: &str,
    demands: &Demands,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    let reason = format!("{}: {reason}", path.rule);
    demands.give_up(Guarantee::RulesHold, &reason, notes, || format!("not enforced: {reason}"))
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
