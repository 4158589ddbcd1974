// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which mechanism protects names, and in which trees.

use crate::error::PlanError;
use crate::plan::planner::Isolation;
use crate::plan::text::Text;
use crate::plan::{Bind, Broker, Filter, Origin, Root, Step, Stored};
use crate::view::above;
use palisade_policy::names::NameRules;
use palisade_policy::resolve::Resolved;
use palisade_policy::word::Switch;
use palisade_policy::{Layer, Policy, Protect};
use palisade_syscall::Arch;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

/// The mechanism that protects names in a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameEnforcement {
    /// The broker.
    Broker,
    /// Mounts over existing files with protected names.
    Mounts,
    /// None: no name is protected, or no tree is writable.
    Nobody,
}

/// Chooses the mechanism.
pub(crate) fn enforcement(
    policy: &Policy,
    isolation: Isolation,
    best_effort: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<NameEnforcement, PlanError> {
    let protect = policy.protect();
    let enforcement = match protect.value {
        // A command with namespaces of its own can change what paths mean, so the broker can't judge by paths. Mounts
        // protect existing names.
        Protect::Broker if policy.switch(Switch::Namespaces).value => {
            if protect.origin.layer == Layer::BuiltIn {
                return Ok(NameEnforcement::Mounts);
            }
            return Err(PlanError::Exclusive {
                guarantee: "protected names can't be made",
                reason: "a command with namespaces of its own can change what paths mean",
                hint: "palisade run --protect mounts …   # in place of --protect broker: protects names that exist",
            });
        }
        Protect::Broker => NameEnforcement::Broker,
        Protect::Mounts => NameEnforcement::Mounts,
        Protect::Off => return Ok(NameEnforcement::Nobody),
    };
    if isolation == Isolation::Full {
        return Ok(enforcement);
    }
    let reason = "without namespaces no process can judge names";
    // A user who chose no namespaces and stated nothing about names has made a choice. If both were stated, they conflict.
    if protect.origin.layer == Layer::BuiltIn || best_effort {
        notes.push(Cow::Owned(format!(
            "protected names (.git/hooks, .vscode and others) can be written: {reason}"
        )));
        return Ok(NameEnforcement::Nobody);
    }
    Err(PlanError::Guarantee { guarantee: "protected names stay as they are", reason: reason.to_owned() })
}

/// The broker's part of a plan; `None` if no broker has to protect names and nothing is learned.
pub(crate) fn broker(
    policy: &Policy,
    resolved: &Resolved,
    steps: &[Step<'_>],
    kept_trees: &[PathBuf],
    enforcement: NameEnforcement,
    learn: bool,
) -> Result<Option<Broker<'static>>, PlanError> {
    let (names, paths) = match enforcement {
        NameEnforcement::Broker => (policy.names(), NameRules::new(resolved.protected_paths())),
        NameEnforcement::Mounts | NameEnforcement::Nobody
            if learn || policy.switch(Switch::Namespaces).value =>
        {
            Default::default()
        }
        NameEnforcement::Mounts | NameEnforcement::Nobody => return Ok(None),
    };
    let roots = roots(steps, kept_trees)?;
    if roots.is_empty() && !learn {
        return Ok(None);
    }
    Ok(Some(Broker {
        learn,
        calls: None,
        answers: None,
        roots,
        names: Stored::new(&names)?,
        paths: Stored::new(&paths)?,
        pinned: Vec::new(),
        repository: Vec::new(),
        filter: Filter::from(&palisade_syscall::broker::own_filter(Arch::NATIVE)?),
    }))
}

/// The part for a broker that protects no names and only answers calls.
pub(crate) fn listener() -> Result<Broker<'static>, PlanError> {
    Ok(Broker {
        learn: false,
        calls: None,
        answers: None,
        roots: Vec::new(),
        names: Stored::new(&NameRules::default())?,
        paths: Stored::new(&NameRules::default())?,
        pinned: Vec::new(),
        repository: Vec::new(),
        filter: Filter::from(&palisade_syscall::broker::own_filter(Arch::NATIVE)?),
    })
}

/// The trees that steps mount: those of the host, and mounts over parts of them. Below `kept_trees` are a
/// sandbox's own home and caches, which aren't trees of the host: no program outside obeys files in them.
fn roots(steps: &[Step<'_>], kept_trees: &[PathBuf]) -> Result<Vec<Root<'static>>, PlanError> {
    let mut roots: Vec<Option<Root<'static>>> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut add =
        |path: &Text<'_>, host: Option<&Text<'_>>, write: bool, above: bool| -> Result<(), PlanError> {
            let name = [b"/", path.as_bytes()].concat();
            let inside = Text::new(name.clone())?;
            let host = host.map(|host| Text::new(host.as_bytes())).transpose()?;
            // The later step covers the earlier one.
            if let Some(covered) = known.insert(name, roots.len()) {
                roots[covered] = None;
            }
            roots.push(Some(Root { inside, host, write, above }));
            Ok(())
        };
    for step in steps {
        match step {
            Step::Bind(Bind { source, target, origin, write, devices, .. }) => {
                // Devices aren't judged: their content isn't kept.
                let kept = kept_trees.iter().any(|tree| source.as_path().starts_with(tree));
                let shared = !devices && *origin != Origin::Inside && !kept;
                add(target, shared.then_some(source), *write, false)?;
            }
            Step::Tmpfs { path, .. } | Step::Own { path, .. } | Step::Overlay { target: path, .. } => {
                add(path, None, true, false)?;
            }
            // The broker tells that nothing can be made there.
            Step::Directory { path, .. } if above::is_above(step) => add(path, None, false, true)?,
            _ => {}
        }
    }
    // The order doesn't matter. Private trees that lie in no tree of the host are left out, which makes the list shorter.
    let mut roots: Vec<Root<'static>> = roots.into_iter().flatten().collect();
    let shared: Vec<Text<'static>> =
        roots.iter().filter(|root| root.host.is_some()).map(|root| root.inside.clone()).collect();
    roots.retain(|root| {
        root.above || root.host.is_some() || shared.iter().any(|tree| lies_in(&root.inside, tree))
    });
    Ok(roots)
}

/// Whether a path is the directory, or lies in it. Both consist only of names and single slashes.
fn lies_in(path: &Text<'_>, directory: &Text<'_>) -> bool {
    let rest =
        path.as_bytes().strip_prefix(directory.as_bytes().strip_suffix(b"/").unwrap_or(directory.as_bytes()));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}
