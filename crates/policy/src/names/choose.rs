// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the layers add to the built-in names and take off them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{BuiltInName, Content, NamePattern, NameRule, NameRules, built_in};
use crate::layer::{Sourced, Strength, Tighten, prevailing};
use crate::suggest;

/// One entry of `protect_names` or `allow_names`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct NameChange {
    /// The name.
    pub name: NamePattern,
    /// Added to the protected names, or taken off them.
    pub protect: bool,
}

/// An entry of `allow_names` that is no protected name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("allow_names = {:?} ({}): no protected name is written so{}", entry.value.as_str(), entry.origin, meant(suggestion.as_deref()))]
pub struct UnknownName {
    /// The entry.
    pub entry: Sourced<NamePattern>,
    /// The nearest protected name.
    pub suggestion: Option<String>,
}

fn meant(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// Statements on one name: allowing it allows more.
impl Tighten for NameChange {
    fn loosens(&self, lock: &Self) -> bool {
        lock.protect && !self.protect
    }
}

/// The statements on each name, in the order in which they count.
fn by_name(changes: &[Sourced<NameChange>]) -> BTreeMap<&str, Vec<Sourced<NameChange>>> {
    let mut stated: BTreeMap<&str, Vec<Sourced<NameChange>>> = BTreeMap::new();
    for change in changes {
        stated.entry(change.value.name.as_str()).or_default().push(change.clone());
    }
    for changes in stated.values_mut() {
        // Names are all equally specific, so inside a rank protecting beats allowing.
        changes.sort_by_key(|change| (change.rank(), change.value.protect));
    }
    stated
}

/// The names that are protected: the built-in ones first, in their order.
pub(crate) fn choose(changes: &[Sourced<NameChange>]) -> NameRules {
    let mut stated = by_name(changes);
    let mut rules = Vec::with_capacity(built_in().len() + stated.len());
    for BuiltInName { rule, on, .. } in built_in() {
        let change = stated.remove(rule.path.as_str());
        match change.as_deref().and_then(prevailing) {
            None if *on => rules.push(rule.clone()),
            Some(change) if change.value.protect => {
                // What is known of the name holds whoever asks for its protection.
                let locked = change.strength == Strength::Locked;
                rules.push(NameRule { origin: change.origin.clone(), locked, ..rule.clone() });
            }
            _ => {}
        }
    }
    for (name, changes) in stated {
        if let Some(change) = prevailing(&changes).filter(|change| change.value.protect) {
            rules.push(NameRule {
                path: name.to_owned(),
                reason: "the policy protects it".to_owned(),
                origin: change.origin.clone(),
                carried: false,
                except_below: Vec::new(),
                content: Content::Never,
                anchored: false,
                locked: change.strength == Strength::Locked,
            });
        }
    }
    NameRules::new(rules)
}

/// The first entry of `allow_names` that speaks of a name which nobody protects.
pub(crate) fn unknown(changes: &[Sourced<NameChange>]) -> Option<UnknownName> {
    let known = || {
        let added = changes.iter().filter(|change| change.value.protect);
        built_in()
            .iter()
            .map(|name| name.rule.path.as_str())
            .chain(added.map(|change| change.value.name.as_str()))
    };
    let allowed = changes.iter().filter(|change| !change.value.protect);
    let entry = allowed.into_iter().find(|change| known().all(|name| name != change.value.name.as_str()))?;
    let word = entry.value.name.as_str();
    Some(UnknownName {
        suggestion: suggest::nearest(word, known()).map(str::to_owned),
        entry: Sourced {
            value: entry.value.name.clone(),
            origin: entry.origin.clone(),
            strength: entry.strength,
        },
    })
}
