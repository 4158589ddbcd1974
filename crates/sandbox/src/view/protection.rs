// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which mechanism protects names, and in which trees.

use crate::error::PlanError;
use crate::facts::Facts;
use crate::facts::broker::unreadable;
use crate::guarantee::Demands;
use crate::plan::planner::Isolation;
use crate::plan::text::Text;
use crate::plan::{Bind, Broker, Filter, NameEnforcement, Origin, Root, Step, Stored};
use crate::view::above;
use palisade_policy::names::NameRules;
use palisade_policy::resolve::Resolved;
use palisade_policy::word::Switch;
use palisade_policy::{Guarantee, Layer, Policy, Protect};
use palisade_sys::landlock::Rights;
use palisade_syscall::Arch;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

/// Chooses the mechanism.
pub(crate) fn enforcement(
    facts: &Facts,
    policy: &Policy,
    isolation: Isolation,
    demands: &Demands,
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
    let lacks = match (isolation, enforcement) {
        (Isolation::Full, NameEnforcement::Broker) => facts.lacks_broker(),
        (Isolation::Full, _) => None,
        (Isolation::InPlace, NameEnforcement::Broker) => facts.lacks_broker().or_else(|| unreadable(true)),
        (Isolation::InPlace, _) => Some("mounts over names need a mount namespace"),
    };
    let Some(reason) = lacks else { return Ok(enforcement) };
    let (left, note) = match isolation {
        Isolation::Full => (NameEnforcement::Mounts, PROTECTED_BY_MOUNTS),
        Isolation::InPlace => (NameEnforcement::Nobody, NOT_PROTECTED),
    };
    let note = || format!("protected names (.git/hooks, .vscode and others) {note}: {reason}");
    // A user who has stated nothing about names gets what there is, and the note says so.
    let stated = protect.origin.layer != Layer::BuiltIn;
    if stated || demands.required().names(Guarantee::NamesProtected) {
        demands.give_up(Guarantee::NamesProtected, reason, notes, note)?;
    } else {
        if left == NameEnforcement::Nobody {
            demands.lose(Guarantee::NamesProtected);
        }
        notes.push(Cow::Owned(note()));
    }
    Ok(left)
}

/// The rights of a tree that the command may change, not of devices.
const WRITTEN: Rights = Rights::WRITE_FILE.union(Rights::TRUNCATE);

const PROTECTED_BY_MOUNTS: &str = "that exist are protected by mounts; those that don't exist can be made";
const NOT_PROTECTED: &str = "can be written";

/// The broker's part of a plan; `None` if no broker has to protect names and nothing is learned.
pub(crate) fn broker(
    policy: &Policy,
    isolation: Isolation,
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
    let roots = roots(isolation, steps, kept_trees)?;
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
fn roots(
    isolation: Isolation,
    steps: &[Step<'_>],
    kept_trees: &[PathBuf],
) -> Result<Vec<Root<'static>>, PlanError> {
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
    if isolation == Isolation::InPlace {
        // Without namespaces the host's tree is the command's. Nothing in it is writable but what steps allow. Devices
        // and the kernel's files aren't judged.
        let root = Text::literal(c"/");
        add(&Text::literal(c""), Some(&root), false, false)?;
        for kernels in [c"dev", c"proc"] {
            add(&Text::literal(kernels), None, true, false)?;
        }
    }
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
            Step::Allow { path, rights }
                if isolation == Isolation::InPlace
                    && rights.intersection(WRITTEN) == WRITTEN
                    && path.as_bytes() != b"/proc" =>
            {
                let name = path.as_bytes().strip_prefix(b"/").unwrap_or(path.as_bytes());
                add(&Text::new(name)?, Some(path), true, false)?;
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
