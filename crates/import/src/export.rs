// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Says in the language of another sandbox what a profile says.
//!
//! An export is for this host, this user and this working directory: its paths are absolute. It never allows more than
//! the profile does, except where [`Missing`] names it.
//!
//! - [`bwrap`]: the arguments of bubblewrap
//! - [`srt`]: settings of sandbox-runtime, in JSON
//! - [`seatbelt`]: a profile for macOS's sandbox-exec

pub mod bwrap;
pub mod seatbelt;
pub mod srt;
#[cfg(test)]
mod tests;

use palisade_policy::statement::{self, Value};
use palisade_policy::{Layer, Policy, Resolved};

/// What the other sandbox doesn't do as the profile says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The statement.
    pub what: String,
    /// Why.
    pub why: &'static str,
}

impl Missing {
    fn new(what: impl Into<String>, why: &'static str) -> Self {
        Self { what: what.into(), why }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// An exported profile.
#[derive(Debug)]
pub struct Exported {
    /// The text.
    pub text: String,
    /// What the text doesn't say.
    pub missing: Vec<Missing>,
}

/// A profile that is exported.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'s> {
    /// Its name.
    pub name: &'s str,
    /// What it says.
    pub policy: &'s Policy,
    /// The paths that it names.
    pub resolved: &'s Resolved,
}

const NO_KEY: &str = "the other sandbox has no setting for it";

impl Subject<'_> {
    /// The statements in force that no key of the other sandbox expresses: those of other sections and keys.
    fn others(&self, expressed: &[(&str, &[&str])]) -> Vec<Missing> {
        let known = |section: &str, key: &str| {
            expressed.iter().any(|(of, keys)| *of == section && (keys.is_empty() || keys.contains(&key)))
        };
        let statements = statement::statements(self.policy, self.resolved);
        let left = statements.iter().filter(|stated| {
            stated.in_force && stated.origin.layer != Layer::BuiltIn && !known(stated.section, &stated.key)
        });
        left.map(|stated| {
            let value = match &stated.value {
                Value::Text(text) => format!("{text:?}"),
                Value::Number(number) => number.to_string(),
                Value::Truth(truth) => truth.to_string(),
                Value::Host { host, .. } => format!("{host:?}"),
                Value::Answer(answer) => palisade_policy::render::answer(answer),
            };
            Missing::new(format!("{}.{} = {value}", stated.section, stated.key), NO_KEY)
        })
        .collect()
    }
}
