// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules put in their places on one host, ready to be asked.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::expand::{ExpandError, Expanded, GlobPattern, expand};
use crate::layer::{Layer, Rank, Sourced, Strength};
use crate::merge::Policy;
use crate::names::UnknownName;
use crate::rule::{Access, PathRule};

/// More rules than this, the copies for mapped places included, are a mistake.
const MOST_RULES: usize = 1 << 16;

/// Why a policy can't be put in place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A rule's pattern stands for nothing here, and leaving the rule out would allow more.
    #[error("{rule}")]
    Rule {
        /// The rule.
        rule: Box<PathRule>,
        /// What is wrong with it.
        source: ExpandError,
    },
    /// The working directory inside stands for nothing here.
    #[error("process.cwd = {:?} ({})", cwd.value.to_string(), cwd.origin)]
    Cwd {
        /// The statement.
        cwd: Box<Sourced<crate::pattern::PathPattern>>,
        /// What is wrong with it.
        source: ExpandError,
    },
    /// An entry of `allow_names` that was meant to allow something, and doesn't.
    #[error(transparent)]
    Name(#[from] Box<UnknownName>),
    /// Rules times mapped places are too many.
    #[error("the policy comes to more than {MOST_RULES} rules")]
    TooMany,
}

/// A host path that appears elsewhere inside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moved {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
}

#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// One path inside, and all below it.
    Path(PathBuf),
    /// What matches on the host, and all below it.
    Glob(GlobPattern),
}

/// A rule in its place.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) rule: PathRule,
    pub(crate) place: Place,
    pub(crate) moved: Option<Moved>,
    /// The rule speaks of a directory above the one that was moved, so that the rule that moved
    /// it is the more specific of the two.
    pub(crate) outer: bool,
}

/// How closely a rule fits a path; greater is closer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Specificity {
    /// How deep the path lies at which the rule begins to hold.
    pub(crate) depth: usize,
    inner: bool,
    literal: bool,
    /// The length of the plain beginning, to compare globs.
    prefix: usize,
}

impl Placed {
    pub(crate) const fn rank(&self) -> Rank {
        self.rule.rank()
    }

    /// Whether this is the copy of a lock, for a place that its host path is mapped to.
    pub(crate) fn is_host_lock(&self) -> bool {
        self.rule.strength == Strength::Locked && self.moved.is_some() && self.rule.destination.is_none()
    }

    /// What of the host is at `path` inside, by this rule.
    pub(crate) fn source_of(&self, path: &Path) -> PathBuf {
        match &self.moved {
            None => path.to_owned(),
            Some(moved) => match path.strip_prefix(&moved.to) {
                Ok(rest) => join(&moved.from, rest),
                Err(_) => path.to_owned(),
            },
        }
    }

    /// Whether, and how closely, the rule fits a path inside.
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

/// As `Path::join`, but joining nothing adds no slash.
pub(crate) fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_owned() } else { base.join(rest) }
}

pub(crate) fn depth(path: &Path) -> usize {
    path.components().count()
}

/// A policy in place: answers what it says of any path.
#[derive(Debug, Clone, Default)]
pub struct Resolved {
    /// Sorted by rank, then as stated.
    pub(crate) rules: Vec<Placed>,
    /// The rules that begin at one path, by that path.
    pub(crate) by_path: HashMap<PathBuf, Vec<usize>>,
    /// The rules that are globs.
    pub(crate) by_glob: Vec<usize>,
    /// The rules of `protect_paths`, which grant and refuse nothing.
    pub(crate) protect: Vec<Placed>,
    skipped: Vec<(PathRule, ExpandError)>,
    cwd: Option<Sourced<PathBuf>>,
}

impl Policy {
    /// Puts every rule in its place: variables replaced, patterns compiled, paths absolute.
    ///
    /// # Errors
    /// When a pattern refers to what this launch doesn't have (no runtime directory, no project), or
    /// `allow_names` to a name that isn't protected. A rule that only grants is left out instead, see [`Resolved::skipped`]: without it less is
    /// allowed. A lock, or a rule that hides or denies, is never left out.
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
        // Stable: of statements of one rank the later ones stay later.
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
    /// Rules left out because they grant what this launch doesn't have, or what can't be a path in it, and what that
    /// is.
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
        // Such patterns are checked when they are made; the base is the nearest that is one path.
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

/// Lets rules that refuse, and locks, follow a host path to where it is mapped.
///
/// Without this a lock on `/srv` would be undone by `read = ["/srv=/mnt"]`, and a hidden `.env`
/// would show in every copy of its directory.
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
