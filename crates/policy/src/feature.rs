// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which features a launch has: asked for, needed by others, done without.
//!
//! A feature is there as long as something that is there needs it, which is to say: those are there that can be
//! reached from what is asked for without passing through one that is left out. So leaving one out takes exactly what
//! only it needed along, without any counting that could go wrong, and circles are harmless.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::condition::{Condition, Fact};
use crate::layer::{Layer, Origin, Sourced};
use crate::settings::LayerPolicy;

/// More features than this in one launch are a mistake; a browser has some thirty.
const MOST: usize = 512;

/// A feature that is wanted, or isn't.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Want {
    /// Its name.
    pub name: String,
    /// `features` or `without`.
    pub wanted: bool,
}

/// Why a launch can't have the features that it asks for.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError<E: std::error::Error + 'static> {
    /// One can't be read.
    #[error(transparent)]
    Find(#[from] E),
    /// There are too many.
    #[error("more than {MOST} features")]
    TooMany,
    /// Two of them can't be there together.
    #[error(transparent)]
    Conflict(Box<Conflict>),
}

/// Two features that can't be there together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("features {one:?} and {other:?} conflict ({origin}): {}, and {}", Way(one_way), Way(other_way))]
pub struct Conflict {
    /// The one that says so.
    pub one: String,
    /// The one it speaks of.
    pub other: String,
    /// Where it says so.
    pub origin: Origin,
    /// What needs the one, up to what was asked for.
    pub one_way: Vec<String>,
    /// What needs the other.
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

/// Why a feature isn't there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// Somebody does without it.
    Without(Origin),
    /// A condition doesn't hold.
    Condition(Sourced<Condition>),
}

/// The features of a launch.
#[derive(Debug, Clone, Default)]
pub struct Features {
    /// What they say; each after those that it needs.
    pub present: Vec<LayerPolicy>,
    /// Those that were asked for or needed and aren't there, by name.
    pub left_out: BTreeMap<String, LeftOut>,
    /// What each is needed by, the first that was found; nothing for what was asked for.
    pub needed_by: BTreeMap<String, Option<String>>,
}

/// Finds the features of a launch.
///
/// `asked`: what files and the command line want and do without, lowest layer first; of two statements about one
/// feature the later holds. `find` reads a feature of a layer not above the one given. `holds` looks at the host, for a
/// condition that a layer states.
///
/// # Errors
/// When a feature can't be read, or two that are there conflict.
pub fn resolve<E: std::error::Error + 'static>(
    asked: &[Sourced<Want>],
    find: &mut dyn FnMut(&str, Layer, &Origin) -> Result<LayerPolicy, E>,
    holds: &mut dyn FnMut(&Fact, Layer) -> bool,
) -> Result<Features, FeatureError<E>> {
    let mut search = Search { found: BTreeMap::new(), find, holds };
    // What conditions on other features refer to: everything that is reached without such conditions.
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

/// Up to which layer a feature may come from that is wanted by something of this layer.
///
/// What an administrator builds on can't come from a user, or else its locks would be gone. What is built in locks
/// nothing, and a user's feature may well take the place of a shipped one.
const fn ceiling(layer: Layer) -> Layer {
    match layer {
        Layer::Distribution => Layer::Distribution,
        Layer::Administrator => Layer::Administrator,
        _ => Layer::User,
    }
}

/// What has been read, and how to read and ask more.
struct Search<'f, E> {
    found: BTreeMap<String, LayerPolicy>,
    find: &'f mut dyn FnMut(&str, Layer, &Origin) -> Result<LayerPolicy, E>,
    holds: &'f mut dyn FnMut(&Fact, Layer) -> bool,
}

#[derive(Default)]
struct Reached {
    left_out: BTreeMap<String, LeftOut>,
    needed_by: BTreeMap<String, Option<String>>,
    /// What was asked for, in the order in which it was.
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
    /// Everything that can be reached from what is asked for. `features`: those that there are for conditions; without
    /// it such conditions hold.
    fn reach(
        &mut self,
        asked: &[Sourced<Want>],
        features: Option<&BTreeMap<String, Option<String>>>,
    ) -> Result<Reached, FeatureError<E>> {
        // The last statement about each.
        let stated: BTreeMap<&str, &Sourced<Want>> =
            asked.iter().map(|want| (want.value.name.as_str(), want)).collect();
        // One that a lower layer wants, too, may have to be read again, from there: then all is different, and begins
        // anew. Each time a feature comes from a lower layer, so it ends.
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
    /// What needs a feature, from what was asked for to itself.
    fn way(&self, name: &str) -> Vec<String> {
        let mut way = vec![name.to_owned()];
        // Each was reached by one that had been reached before: no circles.
        while let Some(Some(by)) = way.last().and_then(|last| self.needed_by.get(last)) {
            way.push(by.clone());
        }
        way.reverse();
        way
    }
}

/// Adds a feature behind all that it needs.
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
