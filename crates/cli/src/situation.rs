// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host and the policy, as a launch from here would see them.

use crate::answer::Failure;
use palisade::{Request, Situation, Subject, Surroundings};
use palisade_policy::{Origin, PathRule, Sourced, Strength};
use palisade_sandbox::facts::Facts;
use serde::Serialize;
use std::ffi::OsStr;

/// Asks the host.
pub(crate) fn facts() -> Result<Facts, Failure> {
    Ok(Surroundings::of_process()?.facts()?)
}

/// The host and the policy, as a command of this profile finds them.
pub(crate) fn of_profile(profile: Option<&OsStr>) -> Result<Situation, Failure> {
    let subject = Subject::Command { words: Vec::new(), profile: profile.map(OsStr::to_owned) };
    Ok(Request::here(subject)?.settle()?)
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

/// This host, in `/`, with an administrator who states what `body` says.
#[cfg(test)]
pub(crate) fn of_administrator(body: &str) -> Situation {
    use palisade_policy::{Layer, built_in, merge, parse};
    let environment = palisade_host::environment::Environment::from_iter([("HOME", "/none")]);
    let administrator = parse(&format!("schema = 1\n{body}"), None, Layer::Administrator).unwrap();
    Situation {
        facts: Facts::gather(environment, "/".into()).unwrap(),
        loaded: palisade_sandbox::layers::Loaded {
            profile: None,
            features: palisade_policy::feature::Features::default(),
            policy: merge(vec![built_in(), administrator]),
            project: None,
            notes: Vec::new(),
        },
        isolation: palisade_sandbox::plan::planner::Isolation::Full,
        program: None,
        definitions: None,
    }
}
