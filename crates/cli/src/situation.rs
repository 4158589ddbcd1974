// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the host and the policy, as a launch from here would see them.

use crate::verb::Failure;
use palisade::{Request, Situation, Subject, Surroundings};
use palisade_sandbox::facts::Facts;
use std::ffi::OsStr;

/// Reads the facts of the host.
pub(crate) fn facts() -> Result<Facts, Failure> {
    Ok(Surroundings::of_process()?.facts()?)
}

/// The host and the policy, as a command of this profile finds them.
pub(crate) fn of_profile(profile: Option<&OsStr>) -> Result<Situation, Failure> {
    let subject = Subject::Command { words: Vec::new(), profile: profile.map(OsStr::to_owned) };
    Ok(Request::here(subject)?.settle()?)
}

/// This host, in `/`, with an administrator's policy file of the content `body`.
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
