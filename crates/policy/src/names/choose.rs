// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies what the layers add to the built-in names and remove from them.

use serde::Serialize;

use super::builtin::groups;
use super::{BuiltInName, Content, GROUP, NameRule, NameRules, NameSubject, built_in};
use crate::layer::{Sourced, Strength, Tighten, prevailing};
use crate::suggest;

/// One entry of `protect_names` or `allow_names`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct NameChange {
    /// The name or group.
    pub name: NameSubject,
    /// Added to the protected names, or removed from them.
    pub protect: bool,
}

/// An entry of `allow_names` that names no protected name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "allow_names = {:?} ({}): there is no such protected name{}",
    entry.value.as_str(), entry.origin, meant(suggestion.as_deref())
)]
pub struct UnknownName {
    /// The entry.
    pub entry: Sourced<NameSubject>,
    /// The most similar protected name.
    pub suggestion: Option<String>,
}

fn meant(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// For statements about one name: allowing it allows more.
impl Tighten for NameChange {
    fn loosens(&self, lock: &Self) -> bool {
        lock.protect && !self.protect
    }
}

/// The statement that wins among those about one name.
fn holding<'c>(changes: impl Iterator<Item = &'c Sourced<NameChange>>) -> Option<Sourced<NameChange>> {
    let mut changes: Vec<Sourced<NameChange>> = changes.cloned().collect();
    // Inside a rank, a statement about a name is more specific than one about its group. Then protecting beats
    // allowing.
    changes.sort_by_key(|change| {
        (change.rank(), matches!(change.value.name, NameSubject::Name(_)), change.value.protect)
    });
    prevailing(&changes).cloned()
}

/// The statement that protects a built-in name or allows it. `None` if no statement names it.
pub(crate) fn stated(changes: &[Sourced<NameChange>], name: &BuiltInName) -> Option<Sourced<NameChange>> {
    holding(changes.iter().filter(|change| change.value.name.covers(name)))
}

/// The protected names: the built-in ones first, in their order.
pub(crate) fn choose(changes: &[Sourced<NameChange>]) -> NameRules {
    let mut rules = Vec::with_capacity(built_in().len() + changes.len());
    for name in built_in() {
        let BuiltInName { rule, on, .. } = name;
        match stated(changes, name) {
            None if *on => rules.push(rule.clone()),
            Some(change) if change.value.protect => {
                // The known details of the name are kept, whichever layer asks for its protection.
                let locked = change.strength == Strength::Locked;
                rules.push(NameRule { origin: change.origin, locked, ..rule.clone() });
            }
            _ => {}
        }
    }
    let is_built_in = |name: &str| built_in().iter().any(|known| known.rule.path == name);
    let mut others: Vec<&NameSubject> = changes
        .iter()
        .map(|change| &change.value.name)
        .filter(|name| matches!(name, NameSubject::Name(own) if !is_built_in(own.as_str())))
        .collect();
    others.sort_unstable();
    others.dedup();
    for name in others {
        let change = holding(changes.iter().filter(|change| change.value.name == *name));
        if let Some(change) = change.filter(|change| change.value.protect) {
            rules.push(NameRule {
                path: name.as_str().to_owned(),
                reason: "the policy protects it".to_owned(),
                locked: change.strength == Strength::Locked,
                origin: change.origin,
                carried: false,
                except_below: Vec::new(),
                content: Content::Never,
                anchored: false,
            });
        }
    }
    NameRules::new(rules)
}

/// The first entry of `allow_names` for a name that no statement protects.
pub(crate) fn unknown(changes: &[Sourced<NameChange>]) -> Option<UnknownName> {
    let known = || {
        let added = changes.iter().filter(|change| change.value.protect);
        built_in()
            .iter()
            .map(|name| name.rule.path.as_str())
            .chain(added.map(|change| change.value.name.as_str()))
    };
    let names = |change: &&Sourced<NameChange>| matches!(change.value.name, NameSubject::Name(_));
    let mut allowed = changes.iter().filter(|change| !change.value.protect).filter(names);
    let entry = allowed.find(|change| known().all(|name| name != change.value.name.as_str()))?;
    let word = entry.value.name.as_str();
    Some(UnknownName {
        suggestion: match groups().find(|group| *group == word) {
            Some(group) => Some(format!("{GROUP}{group}")),
            None => suggest::nearest(word, known()).map(str::to_owned),
        },
        entry: Sourced {
            value: entry.value.name.clone(),
            origin: entry.origin.clone(),
            strength: entry.strength,
        },
    })
}
