// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a policy says of a path: the one place where precedence is decided.
//!
//! The rules that fit a path are grouped by rank (layer, then strength). Inside a rank the rules
//! that fit most closely speak: the deeper the path at which a rule begins to hold, the closer; a
//! plain path before a glob; of globs the one with the longer plain beginning. If several fit
//! equally, deny beats hide beats tmpfs, and grants add up. The highest rank holds, except that a
//! lock is a ceiling over all later layers: they may tighten what it says and never loosen it.

use std::path::{Path, PathBuf};

use crate::expand::GlobPattern;
use crate::layer::{Layer, Rank, Strength};
use crate::resolve::{Moved, Place, Placed, Resolved, Specificity, depth, join};
use crate::rule::{Access, Grant, PathRule};

/// What the policy says of one path, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The answer.
    pub grant: Grant,
    /// What of the host is there, if it is allowed.
    pub source: Option<PathBuf>,
    /// The rules that make it so; none if nothing speaks of the path.
    pub because: Vec<PathRule>,
    /// The rules that fit the path and don't count, lowest rank first.
    pub overridden: Vec<PathRule>,
    /// The lock over this path, whether or not it changed the answer.
    pub lock: Option<PathRule>,
    /// The rule that protects this name from being created or changed.
    pub protected: Option<PathRule>,
}

/// A path that is to be made as the policy wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectivePath {
    /// The path on the host.
    pub source: PathBuf,
    /// The path inside.
    pub destination: PathBuf,
    /// What it is to be.
    pub grant: Grant,
    /// The rule that decided.
    pub rule: PathRule,
}

/// A pattern whose matches are to be made as the policy wants them.
///
/// Walk [`base`](Self::base) on the host; for each path that [`matches`](Self::matches), ask
/// [`Resolved::decide`] about [`inside`](Self::inside) of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveGlob {
    /// The directory on the host in which the walk starts.
    pub base: PathBuf,
    /// The pattern, on host paths.
    pub pattern: GlobPattern,
    /// The rule.
    pub rule: PathRule,
    moved: Option<Moved>,
}

impl EffectiveGlob {
    /// Whether the rule begins to hold at this host path.
    #[must_use]
    pub fn matches(&self, host: &Path) -> bool {
        self.pattern.matches(host) || (host == self.base && self.pattern.begins(host).is_some())
    }

    /// Whether its matches show elsewhere than at their own places.
    #[must_use]
    pub const fn is_moved(&self) -> bool {
        self.moved.is_some()
    }

    /// Where a host path below the base appears inside.
    #[must_use]
    pub fn inside(&self, host: &Path) -> PathBuf {
        match &self.moved {
            None => host.to_owned(),
            Some(moved) => match host.strip_prefix(&moved.from) {
                Ok(rest) => join(&moved.to, rest),
                Err(_) => host.to_owned(),
            },
        }
    }

    /// How many names below the base the deepest match lies; none if at any depth.
    #[must_use]
    pub fn depth(&self) -> Option<usize> {
        let skipped = depth(&self.base).saturating_sub(depth(self.pattern.base()));
        self.pattern.depth().map(|names| names.saturating_sub(skipped))
    }
}

/// A glob of `protect_paths`, or one protected path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protected {
    /// This path inside.
    Path(PathBuf, PathRule),
    /// What matches.
    Glob(EffectiveGlob),
}

/// What the rules of one rank say.
struct RankDecision<'a> {
    grant: Grant,
    source: PathBuf,
    /// The rules that make it so.
    rules: Vec<&'a Placed>,
    /// The rules that had a say: those that spoke though a lock answered in their stead, and the
    /// locks themselves. Without one of them the answer could be another.
    spoke: Vec<&'a Placed>,
}

impl<'a> RankDecision<'a> {
    /// Takes away what a lock doesn't allow.
    fn limit(&mut self, lock: &RankDecision<'a>) {
        self.spoke.extend(&lock.spoke);
        let within = self.grant.within(lock.grant);
        if within == self.grant {
            return;
        }
        if within == lock.grant {
            self.rules.clone_from(&lock.rules);
        } else {
            self.rules.extend(&lock.rules);
        }
        self.grant = within;
    }
}

/// What holds over several ranks.
#[derive(Default)]
struct Combined<'a> {
    holds: Option<RankDecision<'a>>,
    /// The lock on the path inside.
    lock: Option<(Layer, RankDecision<'a>)>,
    /// Locks on host paths that rules may have mapped here. They limit what comes from that host
    /// path and say nothing of the place, so they never grant.
    host_locks: Vec<(Layer, RankDecision<'a>)>,
}

impl<'a> Combined<'a> {
    fn hear(&mut self, rank: Rank, mut answer: RankDecision<'a>) {
        if let Some((layer, lock)) = &self.lock
            && rank.layer > *layer
        {
            answer.limit(lock);
        }
        for (layer, lock) in &self.host_locks {
            if rank.layer > *layer && lock.source == answer.source {
                answer.limit(lock);
            }
        }
        if rank.strength == Strength::Locked {
            let lock = RankDecision {
                grant: answer.grant,
                source: answer.source.clone(),
                rules: answer.rules.clone(),
                spoke: answer.spoke.clone(),
            };
            self.lock = Some((rank.layer, lock));
        }
        self.holds = Some(answer);
    }

    fn hear_host_lock(&mut self, layer: Layer, lock: RankDecision<'a>) {
        if let Some(holds) = &mut self.holds
            && holds.source == lock.source
        {
            holds.limit(&lock);
        }
        self.host_locks.push((layer, lock));
    }

    /// Whether a rule may speak: something else in the place of what a lock allows would not be
    /// what was locked.
    fn admits(&self, placed: &Placed, path: &Path) -> bool {
        let Some((layer, lock)) = &self.lock else {
            return true;
        };
        let both_allow = matches!(
            (lock.grant, placed.rule.access.grant()),
            (Grant::Allowed { .. }, Some(Grant::Allowed { .. }))
        );
        placed.rank().layer <= *layer || !both_allow || lock.source == placed.source_of(path)
    }

    /// The locks that have a say here.
    fn locks(&self) -> impl Iterator<Item = &RankDecision<'a>> {
        let source = self.holds.as_ref().map(|answer| &answer.source);
        let host = self.host_locks.iter().filter(move |(_, lock)| Some(&lock.source) == source);
        self.lock.iter().chain(host).map(|(_, answer)| answer)
    }

    /// Whether a rule that begins at `place` has a say.
    fn involves(&self, place: &Path) -> bool {
        self.holds
            .iter()
            .chain(self.locks())
            .flat_map(|answer| answer.rules.iter().chain(&answer.spoke))
            .any(|rule| matches!(&rule.place, Place::Path(path) if path == place))
    }

    fn grant(&self) -> Grant {
        self.holds.as_ref().map_or(Grant::Absent, |answer| answer.grant)
    }
}

/// What the closest of the rules of one rank say of `path`.
fn decision_of<'a>(path: &Path, fitting: &[(&'a Placed, Specificity)]) -> Option<RankDecision<'a>> {
    let closest = fitting.iter().map(|(_, closeness)| *closeness).max()?;
    let speaking: Vec<&Placed> =
        fitting.iter().filter(|(_, closeness)| *closeness == closest).map(|(rule, _)| *rule).collect();
    for access in [Access::Deny, Access::Hide, Access::Tmpfs] {
        let rules: Vec<&Placed> =
            speaking.iter().copied().filter(|rule| rule.rule.access == access).collect();
        if let (Some(first), Some(grant)) = (rules.first(), access.grant()) {
            return Some(RankDecision { grant, source: first.source_of(path), spoke: rules.clone(), rules });
        }
    }
    // Two host paths can't be in one place: the one stated last is.
    let source = speaking.last()?.source_of(path);
    let rules: Vec<&Placed> = speaking.into_iter().filter(|rule| rule.source_of(path) == source).collect();
    let has = |access| rules.iter().any(|rule| rule.rule.access == access);
    Some(RankDecision {
        grant: Grant::Allowed { write: has(Access::Write), execute: has(Access::Execute) },
        source,
        spoke: rules.clone(),
        rules,
    })
}

/// Goes through the ranks. `fitting` is sorted by rank.
fn combine<'a>(path: &Path, fitting: &[(&'a Placed, Specificity)]) -> Combined<'a> {
    let mut combined = Combined::default();
    for group in fitting.chunk_by(|(a, _), (b, _)| a.rank() == b.rank()) {
        let Some((first, _)) = group.first() else {
            continue;
        };
        let rank = first.rank();
        let (mut copies, own): (Vec<_>, Vec<_>) = group
            .iter()
            .filter(|(placed, _)| combined.admits(placed, path))
            .partition(|(placed, _)| placed.is_host_lock());
        while let Some((placed, _)) = copies.first() {
            let source = placed.source_of(path);
            let (these, others) =
                copies.into_iter().partition(|(placed, _)| placed.source_of(path) == source);
            copies = others;
            if let Some(lock) = decision_of(path, &these) {
                combined.hear_host_lock(rank.layer, lock);
            }
        }
        if let Some(answer) = decision_of(path, &own) {
            combined.hear(rank, answer);
        }
    }
    combined
}

impl Resolved {
    /// The rules that fit a path, sorted by rank and then as stated.
    fn fitting(&self, path: &Path, globs: bool) -> Vec<(&Placed, Specificity)> {
        let mut found: Vec<(usize, Specificity)> = Vec::new();
        let literal = path.ancestors().filter_map(|place| self.by_path.get(place)).flatten();
        let globs = self.by_glob.iter().filter(|_| globs);
        for &at in literal.chain(globs) {
            if let Some(closeness) = self.rules[at].fits(path) {
                found.push((at, closeness));
            }
        }
        found.sort_by_key(|(at, _)| *at);
        found.into_iter().map(|(at, closeness)| (&self.rules[at], closeness)).collect()
    }

    /// What the policy says of one path inside the sandbox, and why.
    ///
    /// `path` is absolute, without `.`, `..` and links; the caller has looked those up.
    #[must_use]
    pub fn decide(&self, path: &Path) -> Decision {
        let fitting = self.fitting(path, true);
        let combined = combine(path, &fitting);
        let grant = combined.grant();
        let (because, source) = match &combined.holds {
            None => (Vec::new(), None),
            Some(answer) => (
                answer.rules.iter().map(|placed| placed.rule.clone()).collect(),
                matches!(grant, Grant::Allowed { .. }).then(|| answer.source.clone()),
            ),
        };
        let overridden = fitting
            .iter()
            .map(|(placed, _)| &placed.rule)
            .filter(|rule| !because.contains(rule))
            .cloned()
            .collect();
        let lock = combined.locks().find_map(|lock| lock.rules.first()).map(|placed| placed.rule.clone());
        let protected = self
            .protect
            .iter()
            .rev()
            .find(|placed| placed.fits(path).is_some())
            .map(|placed| placed.rule.clone());
        Decision { grant, source, because, overridden, lock, protected }
    }

    /// The paths that rules name, after precedence: those wholly overridden are gone. Sorted
    /// shallow to deep, which is the order to mount them in.
    ///
    /// Below the deepest of them that is an ancestor of a path, only a match of one of
    /// [`globs`](Self::globs) can say something else of that path.
    #[must_use]
    pub fn effective(&self) -> Vec<EffectivePath> {
        let mut paths: Vec<EffectivePath> =
            self.by_path.keys().filter_map(|place| self.effective_at(place)).collect();
        paths.sort_by(|a, b| {
            let key = |path: &EffectivePath| depth(&path.destination);
            key(a).cmp(&key(b)).then_with(|| a.destination.cmp(&b.destination))
        });
        paths
    }

    /// What each rank says of each path that rules name and show at its own place, whatever other ranks say. Lower ranks
    /// of a path come first.
    #[must_use]
    pub fn stated(&self) -> Vec<EffectivePath> {
        let mut paths: Vec<EffectivePath> =
            self.by_path.keys().flat_map(|place| self.stated_at(place)).collect();
        paths.sort_by(|a, b| a.destination.cmp(&b.destination));
        paths
    }

    /// The same of one path, which rules name or patterns find: what begins to hold there.
    #[must_use]
    pub fn stated_at(&self, place: &Path) -> Vec<EffectivePath> {
        let mut own = self.fitting(place, true);
        own.retain(|(placed, closeness)| placed.moved.is_none() && closeness.depth == depth(place));
        let of_rank = |group: &[(&Placed, Specificity)]| {
            let answer = decision_of(place, group)?;
            let rule = answer.rules.first()?.rule.clone();
            Some(EffectivePath {
                source: place.to_owned(),
                destination: place.to_owned(),
                grant: answer.grant,
                rule,
            })
        };
        own.chunk_by(|(a, _), (b, _)| a.rank() == b.rank()).filter_map(of_rank).collect()
    }

    fn effective_at(&self, place: &Path) -> Option<EffectivePath> {
        let plain = self.fitting(place, false);
        let all = self.fitting(place, true);
        let by_paths = combine(place, &plain);
        let combined = combine(place, &all);
        if !by_paths.involves(place) && by_paths.grant() == combined.grant() {
            return None;
        }
        let answer = combined.holds?;
        Some(EffectivePath {
            source: answer.source,
            destination: place.to_owned(),
            grant: answer.grant,
            rule: answer.rules.first()?.rule.clone(),
        })
    }

    /// The patterns whose matches the policy speaks of; those wholly overridden are gone.
    #[must_use]
    pub fn globs(&self) -> Vec<EffectiveGlob> {
        self.globs_that(|placed| !self.wholly_overridden(placed))
    }

    /// The others: of the names that they find later ranks have said something, but not of what a link there leads to.
    #[must_use]
    pub fn overridden_globs(&self) -> Vec<EffectiveGlob> {
        self.globs_that(|placed| placed.moved.is_none() && self.wholly_overridden(placed))
    }

    fn globs_that(&self, wanted: impl Fn(&Placed) -> bool) -> Vec<EffectiveGlob> {
        let all = self.by_glob.iter().map(|&at| &self.rules[at]);
        all.filter(|placed| wanted(placed)).filter_map(effective_glob).collect()
    }

    /// Whether a later rank speaks of everything below the directory that a glob begins in.
    fn wholly_overridden(&self, glob: &Placed) -> bool {
        // Under a lock a later rule may be passed over, and then the glob holds after all.
        if self.rules.iter().any(|placed| placed.rule.strength == Strength::Locked) {
            return false;
        }
        let Some(effective) = effective_glob(glob) else {
            return true;
        };
        effective
            .inside(&effective.base)
            .ancestors()
            .filter_map(|place| self.by_path.get(place))
            .flatten()
            .any(|&at| self.rules[at].rank() > glob.rank())
    }

    /// The names that can't be created or changed. What that takes is the planner's business.
    #[must_use]
    pub fn protected(&self) -> Vec<Protected> {
        self.protect
            .iter()
            .filter_map(|placed| match &placed.place {
                Place::Path(path) => Some(Protected::Path(path.clone(), placed.rule.clone())),
                Place::Glob(_) => effective_glob(placed).map(Protected::Glob),
            })
            .collect()
    }

    /// The host path that the rule holding at `path` speaks of, also where that is refused.
    pub(crate) fn source_at(&self, path: &Path) -> PathBuf {
        combine(path, &self.fitting(path, true)).holds.map_or_else(|| path.to_owned(), |answer| answer.source)
    }

    /// What the policy would say of `path` with `added` at the end of the last layer.
    pub(crate) fn grant_with(&self, path: &Path, added: &[Placed]) -> Grant {
        let mut fitting = self.fitting(path, true);
        for placed in added {
            if let Some(closeness) = placed.fits(path) {
                fitting.push((placed, closeness));
            }
        }
        fitting.sort_by_key(|(placed, _)| placed.rank());
        combine(path, &fitting).grant()
    }
}

fn effective_glob(placed: &Placed) -> Option<EffectiveGlob> {
    let Place::Glob(pattern) = &placed.place else {
        return None;
    };
    let base = match &placed.moved {
        Some(moved) if moved.from.starts_with(pattern.base()) => moved.from.clone(),
        _ => pattern.base().to_owned(),
    };
    Some(EffectiveGlob {
        base,
        pattern: pattern.clone(),
        rule: placed.rule.clone(),
        moved: placed.moved.clone(),
    })
}
