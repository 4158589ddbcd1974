// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Definitions in a package: one profile with everything it inherits, as text, and the policy of a launch made from them.
//!
//! Conditions of features that concern packed files are decided when the package is made. Conditions about a session or
//! a machine (variables, devices, sockets) stay, and are decided where the package runs.

use super::loader::Loader;
use super::{LayerError, Loaded, Request, Sort, parse};
use crate::facts::Facts;
use crate::package;
use palisade_policy::feature::{self, FeatureError, Features, LeftOut, Want};
use palisade_policy::{Fact, Layer, LayerPolicy, Origin, Sourced};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The text of a feature that isn't in the package: its condition never holds, so it states nothing.
const NEVER: &str = "schema = 1\nwhen = [\"not exists /\"]\n";
/// Statements that apply in every package unless its profile overrides them.
const BASE: &str = include_str!("packed.toml");

/// The definitions of one profile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Definitions {
    /// The profiles that it inherits, itself, and its configuration, in the order in which they are merged.
    pub profiles: Vec<Definition>,
    /// Its features, and the features that it refers to and that don't apply.
    pub features: Vec<Definition>,
}

/// A policy file inside a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Definition {
    fn new(name: &str, mut policy: LayerPolicy) -> Self {
        policy.inherits.clear();
        policy.says_inherits = false;
        policy.configurations.clear();
        policy.launch = None;
        // Locks are removed: only an administrator sets locks, and only for their own hosts.
        policy.settings = policy.settings.unlocked();
        Self { name: name.to_owned(), text: palisade_policy::render(&policy) }
    }

    fn parse(&self, sort: Sort) -> Result<LayerPolicy, LayerError> {
        let file = PathBuf::from(format!("package:{}.toml", self.name));
        parse(self.text.as_bytes(), &file, Layer::BuiltIn, sort)
    }
}

/// Whether a condition depends on the host where the package runs.
fn is_of_session(fact: &Fact) -> bool {
    match fact {
        Fact::Variable(..) | Fact::Feature(_) => true,
        Fact::Exists(pattern) => !package::is_packed(Path::new(pattern.as_os_str())),
        Fact::Program(_) | Fact::Machine(_) => false,
    }
}

impl Definitions {
    /// The statements of a profile and its features on this host, with those of the caller; and the policy that decides
    /// which files they need. Configuration files of any layer don't count.
    ///
    /// # Errors
    /// When a file can't be read, trusted or understood.
    pub fn gather(
        facts: &Facts,
        request: Request<'_>,
        words: LayerPolicy,
    ) -> Result<(Self, Loaded), LayerError> {
        let loader = Loader::new(facts);
        let mut layers = Vec::new();
        let profile = loader.requested(request, &mut layers)?;
        let says_something =
            palisade_policy::render(&words) != palisade_policy::render(&LayerPolicy::command_line());
        if says_something {
            layers.push(words);
        }
        let asked: Vec<Sourced<Want>> = layers.iter().flat_map(|layer| layer.features.clone()).collect();
        let mut kept: BTreeMap<String, LayerPolicy> = BTreeMap::new();
        let mut find = |name: &str, highest: Layer, by: &Origin| {
            let mut found = loader.named(Sort::Feature, name, highest, Some(by))?;
            kept.insert(name.to_owned(), found.clone());
            // A package holds every feature that may apply on some host, even features that conflict with each other.
            found.when.retain(|condition| !is_of_session(&condition.value.fact));
            found.conflicts.clear();
            Ok(found)
        };
        let context = crate::plan::planner::context(facts, None);
        let mut holds = |fact: &Fact, layer: Layer| loader.holds(fact, layer, &context);
        let features = resolve(asked, &mut find, &mut holds)?;

        let mut definitions = Self::default();
        for (nth, layer) in layers.iter().enumerate() {
            let name = match &layer.name {
                Some(name) => name.value.clone(),
                None if layer.layer == Layer::CommandLine => "options".to_owned(),
                None => format!("part-{nth}"),
            };
            definitions.profiles.push(Definition::new(&name, layer.clone()));
        }
        for present in &features.present {
            let Some(name) = present.name.as_ref().map(|name| &name.value) else { continue };
            let Some(mut whole) = kept.remove(name) else { continue };
            whole.when.retain(|condition| is_of_session(&condition.value.fact));
            definitions.features.push(Definition::new(name, whole));
        }
        let absent = features.left_out.iter().filter(|(_, why)| matches!(why, LeftOut::Condition(_)));
        definitions
            .features
            .extend(absent.map(|(name, _)| Definition { name: name.clone(), text: NEVER.to_owned() }));

        let mut all = vec![palisade_policy::built_in(), base()?];
        all.extend(features.present.iter().cloned());
        all.extend(layers);
        let policy = palisade_policy::merge(all);
        Ok((definitions, Loaded { profile, features, policy, project: None, notes: Vec::new() }))
    }

    /// The policy of a launch. The package's statements count as built in. Of the host's files, those of the
    /// distribution and the administrator count. Those of the user and of projects don't.
    ///
    /// # Errors
    /// When a file can't be read, trusted or understood.
    pub fn load(&self, facts: &Facts) -> Result<Loaded, LayerError> {
        let loader = Loader::new(facts);
        let mut layers = vec![palisade_policy::built_in(), base()?];
        for definition in &self.profiles {
            layers.push(definition.parse(Sort::Profile)?);
        }
        let own = layers.len();
        for (layer, file) in loader.configurations() {
            if palisade_policy::layer::may_lock(layer)
                && let Some(policy) = loader.read(&file, layer, Sort::Profile)?
            {
                loader.add(policy, &mut layers, &mut Vec::new())?;
            }
        }
        let asked: Vec<Sourced<Want>> = layers.iter().flat_map(|layer| layer.features.clone()).collect();
        let mut find = |name: &str, highest: Layer, by: &Origin| {
            let packed = self.features.iter().find(|definition| definition.name == name);
            match packed {
                Some(packed) if !palisade_policy::layer::may_lock(highest) => packed.parse(Sort::Feature),
                _ => loader.named(Sort::Feature, name, highest, Some(by)),
            }
        };
        let context = crate::plan::planner::context(facts, None);
        let mut holds = |fact: &Fact, layer: Layer| loader.holds(fact, layer, &context);
        let features = resolve(asked, &mut find, &mut holds)?;
        // Features come before the profiles, as in `layers`.
        let profiles = own - self.profiles.len();
        layers.splice(profiles..profiles, features.present.iter().cloned());
        Ok(Loaded {
            profile: None,
            features,
            policy: palisade_policy::merge(layers),
            project: None,
            notes: Vec::new(),
        })
    }
}

fn base() -> Result<LayerPolicy, LayerError> {
    parse(BASE.as_bytes(), Path::new("built-in:package.toml"), Layer::BuiltIn, Sort::Profile)
}

fn resolve(
    mut asked: Vec<Sourced<Want>>,
    find: &mut dyn FnMut(&str, Layer, &Origin) -> Result<LayerPolicy, LayerError>,
    holds: &mut dyn FnMut(&Fact, Layer) -> bool,
) -> Result<Features, LayerError> {
    asked.sort_by_key(Sourced::rank);
    feature::resolve(&asked, find, holds).map_err(|error| match error {
        FeatureError::Find(error) => error,
        other => LayerError::Features { reason: other.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::Condition;

    /// Whether a condition stays with a packed feature.
    fn stays(text: &str) -> bool {
        is_of_session(&Condition::new(text).unwrap().fact)
    }

    #[test]
    fn conditions_of_the_session_are_judged_where_a_package_runs() {
        for text in ["variable WAYLAND_DISPLAY", "not variable X", "exists /dev/nvidiactl", "feature x"] {
            assert!(stays(text), "{text}");
        }
        for text in ["exists /usr/share/glycin-loaders", "program kde-inhibit", "machine x86_64"] {
            assert!(!stays(text), "{text}");
        }
    }

    #[test]
    fn what_never_holds_and_what_always_does_can_be_understood() {
        assert!(base().is_ok());
        let never = Definition { name: "x".into(), text: NEVER.into() };
        assert_eq!(never.parse(Sort::Feature).unwrap().when.len(), 1);
    }
}
