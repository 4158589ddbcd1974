// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All layers together, and what holds among them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::environment::Filter;
use crate::layer::{Layer, Origin, Sourced, Strength, Tighten, prevailing};
use crate::limits::{Amount, Limit};
use crate::names::{NameChange, NameRules, UnknownName, choose};
use crate::pattern::PathPattern;
use crate::rule::PathRule;
use crate::settings::{LayerPolicy, Settings};
use crate::value::{Hostname, NetworkMode, Protect, SyscallRule, View};

/// One of the layers a policy was merged from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The layer.
    pub layer: Layer,
    /// Its file.
    pub file: Option<Arc<Path>>,
    /// `name`.
    pub name: Option<Sourced<String>>,
    /// `description`.
    pub description: Option<Sourced<String>>,
}

/// The merged result of all layers. Nothing is thrown away: what was overridden can be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    parts: Vec<Part>,
    settings: Settings,
}

/// The calls added to and taken from the built-in list of refused ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyscallChanges {
    /// Taken from the list.
    pub allow: Vec<Sourced<String>>,
    /// Added to it.
    pub deny: Vec<Sourced<String>>,
}

/// Merges layers, given in any order; those of one layer later in `layers` win.
///
/// Associative: `merge([a, b, c])` equals `merge([a]).combine(merge([b, c]))`.
#[must_use]
pub fn merge(layers: Vec<LayerPolicy>) -> Policy {
    layers.into_iter().map(Policy::from).fold(Policy::default(), Policy::combine)
}

impl From<LayerPolicy> for Policy {
    fn from(layer: LayerPolicy) -> Self {
        let mut policy = Self {
            parts: vec![Part {
                layer: layer.layer,
                file: layer.file,
                name: layer.name,
                description: layer.description,
            }],
            settings: Settings::default(),
        };
        policy.settings.append(layer.settings);
        policy
    }
}

/// The value that holds if nobody states one.
fn or_built_in<T: Clone + Tighten>(candidates: &[Sourced<T>], value: T) -> Sourced<T> {
    prevailing(candidates).cloned().unwrap_or_else(|| Sourced {
        value,
        origin: Origin::built_in(),
        strength: Strength::Default,
    })
}

impl Policy {
    /// Adds the layers of `other` behind the own ones of the same rank.
    #[must_use]
    pub fn combine(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self.parts.sort_by_key(|part| part.layer);
        self.settings.append(other.settings);
        self
    }

    /// What the policy was merged from, lowest layer first.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Every statement, also the overridden ones, sorted by rank.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The name given by the highest layer that has one.
    #[must_use]
    pub fn name(&self) -> Option<&Sourced<String>> {
        self.parts.iter().rev().find_map(|part| part.name.as_ref())
    }

    /// What of the host is there; [`View::System`] if nobody says.
    #[must_use]
    pub fn view(&self) -> Sourced<View> {
        or_built_in(&self.settings.view, View::System)
    }

    /// What of the network is there; nothing if nobody says.
    #[must_use]
    pub fn network(&self) -> Sourced<NetworkMode> {
        or_built_in(&self.settings.network, NetworkMode::None)
    }

    /// What keeps protected names from being made and changed; the broker if nobody says.
    ///
    /// Locking a name is locking what is stated up to there, or else no lock would keep it.
    #[must_use]
    pub fn protect(&self) -> Sourced<Protect> {
        let stated = &self.settings.protect;
        let locked =
            |change: &&Sourced<NameChange>| change.value.protect && change.strength == Strength::Locked;
        let Some(lock) = self.settings.names.iter().find(locked) else {
            return or_built_in(stated, Protect::Broker);
        };
        let later = stated.partition_point(|statement| statement.origin.layer <= lock.origin.layer);
        let (before, after) = stated.split_at(later);
        let floor = or_built_in(before, Protect::Broker);
        let mut all = before.to_vec();
        if floor.strength != Strength::Locked {
            all.push(Sourced { strength: Strength::Locked, origin: lock.origin.clone(), ..floor });
        }
        all.extend_from_slice(after);
        or_built_in(&all, Protect::Broker)
    }

    /// The names that are protected, whatever [`Policy::protect`] says: the built-in ones with what
    /// `protect_names` and `allow_names` change.
    #[must_use]
    pub fn names(&self) -> NameRules {
        choose::choose(&self.settings.names)
    }

    /// An entry of `allow_names` that no protected name is written like, if there is one.
    #[must_use]
    pub fn unknown_name(&self) -> Option<UnknownName> {
        choose::unknown(&self.settings.names)
    }

    /// The machine's name inside.
    #[must_use]
    pub fn hostname(&self) -> Option<Sourced<Hostname>> {
        prevailing(&self.settings.hostname).cloned()
    }

    /// The user's number inside.
    #[must_use]
    pub fn uid(&self) -> Option<Sourced<u32>> {
        prevailing(&self.settings.uid).cloned()
    }

    /// The group's number inside.
    #[must_use]
    pub fn gid(&self) -> Option<Sourced<u32>> {
        prevailing(&self.settings.gid).cloned()
    }

    /// The working directory inside; expanded by [`Policy::resolve`].
    #[must_use]
    pub fn cwd(&self) -> Option<Sourced<PathPattern>> {
        prevailing(&self.settings.cwd).cloned()
    }

    /// Whether to launch even if a guarantee can't be had; no if nobody says.
    #[must_use]
    pub fn best_effort(&self) -> Sourced<bool> {
        or_built_in(&self.settings.best_effort, false)
    }

    /// Whether descriptors that are terminals are kept; yes if nobody says.
    #[must_use]
    pub fn inherit_terminal(&self) -> Sourced<bool> {
        or_built_in(&self.settings.inherit_terminal, true)
    }

    /// The limits. One that is stated to be unlimited is there as [`Amount::Unlimited`].
    #[must_use]
    pub fn limits(&self) -> BTreeMap<Limit, Sourced<Amount>> {
        let mut stated: BTreeMap<Limit, Vec<Sourced<Amount>>> = BTreeMap::new();
        for limit in &self.settings.limits {
            let (kind, amount) = limit.value;
            stated.entry(kind).or_default().push(Sourced {
                value: amount,
                origin: limit.origin.clone(),
                strength: limit.strength,
            });
        }
        stated.into_iter().filter_map(|(kind, amounts)| Some((kind, prevailing(&amounts)?.clone()))).collect()
    }

    /// The calls added to and taken from the built-in list, by name.
    #[must_use]
    pub fn syscalls(&self) -> SyscallChanges {
        let mut stated: BTreeMap<&str, Vec<Sourced<SyscallRule>>> = BTreeMap::new();
        for rule in &self.settings.syscalls {
            let rules = stated.entry(&rule.value.name).or_default();
            rules.push(rule.clone());
        }
        let mut changes = SyscallChanges::default();
        for (name, mut rules) in stated {
            // Names are all equally specific, so inside a rank a refusal beats a permission.
            rules.sort_by_key(|rule| (rule.rank(), !rule.value.allow));
            let Some(rule) = prevailing(&rules) else {
                continue;
            };
            let list = if rule.value.allow { &mut changes.allow } else { &mut changes.deny };
            list.push(Sourced {
                value: name.to_owned(),
                origin: rule.origin.clone(),
                strength: rule.strength,
            });
        }
        changes
    }

    /// The filter of environment variables.
    #[must_use]
    pub fn environment(&self) -> Filter {
        Filter::new(self.settings.environment.clone())
    }

    /// The rules on paths, also the overridden ones, sorted by rank.
    #[must_use]
    pub fn path_rules(&self) -> &[PathRule] {
        &self.settings.paths
    }
}
