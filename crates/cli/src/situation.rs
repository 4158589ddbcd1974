// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host and the policy, as a launch from here would see them.

use crate::answer::Failure;
use palisade_host::environment::Environment;
use palisade_policy::decide::EffectivePath;
use palisade_policy::{LayerPolicy, Origin, PathRule, Policy, Resolved, Sourced, Strength};
use palisade_sandbox::error::PlanError;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{self, Loaded, Request};
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::planner::{self, Isolation};
use serde::Serialize;
use std::ffi::OsStr;
use std::path::Path;

/// What a launch would go by.
#[derive(Debug)]
pub(crate) struct Situation {
    pub(crate) facts: Facts,
    pub(crate) loaded: Loaded,
}

/// Asks the host.
pub(crate) fn facts() -> Result<Facts, Failure> {
    let cwd = std::env::current_dir().map_err(|source| Failure::Cwd { source })?;
    let environment: Environment = std::env::vars_os().collect();
    Ok(Facts::gather(environment, cwd)?)
}

impl Situation {
    /// Asks the host and loads the policy.
    pub(crate) fn gather(profile: Option<&OsStr>) -> Result<Self, Failure> {
        Self::gather_with(profile, LayerPolicy::command_line())
    }

    /// As [`Situation::gather`], with words on the command line.
    pub(crate) fn gather_with(profile: Option<&OsStr>, words: LayerPolicy) -> Result<Self, Failure> {
        let mut facts = facts()?;
        facts.run_by(profile);
        let loaded = layers::load(&facts, Request { profile, ..Request::default() }, words)?;
        Ok(Self { facts, loaded })
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.loaded.policy
    }

    /// The rules in their places.
    pub(crate) fn resolved(&self) -> Result<Resolved, Failure> {
        let context = planner::context(&self.facts, self.loaded.project.as_deref());
        Ok(self.policy().resolve(&context)?)
    }

    /// The rule's path that decides about a path without links. What can't be planned decides nothing.
    pub(crate) fn decisive(&self, path: &Path) -> Option<EffectivePath> {
        planner::decisive(&self.facts, self.policy(), self.loaded.project.as_deref(), path).ok().flatten()
    }

    /// The plan of a launch with some more words on its command line.
    pub(crate) fn plan_with(&self, more: LayerPolicy) -> Result<Plan<'static>, PlanError> {
        let policy = self.policy().clone().combine(more.into());
        let isolation = Self::isolation(&policy);
        planner::make(&self.facts, &policy, self.loaded.project.as_deref(), isolation)
    }

    /// How a launch by a policy would be kept apart.
    pub(crate) fn isolation(policy: &Policy) -> Isolation {
        let namespaces = !policy.best_effort().value || palisade_sys::probe::user_namespaces_work();
        if namespaces { Isolation::Full } else { Isolation::InPlace }
    }
}

/// Where a statement comes from, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Place {
    pub(crate) layer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
    pub(crate) strength: Strength,
}

impl Place {
    pub(crate) fn new(origin: &Origin, strength: Strength) -> Self {
        let file = origin.file.as_ref().map(|file| file.to_string_lossy().into_owned());
        Self { layer: origin.layer.name(), line: file.as_ref().map(|_some| origin.line), file, strength }
    }

    pub(crate) fn of<T>(stated: &Sourced<T>) -> Self {
        Self::new(&stated.origin, stated.strength)
    }
}

/// A rule on a path, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Rule {
    pub(crate) list: &'static str,
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) destination: Option<String>,
    #[serde(flatten)]
    pub(crate) place: Place,
}

impl From<&PathRule> for Rule {
    fn from(rule: &PathRule) -> Self {
        Self {
            list: rule.access.key(),
            path: rule.pattern.to_string(),
            destination: rule.destination.as_ref().map(ToString::to_string),
            place: Place::new(&rule.origin, rule.strength),
        }
    }
}

#[cfg(test)]
impl Situation {
    /// This host, in `/`, with an administrator who states what `body` says.
    pub(crate) fn of_administrator(body: &str) -> Self {
        use palisade_policy::{Layer, built_in, merge, parse};
        let environment = Environment::from_iter([("HOME", "/none")]);
        let administrator = parse(&format!("schema = 1\n{body}"), None, Layer::Administrator).unwrap();
        Self {
            facts: Facts::gather(environment, "/".into()).unwrap(),
            loaded: Loaded {
                profile: None,
                features: palisade_policy::feature::Features::default(),
                policy: merge(vec![built_in(), administrator]),
                project: None,
                notes: Vec::new(),
            },
        }
    }
}
