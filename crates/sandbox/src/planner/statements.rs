// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all rules together say of one object of the host's, whichever names lead to it: precedence, by what paths lead to.
//!
//! `palisade-policy` decides by names, which is right as long as no link leads from one to another. Where one does, this
//! decides.

use crate::facts::Facts;
use crate::planner::grants::{Closeness, Object};
use palisade_policy::decide::{EffectiveGlob, EffectivePath};
use palisade_policy::resolve::Resolved;
use palisade_policy::{Grant, Strength};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Write and execute of what may be read; `None`: nothing may.
type Verdict = Option<(bool, bool)>;

/// What each layer states of paths that it names, or finds by patterns, at their own places.
#[derive(Debug, Default)]
pub(super) struct Statements(Vec<Object>);

/// What is decided of an object.
#[derive(Debug, Default)]
pub(super) struct Said<'s> {
    /// None: no rule speaks of it.
    verdict: Option<Verdict>,
    /// A link leads to it that counted.
    pub(super) by_link: bool,
    ceiling: Option<Ceiling<'s>>,
}

#[derive(Debug, Clone, Copy)]
struct Ceiling<'s> {
    verdict: Verdict,
    lock: &'s Object,
    by_link: bool,
}

const fn lower(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Some((write, execute)), Some((may_write, may_execute))) => {
            Some((write && may_write, execute && may_execute))
        }
        _ => None,
    }
}

const fn permits(verdict: Verdict, (write, execute): (bool, bool)) -> bool {
    match verdict {
        Some((may_write, may_execute)) => (may_write || !write) && (may_execute || !execute),
        None => false,
    }
}

impl Statements {
    /// `matches`: what patterns find. By links that a command may have made nothing is granted: `is_trusted` knows.
    pub(super) fn gather(
        facts: &Facts,
        resolved: &Resolved,
        matches: &[PathBuf],
        globs: &[EffectiveGlob],
        is_trusted: impl Fn(&Object) -> bool,
    ) -> Self {
        let named = resolved.stated();
        let names: BTreeSet<&PathBuf> = named.iter().map(|one| &one.destination).collect();
        let found: BTreeSet<&PathBuf> = matches.iter().filter(|path| !names.contains(path)).collect();
        let found: Vec<EffectivePath> = found.into_iter().flat_map(|path| resolved.stated_at(path)).collect();
        let all = named.into_iter().chain(found).filter(|path| path.grant != Grant::Absent);
        let objects = all.filter(|path| facts.canonical(&path.source).is_some()).map(|path| {
            let mut object = Object::of(facts, path);
            object.closeness = Closeness::of(facts, &object.path.rule, globs);
            object
        });
        let mut objects: Vec<Object> = objects.filter(is_trusted).collect();
        objects.sort_by_key(Object::rank);
        Self(objects)
    }

    /// Later layers win; in one layer and strength the closest rules do, a refusal before grants, which add up; a lock is a
    /// ceiling over what comes later.
    pub(super) fn decide(&self, real: &Path) -> Said<'_> {
        let about: Vec<&Object> = self.0.iter().filter(|object| real.starts_with(&object.real)).collect();
        let mut said = Said::default();
        for group in about.chunk_by(|one, other| one.rank() == other.rank()) {
            let closeness = |object: &Object| (object.real.components().count(), object.closeness);
            let Some(closest) = group.iter().map(|object| closeness(object)).max() else { continue };
            let speaking: Vec<&Object> =
                group.iter().copied().filter(|object| closeness(object) == closest).collect();
            let Some(&first) = speaking.first() else { continue };
            let verdict =
                speaking.iter().map(|object| object.allows()).reduce(|one, other| match (one, other) {
                    (Some((write, execute)), Some((also_write, also_execute))) => {
                        Some((write || also_write, execute || also_execute))
                    }
                    _ => None,
                });
            let by_link = speaking.iter().any(|object| !object.links.is_empty());
            let Some(verdict) = verdict else { continue };
            let below = said.ceiling.map_or(verdict, |ceiling| lower(verdict, ceiling.verdict));
            said.by_link = by_link || below != verdict && said.ceiling.is_some_and(|ceiling| ceiling.by_link);
            said.verdict = Some(below);
            if first.rank().strength == Strength::Locked {
                let by_link = by_link || said.ceiling.is_some_and(|ceiling| ceiling.by_link);
                said.ceiling = Some(Ceiling { verdict: below, lock: first, by_link });
            }
        }
        said
    }
}

impl<'s> Said<'s> {
    pub(super) fn permits(&self, access: (bool, bool)) -> bool {
        self.verdict.is_none_or(|verdict| permits(verdict, access))
    }

    /// Whether anything is allowed by a rule.
    pub(super) fn allows(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.is_some())
    }

    /// The lock that doesn't permit this.
    pub(super) fn lock_against(&self, access: (bool, bool)) -> Option<&'s Object> {
        self.ceiling.filter(|ceiling| !permits(ceiling.verdict, access)).map(|ceiling| ceiling.lock)
    }
}
