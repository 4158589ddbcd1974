// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides what all rules together state about one object of the host, whatever names lead to it: precedence by the
//! targets of paths.
//!
//! `palisade-policy` decides by names, which is correct as long as no link leads from one name to another. Otherwise
//! this module decides.

use crate::facts::Facts;
use crate::plan::planner::grants::Object;
use palisade_host::links::Link;
use palisade_policy::decide::{EffectiveGlob, EffectivePath};
use palisade_policy::resolve::Resolved;
use palisade_policy::{Grant, PathRule, Strength};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Whether a readable object may be written and executed; `None`: it may not even be read.
type Verdict = Option<(bool, bool)>;

/// The statements of each layer about paths that it names, or finds by patterns, each stored at the path's target.
/// Empty if no such path has a link: then the names decide.
#[derive(Debug, Default)]
pub(super) struct Statements(HashMap<PathBuf, Vec<Statement>>);

#[derive(Debug)]
struct Statement {
    object: Object,
    closeness: Closeness,
    /// It applies by a link that a command may move: it counts for this launch.
    is_movable: bool,
}

/// How specific a rule is among the rules for one object: a plain path comes before a pattern. Between patterns the one
/// with the deeper plain beginning comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Closeness {
    plain: bool,
    beginning: usize,
}

/// The decision about an object.
#[derive(Debug, Default)]
pub(super) struct Said<'s> {
    /// `None`: no rule matches.
    verdict: Option<Verdict>,
    /// The object whose rule decided.
    by: Option<&'s Object>,
    /// A link leads to it, and the link affected the decision.
    pub(super) by_link: bool,
    ceiling: Option<Ceiling<'s>>,
}

#[derive(Debug, Clone, Copy)]
struct Ceiling<'s> {
    verdict: Verdict,
    lock: &'s Object,
    /// The link by which a lock counts.
    link: Option<&'s Link>,
}

impl Closeness {
    fn of(facts: &Facts, rule: &PathRule, globs: &[EffectiveGlob]) -> Self {
        if !rule.pattern.is_glob() {
            return Self { plain: true, beginning: 0 };
        }
        // By the targets of their beginnings: names can't be compared if one of them passes a link.
        let depth = |base: &Path| base.components().count();
        let beginnings = globs
            .iter()
            .filter(|glob| glob.rule == *rule && !glob.is_moved())
            .map(|glob| facts.canonical(&glob.base).map_or_else(|| depth(&glob.base), |real| depth(&real)));
        Self { plain: false, beginning: beginnings.max().unwrap_or(0) }
    }
}

const fn lower(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Some((write, execute)), Some((may_write, may_execute))) => {
            Some((write && may_write, execute && may_execute))
        }
        _ => None,
    }
}

/// Combines equally specific rules: a refusal wins over grants, and grants add up.
const fn together(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Some((write, execute)), Some((also_write, also_execute))) => {
            Some((write || also_write, execute || also_execute))
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
    /// `matches`: what patterns find; `objects`: the policy's decisions by names.
    pub(super) fn gather(
        facts: &Facts,
        resolved: &Resolved,
        matches: &[PathBuf],
        objects: &[Object],
    ) -> Self {
        let named = resolved.stated();
        let names: BTreeSet<&PathBuf> = named.iter().map(|one| &one.destination).collect();
        let found: BTreeSet<&PathBuf> = matches.iter().filter(|path| !names.contains(path)).collect();
        let is_link = |path: &PathBuf| facts.canonical(path).is_some_and(|real| real != *path);
        if !names.iter().chain(&found).any(|path| is_link(path)) {
            return Self::default();
        }
        let found: Vec<EffectivePath> = found.into_iter().flat_map(|path| resolved.stated_at(path)).collect();
        let globs = [resolved.globs(), resolved.overridden_globs()].concat();
        let mut by_object: HashMap<PathBuf, Vec<Statement>> = HashMap::new();
        for path in named.into_iter().chain(found) {
            if path.grant == Grant::Absent || facts.canonical(&path.source).is_none() {
                continue;
            }
            let object = Object::of(facts, path);
            // A command that may have made a link must not grant itself anything by it. It may deny itself something.
            let is_movable = object.untrusted_link(objects).is_some();
            if object.allows().is_some() && is_movable {
                continue;
            }
            let closeness = Closeness::of(facts, &object.path.rule, &globs);
            let statement = Statement { object, closeness, is_movable };
            by_object.entry(statement.object.real.clone()).or_default().push(statement);
        }
        Self(by_object)
    }

    /// The objects that rules apply to. An object comes after those that it lies in.
    pub(super) fn objects(&self) -> Vec<&Path> {
        let mut objects: Vec<&Path> = self.0.keys().map(PathBuf::as_path).collect();
        objects.sort_by_key(|real| (real.components().count(), *real));
        objects
    }

    /// Decides about an object. Later layers win. In one layer and strength the closest rules win: a refusal wins over
    /// grants, and grants add up. A lock is a ceiling for later rules.
    pub(super) fn decide(&self, real: &Path) -> Said<'_> {
        Self::decided(self.about(real))
    }

    /// The refusal by a link that a command may move, if it leaves less of `shown` than the other rules do: at the next
    /// launch the link could lead elsewhere.
    pub(super) fn refused_by_movable_link(&self, real: &Path, shown: (bool, bool)) -> Option<&Object> {
        let about = self.about(real);
        let (movable, fixed): (Vec<&Statement>, Vec<&Statement>) =
            about.iter().partition(|statement| statement.is_movable);
        let last = movable.iter().max_by_key(|statement| statement.object.rank())?;
        let left = |said: Said<'_>| said.verdict.map_or(Some(shown), |verdict| lower(Some(shown), verdict));
        (left(Self::decided(about)) != left(Self::decided(fixed))).then_some(&last.object)
    }

    fn about(&self, real: &Path) -> Vec<&Statement> {
        real.ancestors().filter_map(|place| self.0.get(place)).flatten().collect()
    }

    fn decided(mut about: Vec<&Statement>) -> Said<'_> {
        about.sort_by_key(|statement| statement.object.rank());
        let mut said = Said::default();
        for group in about.chunk_by(|one, other| one.object.rank() == other.object.rank()) {
            let closeness =
                |statement: &Statement| (statement.object.real.components().count(), statement.closeness);
            let closest = group.iter().map(|statement| closeness(statement)).max();
            let speaking: Vec<&Object> = group
                .iter()
                .filter(|statement| Some(closeness(statement)) == closest)
                .map(|statement| &statement.object)
                .collect();
            let verdict = speaking.iter().map(|object| object.allows()).reduce(together);
            let (Some(verdict), Some(&first)) = (verdict, speaking.first()) else { continue };
            // The refusing rule, if one refuses.
            let first = speaking.iter().copied().find(|object| object.allows().is_none()).unwrap_or(first);
            let link = speaking.iter().find_map(|object| object.links.last());
            let lock_by = said.ceiling.and_then(|ceiling| ceiling.link);
            let below = said.ceiling.map_or(verdict, |ceiling| lower(verdict, ceiling.verdict));
            said.by_link = link.is_some() || below != verdict && lock_by.is_some();
            said.by =
                said.ceiling.filter(|_| below != verdict).map_or(Some(first), |ceiling| Some(ceiling.lock));
            said.verdict = Some(below);
            if first.rank().strength == Strength::Locked {
                said.ceiling = Some(Ceiling { verdict: below, lock: first, link: link.or(lock_by) });
            }
        }
        said
    }
}

impl<'s> Said<'s> {
    pub(super) fn permits(&self, access: (bool, bool)) -> bool {
        self.verdict.is_none_or(|verdict| permits(verdict, access))
    }

    /// What is left of the object, and by which rule, if `shown` is more than is permitted and a link counts.
    pub(super) fn less_than(&self, shown: (bool, bool)) -> Option<(Grant, &'s PathRule)> {
        let by = self.by.filter(|_| self.by_link)?;
        let grant = match lower(Some(shown), self.verdict?) {
            None if by.allows().is_none() => by.path.grant,
            None => Grant::Denied,
            Some(less) if less == shown => return None,
            Some((write, execute)) => Grant::Allowed { write, execute },
        };
        Some((grant, &by.path.rule))
    }

    /// Whether a rule allows anything.
    pub(super) fn allows(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.is_some())
    }

    /// The lock that forbids this access.
    pub(super) fn lock_against(&self, access: (bool, bool)) -> Option<&'s Object> {
        self.ceiling.filter(|ceiling| !permits(ceiling.verdict, access)).map(|ceiling| ceiling.lock)
    }

    /// The same lock, if it applies by a link, which a comparison of names doesn't find.
    pub(super) fn lock_by_link_against(&self, access: (bool, bool)) -> Option<(&'s Link, &'s Object)> {
        let lock = self.lock_against(access)?;
        Some((self.ceiling?.link?, lock))
    }
}
