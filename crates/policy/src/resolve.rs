// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resolves all rules of a policy on one host, ready for lookups.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::expand::{ExpandError, Expanded, GlobPattern, expand};
use crate::layer::{Layer, Rank, Sourced, Strength};
use crate::merge::Policy;
use crate::names::UnknownName;
use crate::rule::{Access, PathRule};

/// More rules than this, including the copies for mapped paths, are a mistake.
const MOST_RULES: usize = 1 << 16;

/// Why a policy can't be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A rule's pattern can't be expanded here, and leaving the rule out would allow more.
    #[error("{rule}")]
    Rule {
        /// The rule.
        rule: Box<PathRule>,
        /// What is wrong with it.
        source: ExpandError,
    },
    /// The working directory inside can't be expanded here.
    #[error("process.cwd = {:?} ({})", cwd.value.to_string(), cwd.origin)]
    Cwd {
        /// The statement.
        cwd: Box<Sourced<crate::pattern::PathPattern>>,
        /// What is wrong with it.
        source: ExpandError,
    },
    /// An entry of `allow_names` names no protected name.
    #[error(transparent)]
    Name(#[from] Box<UnknownName>),
    /// Rules and mapped paths together give too many rules.
    #[error("the policy has more than {MOST_RULES} rules")]
    TooMany,
}

/// A host path that appears at another path inside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moved {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
}

#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// One path inside, and everything below it.
    Path(PathBuf),
    /// Everything that matches on the host, and everything below it.
    Glob(GlobPattern),
}

/// A resolved rule.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) rule: PathRule,
    pub(crate) place: Place,
    pub(crate) moved: Option<Moved>,
    /// The rule is about a directory above the mapped one. So the rule that maps it is the more specific of the two.
    pub(crate) outer: bool,
}

/// How closely a rule matches a path. A greater value is closer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Specificity {
    /// The depth of the path at which the rule starts to apply.
    pub(crate) depth: usize,
    inner: bool,
    literal: bool,
    /// The length of the plain beginning, for comparing globs.
    prefix: usize,
}

impl Placed {
    pub(crate) const fn rank(&self) -> Rank {
        self.rule.rank()
    }

    /// Whether this is a copy of a lock, for a place to which the lock's host path is mapped.
    pub(crate) fn is_host_lock(&self) -> bool {
        self.rule.strength == Strength::Locked && self.moved.is_some() && self.rule.destination.is_none()
    }

    /// The host path that this rule shows at `path`.
    pub(crate) fn source_of(&self, path: &Path) -> PathBuf {
        match &self.moved {
            None => path.to_owned(),
            Some(moved) => match path.strip_prefix(&moved.to) {
                Ok(rest) => join(&moved.from, rest),
                Err(_) => path.to_owned(),
            },
        }
    }

    /// Whether the rule matches a path inside, and how closely.
    pub(crate) fn fits(&self, path: &Path) -> Option<Specificity> {
        match &self.place {
            Place::Path(place) => path.starts_with(place).then(|| Specificity {
                depth: depth(place),
                inner: !self.outer,
                literal: true,
                prefix: 0,
            }),
            Place::Glob(glob) => {
                let prefix = glob.base().as_os_str().len();
                let (depth, inner) = match &self.moved {
                    None => (depth(&glob.begins(path)?), true),
                    Some(moved) => {
                        let host = join(&moved.from, path.strip_prefix(&moved.to).ok()?);
                        let begins = glob.begins(&host)?;
                        match begins.strip_prefix(&moved.from) {
                            Ok(rest) => (depth(&moved.to) + rest.components().count(), true),
                            Err(_) => (depth(&moved.to), false),
                        }
                    }
                };
                Some(Specificity { depth, inner, literal: false, prefix })
            }
        }
    }
}

/// Like `Path::join`, but joining an empty path adds no slash.
pub(crate) fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_owned() } else { base.join(rest) }
}

pub(crate) fn depth(path: &Path) -> usize {
    path.components().count()
}

/// A resolved policy: it decides about any path.
#[derive(Debug, Clone, Default)]
pub struct Resolved {
    /// Sorted by rank, then in the order stated.
    pub(crate) rules: Vec<Placed>,
    /// The rules for one path, by that path.
    pub(crate) by_path: HashMap<PathBuf, Vec<usize>>,
    /// The rules that are globs.
    pub(crate) by_glob: Vec<usize>,
    /// The rules of `protect_paths`. They grant and refuse nothing.
    pub(crate) protect: Vec<Placed>,
    skipped: Vec<(PathRule, ExpandError)>,
    cwd: Option<Sourced<PathBuf>>,
}

impl Policy {
    /// Resolves every rule: replaces variables, compiles patterns, makes paths absolute.
    ///
    /// # Errors
    /// When a pattern refers to a value that this launch doesn't have (no runtime directory, no project), or
    /// `allow_names` names a name that isn't protected. A rule that only grants is left out instead, see
    /// [`Resolved::skipped`]: that allows less. A lock, or a rule that hides or denies, is never left out.
    pub fn resolve(&self, context: &Context) -> Result<Resolved, ResolveError> {
        if let Some(unknown) = self.unknown_name() {
            return Err(Box::new(unknown).into());
        }
        let mut resolved = Resolved::default();
        let mut placed = Vec::new();
        for rule in self.path_rules() {
            match place(rule, context) {
                Ok(rule) => placed.push(rule),
                Err(error @ (ExpandError::Unset { .. } | ExpandError::BadName { .. }))
                    if may_be_skipped(rule) =>
                {
                    resolved.skipped.push((rule.clone(), error));
                }
                Err(source) => {
                    return Err(ResolveError::Rule { rule: Box::new(rule.clone()), source });
                }
            }
        }
        follow_moves(&mut placed)?;
        // The sort is stable: later statements of a rank stay later.
        placed.sort_by_key(Placed::rank);
        let (protect, rules) =
            placed.into_iter().partition(|placed: &Placed| placed.rule.access == Access::Protect);
        resolved.protect = protect;
        resolved.rules = rules;
        for (at, rule) in resolved.rules.iter().enumerate() {
            match &rule.place {
                Place::Path(path) => resolved.by_path.entry(path.clone()).or_default().push(at),
                Place::Glob(_) => resolved.by_glob.push(at),
            }
        }
        resolved.cwd = self.resolve_cwd(context)?;
        Ok(resolved)
    }

    fn resolve_cwd(&self, context: &Context) -> Result<Option<Sourced<PathBuf>>, ResolveError> {
        let Some(cwd) = self.cwd() else {
            return Ok(None);
        };
        match one_place(&cwd.value, cwd.origin.layer, context) {
            Ok(value) => Ok(Some(Sourced { value, origin: cwd.origin, strength: cwd.strength })),
            Err(source) => Err(ResolveError::Cwd { cwd: Box::new(cwd), source }),
        }
    }
}

impl Resolved {
    /// Rules that were left out, with the reason: they grant something that this launch doesn't have, or that can't
    /// be part of a path.
    #[must_use]
    pub fn skipped(&self) -> &[(PathRule, ExpandError)] {
        &self.skipped
    }

    /// The working directory inside, if one is stated.
    #[must_use]
    pub const fn cwd(&self) -> Option<&Sourced<PathBuf>> {
        self.cwd.as_ref()
    }
}

fn may_be_skipped(rule: &PathRule) -> bool {
    let grants = matches!(rule.access, Access::Read | Access::Write | Access::Execute | Access::Tmpfs);
    grants && rule.strength != Strength::Locked
}

fn one_place(
    pattern: &crate::pattern::PathPattern,
    layer: Layer,
    context: &Context,
) -> Result<PathBuf, ExpandError> {
    match expand(pattern, layer, context)? {
        Expanded::Path(path) => Ok(path),
        // Such patterns are checked when they are made. The base is the nearest single path.
        Expanded::Glob(glob) => Ok(glob.base().to_owned()),
    }
}

fn place(rule: &PathRule, context: &Context) -> Result<Placed, ExpandError> {
    let layer = rule.origin.layer;
    let place = match expand(&rule.pattern, layer, context)? {
        Expanded::Path(path) => Place::Path(path),
        Expanded::Glob(glob) => Place::Glob(glob),
    };
    let (place, moved) = match (place, &rule.destination) {
        (Place::Path(from), Some(destination)) => {
            let to = one_place(destination, layer, context)?;
            let moved = (from != to).then(|| Moved { from, to: to.clone() });
            (Place::Path(to), moved)
        }
        (place, _) => (place, None),
    };
    Ok(Placed { rule: rule.clone(), place, moved, outer: false })
}

/// Copies refusing rules and locks on a host path to each place to which that path is mapped.
///
/// Without this, `read = ["/srv=/mnt"]` would bypass a lock on `/srv`, and a hidden `.env` would be visible in every
/// copy of its directory.
fn follow_moves(placed: &mut Vec<Placed>) -> Result<(), ResolveError> {
    let moves: BTreeSet<Moved> = placed.iter().filter_map(|p| p.moved.clone()).collect();
    let following: Vec<usize> = (0..placed.len()).filter(|&at| follows(&placed[at].rule)).collect();
    for moved in &moves {
        for &at in &following {
            if let Some(copy) = follow(&placed[at], moved) {
                placed.push(copy);
            }
        }
        if placed.len() > MOST_RULES {
            return Err(ResolveError::TooMany);
        }
    }
    Ok(())
}

fn follows(rule: &PathRule) -> bool {
    let refuses = matches!(rule.access, Access::Hide | Access::Deny | Access::Protect);
    (refuses || rule.strength == Strength::Locked) && rule.destination.is_none()
}

fn follow(placed: &Placed, moved: &Moved) -> Option<Placed> {
    let (place, outer) = match &placed.place {
        Place::Path(path) => {
            if let Ok(rest) = path.strip_prefix(&moved.from) {
                (Place::Path(join(&moved.to, rest)), false)
            } else if moved.from.starts_with(path) {
                (Place::Path(moved.to.clone()), true)
            } else {
                return None;
            }
        }
        Place::Glob(glob) => {
            let base = glob.base();
            if !base.starts_with(&moved.from) && !moved.from.starts_with(base) {
                return None;
            }
            (Place::Glob(glob.clone()), false)
        }
    };
    Some(Placed { rule: placed.rule.clone(), place, moved: Some(moved.clone()), outer })
}
