// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains what becomes of an environment variable.

use super::{ExplainError, Place};
use crate::Situation;
use palisade_policy::LayerPolicy;
use palisade_policy::environment::{EnvironmentRule, Fate, Reason};
use palisade_policy::value::ValueError;
use palisade_sandbox::error::quoted;
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The answer about a variable.
#[derive(Debug, Serialize)]
pub struct VariableExplanation {
    /// Always `env`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Whether it is there inside, if it is there outside.
    pub allowed: bool,
    /// `kept`, `removed` or `set`.
    pub fate: &'static str,
    /// Its value inside, if the policy sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether it is set outside.
    pub outside: bool,
    /// Why, in a sentence.
    pub why: String,
    /// The policy's statement, if it makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated: Option<Place>,
    /// The command that keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
}

impl VariableExplanation {
    /// The answer about the variable of this name.
    ///
    /// # Errors
    /// When no variable can have that name.
    pub fn of(situation: &Situation, name: &str) -> Result<Self, ExplainError> {
        // Some names can't be names of variables.
        EnvironmentRule::keep(name)?;
        let filter = situation.policy().environment();
        let outside = situation.facts.environment.get(name);
        let (fate, reason) =
            filter.judge_value(name.as_bytes(), outside.map(OsStr::as_bytes).unwrap_or_default());
        let (why, stated) = match reason {
            Reason::Unmentioned => ("no rule matches, so it is inherited".to_owned(), None),
            Reason::Secret(what) => (format!("its value holds {what}"), None),
            Reason::BuiltIn(entry) => (format!("the built-in list removes {entry}"), None),
            Reason::Rule(rule) => {
                (format!("{} ({})", words(&rule.value), rule.origin), Some(Place::of(rule)))
            }
        };
        let (fate, value) = match fate {
            Fate::Kept => ("kept", None),
            Fate::Removed => ("removed", None),
            Fate::Set(value) => ("set", Some(value.to_owned())),
        };
        let allowed = fate != "removed";
        Ok(Self {
            kind: "env",
            name: name.to_owned(),
            allowed,
            fate,
            value,
            outside: outside.is_some(),
            why,
            stated,
            permit: if allowed { None } else { permit(situation, name)? },
        })
    }
}

fn words(rule: &EnvironmentRule) -> String {
    match rule {
        EnvironmentRule::Keep(glob) => format!("keep = {glob:?}"),
        EnvironmentRule::Remove(glob) => format!("remove = {glob:?}"),
        EnvironmentRule::Set { name, value } => format!("set {name} = {value:?}"),
    }
}

/// The option that keeps it. `None` if a lock prevents that.
fn permit(situation: &Situation, name: &str) -> Result<Option<String>, ValueError> {
    let mut layer = LayerPolicy::command_line();
    layer.keep_env(name, 0)?;
    let tried = situation.policy().clone().combine(layer.into()).environment();
    let keeps = tried.judge(name.as_bytes()).0 == Fate::Kept;
    Ok(keeps.then(|| format!("palisade run --keep-env {} -- COMMAND…", quoted(name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::of_administrator;

    #[test]
    fn what_a_lock_forbids_is_not_proposed() {
        let locked = "[locked.environment]\nremove = [\"AWS_*\"]\n";
        for (administrator, proposed) in [("", true), (locked, false)] {
            let situation = of_administrator(administrator);
            assert_eq!(permit(&situation, "AWS_X").unwrap().is_some(), proposed);
        }
    }
}
