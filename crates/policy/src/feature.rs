// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which features a launch has: those that are asked for, and those that others need, without those that are
//! excluded.
//!
//! A feature is present if it can be reached from a requested feature without passing through an excluded one. So
//! excluding a feature also removes the features that only it needed. No counting is needed that could go wrong, and
//! circular needs are harmless.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::condition::{Condition, Fact};
use crate::layer::{Layer, Origin, Sourced};
use crate::settings::LayerPolicy;

/// More features than this in one launch are a mistake. A browser has about thirty.
const MOST: usize = 512;

/// A feature that is wanted or excluded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Want {
    /// Its name.
    pub name: String,
    /// True in `features`, false in `without`.
    pub wanted: bool,
}

/// Why a launch can't have the requested features.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError<E: std::error::Error + 'static> {
    /// A feature can't be read.
    #[error(transparent)]
    Find(#[from] E),
    /// There are too many.
    #[error("more than {MOST} features")]
    TooMany,
    /// Two of the features conflict.
    #[error(transparent)]
    Conflict(Box<Conflict>),
}

/// Two features that conflict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("features {one:?} and {other:?} conflict ({origin}): {}, and {}", Way(one_way), Way(other_way))]
pub struct Conflict {
    /// The feature that states the conflict.
    pub one: String,
    /// The feature that it conflicts with.
    pub other: String,
    /// The place of that statement.
    pub origin: Origin,
    /// The chain of features that leads to the first one, from the request on.
    pub one_way: Vec<String>,
    /// The chain that leads to the other one.
    pub other_way: Vec<String>,
}

/// `"okular" is asked for and needs "gtk3"`.
struct Way<'w>(&'w [String]);

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            [only] => write!(f, "{only:?} is asked for"),
            [first, rest @ ..] => {
                write!(f, "{first:?} is asked for")?;
                for next in rest {
                    write!(f, " and needs {next:?}")?;
                }
                Ok(())
            }
        }
    }
}

/// Why a feature isn't present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// A policy excludes it.
    Without(Origin),
    /// A condition doesn't hold.
    Condition(Sourced<Condition>),
}

/// The features of a launch.
#[derive(Debug, Clone, Default)]
pub struct Features {
    /// The policies of the present features. Each comes after the features that it needs.
    pub present: Vec<LayerPolicy>,
    /// The features that were requested or needed and aren't present, by name.
    pub left_out: BTreeMap<String, LeftOut>,
    /// For each feature, the first found feature that needs it. `None` for a requested one.
    pub needed_by: BTreeMap<String, Option<String>>,
}

/// Finds the features of a launch.
///
/// `asked`: the features that files and the command line want or exclude, lowest layer first. The later of two
/// statements about one feature wins. `find` reads a feature that comes from the given layer or a lower one. `holds`
/// evaluates a fact on the host, for a condition of the given layer.
///
/// # Errors
/// When a feature can't be read, or two present ones conflict.
pub fn resolve<E: std::error::Error + 'static>(
    asked: &[Sourced<Want>],
    find: &mut dyn FnMut(&str, Layer, &Origin) -> Result<LayerPolicy, E>,
    holds: &mut dyn FnMut(&Fact, Layer) -> bool,
) -> Result<Features, FeatureError<E>> {
    let mut search = Search { found: BTreeMap::new(), find, holds };
    // Conditions on other features refer to this set: the features that are reached if such conditions are ignored.
    let all = search.reach(asked, None)?.needed_by;
    let reached = search.reach(asked, Some(&all))?;
    let mut found = search.found;
    check_conflicts(&found, &reached)?;
    let mut order = Vec::new();
    for root in &reached.roots {
        visit(root, &found, &reached, &mut BTreeSet::new(), &mut order);
    }
    Ok(Features {
        present: order.into_iter().filter_map(|name| found.remove(&name)).collect(),
        left_out: reached.left_out,
        needed_by: reached.needed_by,
    })
}

/// The highest layer from which a feature may come if something of this layer wants it.
///
/// A feature that an administrator wants can't come from a user, or else its locks would be lost. The built-in layer
/// locks nothing, and a user's feature may replace a shipped one.
const fn ceiling(layer: Layer) -> Layer {
    match layer {
        Layer::Distribution => Layer::Distribution,
        Layer::Administrator => Layer::Administrator,
        _ => Layer::User,
    }
}

/// The features read so far, and functions to read more and to evaluate facts.
struct Search<'f, E> {
    found: BTreeMap<String, LayerPolicy>,
    find: &'f mut dyn FnMut(&str, Layer, &Origin) -> Result<LayerPolicy, E>,
    holds: &'f mut dyn FnMut(&Fact, Layer) -> bool,
}

#[derive(Default)]
struct Reached {
    left_out: BTreeMap<String, LeftOut>,
    needed_by: BTreeMap<String, Option<String>>,
    /// The requested features, in the order of the requests.
    roots: Vec<String>,
}

/// A feature that is wanted.
struct Pending {
    name: String,
    ceiling: Layer,
    origin: Origin,
    by: Option<String>,
}

impl Pending {
    fn new(want: &Sourced<Want>, by: Option<&str>) -> Self {
        Self {
            name: want.value.name.clone(),
            ceiling: ceiling(want.origin.layer),
            origin: want.origin.clone(),
            by: by.map(str::to_owned),
        }
    }
}

impl<E: std::error::Error + 'static> Search<'_, E> {
    /// All features that can be reached from the requested ones. `features` is the set for conditions on features.
    /// Without it, such conditions count as true.
    fn reach(
        &mut self,
        asked: &[Sourced<Want>],
        features: Option<&BTreeMap<String, Option<String>>>,
    ) -> Result<Reached, FeatureError<E>> {
        // The last statement about each feature.
        let stated: BTreeMap<&str, &Sourced<Want>> =
            asked.iter().map(|want| (want.value.name.as_str(), want)).collect();
        // If a lower layer also wants a feature, it may have to be read again, from a lower layer. That changes the
        // result, so the search starts again. It ends, because each restart moves a feature to a lower layer.
        'anew: loop {
            let mut reached = Reached::default();
            let wanted = asked.iter().filter(|want| want.value.wanted);
            let mut pending: VecDeque<Pending> = wanted.map(|want| Pending::new(want, None)).collect();
            while let Some(Pending { name, ceiling, origin, by }) = pending.pop_front() {
                if let Some(want) = stated.get(name.as_str())
                    && !want.value.wanted
                {
                    reached.left_out.insert(name, LeftOut::Without(want.origin.clone()));
                    continue;
                }
                let known = self.found.get(&name).map(|found| found.layer);
                if known.is_none_or(|layer| layer > ceiling) {
                    let policy = (self.find)(&name, ceiling, &origin)?;
                    self.found.insert(name.clone(), policy);
                    if known.is_some() {
                        continue 'anew;
                    }
                    if self.found.len() > MOST {
                        return Err(FeatureError::TooMany);
                    }
                }
                if reached.needed_by.contains_key(&name) || reached.left_out.contains_key(&name) {
                    continue;
                }
                let Some(found) = self.found.get(&name) else { continue };
                let fails = found.when.iter().find(|condition| {
                    let Condition { fact, negated } = &condition.value;
                    let holds = match (fact, features) {
                        (Fact::Feature(_), None) => return false,
                        (Fact::Feature(name), Some(all)) => all.contains_key(name),
                        (fact, _) => (self.holds)(fact, found.layer),
                    };
                    holds == *negated
                });
                if let Some(condition) = fails {
                    reached.left_out.insert(name, LeftOut::Condition(condition.clone()));
                    continue;
                }
                let needs = found.features.iter().filter(|want| want.value.wanted);
                pending.extend(needs.map(|want| Pending::new(want, Some(&name))));
                if by.is_none() {
                    reached.roots.push(name.clone());
                }
                reached.needed_by.insert(name, by);
            }
            return Ok(reached);
        }
    }
}

fn check_conflicts<E: std::error::Error + 'static>(
    found: &BTreeMap<String, LayerPolicy>,
    reached: &Reached,
) -> Result<(), FeatureError<E>> {
    for name in reached.needed_by.keys() {
        let conflicts = found.get(name).into_iter().flat_map(|found| &found.conflicts);
        let mut there = conflicts.filter(|conflict| reached.needed_by.contains_key(&conflict.value));
        if let Some(conflict) = there.next() {
            return Err(FeatureError::Conflict(Box::new(Conflict {
                one_way: reached.way(name),
                other_way: reached.way(&conflict.value),
                one: name.clone(),
                other: conflict.value.clone(),
                origin: conflict.origin.clone(),
            })));
        }
    }
    Ok(())
}

impl Reached {
    /// The chain of features from a requested one to this one.
    fn way(&self, name: &str) -> Vec<String> {
        let mut way = vec![name.to_owned()];
        // There are no circles: each feature was reached from one that was reached earlier.
        while let Some(Some(by)) = way.last().and_then(|last| self.needed_by.get(last)) {
            way.push(by.clone());
        }
        way.reverse();
        way
    }
}

/// Adds a feature after all features that it needs.
fn visit(
    name: &str,
    found: &BTreeMap<String, LayerPolicy>,
    reached: &Reached,
    seen: &mut BTreeSet<String>,
    order: &mut Vec<String>,
) {
    if !reached.needed_by.contains_key(name) || order.iter().any(|known| known == name) {
        return;
    }
    if !seen.insert(name.to_owned()) {
        return;
    }
    for needed in found.get(name).into_iter().flat_map(|found| &found.features) {
        visit(&needed.value.name, found, reached, seen, order);
    }
    order.push(name.to_owned());
}

#[cfg(test)]
mod tests;
