// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides what the policy grants at a path. Precedence between rules is decided here and nowhere else.
//!
//! The rules that match a path are grouped by rank (layer, then strength). Inside a rank the closest rules decide. A
//! rule is closer if the path at which it starts to apply is deeper; a plain path is closer than a glob; between
//! globs, the one with the longer plain beginning is closer. If several rules are equally close, deny beats hide
//! beats tmpfs, and grants add up. The highest rank wins, with one exception: a lock limits all later layers. They
//! may tighten what it states and never loosen it.

use std::path::{Path, PathBuf};

use crate::expand::GlobPattern;
use crate::layer::{Layer, Rank, Strength};
use crate::resolve::{Moved, Place, Placed, Resolved, Specificity, depth, join};
use crate::rule::{Access, Grant, PathRule};

/// The policy's decision about one path, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The decision.
    pub grant: Grant,
    /// The host path that is shown, if access is allowed.
    pub source: Option<PathBuf>,
    /// The rules that decided. Empty if no rule matches the path.
    pub because: Vec<PathRule>,
    /// Rules that match the path and were overridden, lowest rank first.
    pub overridden: Vec<PathRule>,
    /// The lock on this path, whether or not it changed the decision.
    pub lock: Option<PathRule>,
    /// The rule that protects this name from being created or changed.
    pub protected: Option<PathRule>,
}

/// A path that the launch must set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectivePath {
    /// The path on the host.
    pub source: PathBuf,
    /// The path inside.
    pub destination: PathBuf,
    /// What the path must become.
    pub grant: Grant,
    /// The rule that decided.
    pub rule: PathRule,
}

/// A pattern whose matches the launch must set up.
///
/// Walk [`base`](Self::base) on the host. For each path that [`matches`](Self::matches), call [`Resolved::decide`]
/// with the result of [`inside`](Self::inside).
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
    /// Whether the rule starts to apply at this host path.
    #[must_use]
    pub fn matches(&self, host: &Path) -> bool {
        self.pattern.matches(host) || (host == self.base && self.pattern.begins(host).is_some())
    }

    /// Whether its matches appear inside at other paths than on the host.
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

    /// How many names below the base the deepest match lies. `None`: at any depth.
    #[must_use]
    pub fn depth(&self) -> Option<usize> {
        let skipped = depth(&self.base).saturating_sub(depth(self.pattern.base()));
        self.pattern.depth().map(|names| names.saturating_sub(skipped))
    }
}

/// A protected path, or a glob of `protect_paths`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protected {
    /// This path inside.
    Path(PathBuf, PathRule),
    /// Every path that matches.
    Glob(EffectiveGlob),
}

/// The decision of the rules of one rank.
struct RankDecision<'a> {
    grant: Grant,
    source: PathBuf,
    /// The rules that decided.
    rules: Vec<&'a Placed>,
    /// All rules that influenced the decision: rules that a lock replaced, and the locks themselves. Without any of
    /// them the decision could be different.
    spoke: Vec<&'a Placed>,
}

impl<'a> RankDecision<'a> {
    /// Removes what a lock doesn't allow.
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

/// The decision over several ranks.
#[derive(Default)]
struct Combined<'a> {
    holds: Option<RankDecision<'a>>,
    /// The lock on the path inside.
    lock: Option<(Layer, RankDecision<'a>)>,
    /// Locks on host paths that rules may have mapped to this path. They limit what is shown from that host path.
    /// They state nothing about the path itself, so they never grant access.
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

    /// Whether a rule is considered. If a lock allows a host path here, a later rule may not show another host path
    /// in its place.
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

    /// The locks that matter here.
    fn locks(&self) -> impl Iterator<Item = &RankDecision<'a>> {
        let source = self.holds.as_ref().map(|answer| &answer.source);
        let host = self.host_locks.iter().filter(move |(_, lock)| Some(&lock.source) == source);
        self.lock.iter().chain(host).map(|(_, answer)| answer)
    }

    /// Whether a rule that starts to apply at `place` influenced the decision.
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

/// The decision of the closest rules of one rank about `path`.
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
    // Only one host path can be shown at a place: the last one stated.
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

/// Combines the ranks. `fitting` is sorted by rank.
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
    /// The rules that match a path, sorted by rank and then in the order stated.
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

    /// The policy's decision about one path inside the sandbox, with its reasons.
    ///
    /// `path` must be absolute, without `.`, `..` and links; the caller has resolved those.
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

    /// The paths that rules name, after precedence. Completely overridden ones are left out. Sorted from shallow to
    /// deep, which is the order for mounting.
    ///
    /// For any path inside, the deepest of these that is an ancestor decides. Only a match of one of
    /// [`globs`](Self::globs) can override it.
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

    /// The decision of each rank alone, for each path that a rule names without mapping it elsewhere. Lower ranks of
    /// a path come first.
    #[must_use]
    pub fn stated(&self) -> Vec<EffectivePath> {
        let mut paths: Vec<EffectivePath> =
            self.by_path.keys().flat_map(|place| self.stated_at(place)).collect();
        paths.sort_by(|a, b| a.destination.cmp(&b.destination));
        paths
    }

    /// The same for one path that a rule names or a pattern finds. Only rules that start to apply exactly there
    /// count.
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

    /// The patterns whose matches must be set up. Completely overridden patterns are left out.
    #[must_use]
    pub fn globs(&self) -> Vec<EffectiveGlob> {
        self.globs_that(|placed| !self.wholly_overridden(placed))
    }

    /// The overridden patterns. Later ranks override them at the names that they find, but not at the target of a
    /// link there.
    #[must_use]
    pub fn overridden_globs(&self) -> Vec<EffectiveGlob> {
        self.globs_that(|placed| placed.moved.is_none() && self.wholly_overridden(placed))
    }

    fn globs_that(&self, wanted: impl Fn(&Placed) -> bool) -> Vec<EffectiveGlob> {
        let all = self.by_glob.iter().map(|&at| &self.rules[at]);
        all.filter(|placed| wanted(placed)).filter_map(effective_glob).collect()
    }

    /// Whether a rule of a later rank applies to everything below the base of a glob.
    fn wholly_overridden(&self, glob: &Placed) -> bool {
        // With a lock, a later rule may be skipped, and then the glob applies after all.
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

    /// The names that can't be created or changed. The planner decides how to protect them.
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

    /// The host path of the rule that decides at `path`, even if access is refused.
    pub(crate) fn source_at(&self, path: &Path) -> PathBuf {
        combine(path, &self.fitting(path, true)).holds.map_or_else(|| path.to_owned(), |answer| answer.source)
    }

    /// The policy's grant at `path` if `added` were stated at the end of the last layer.
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
