// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains what happens in a sandbox with a path, a host, a command, a system call or a variable, why, and what would
//! permit it; which names are protected; and which guarantees hold.
//!
//! Each answer is serialised as `palisade explain --json` prints it, without the version of that form.
//!
//! - [`Place`], [`Rule`]: where a statement of the policy comes from
//! - [`Target`]: the kind of object that a word names
//! - [`PathExplanation`] with [`Protection`]; [`Way`]: the links that lead to a path
//! - [`HostExplanation`], [`CommandExplanation`]
//! - [`SyscallExplanation`], [`VariableExplanation`]
//! - [`NamesExplanation`]: all protected names
//! - [`GuaranteesExplanation`], [`GuaranteeExplanation`]: the guarantees of a launch

mod command;
mod guarantee;
mod host;
mod names;
mod path;
mod protection;
mod script;
mod syscall;
mod target;
mod variable;
mod way;

pub use command::{Candidate, CommandExplanation, Interpreter};
pub use guarantee::{GuaranteeExplanation, GuaranteesExplanation, Stop};
pub use host::{Host, HostExplanation, HostRule, Setting};
pub use names::{NamesExplanation, ProtectedName};
pub use path::{PathExplanation, PolicyOnPath, ViewOfPath};
pub use protection::Protection;
pub use syscall::{FilterRule, SyscallExplanation, WallBehind};
pub use target::Target;
pub use variable::VariableExplanation;
pub use way::Way;

use palisade_policy::value::ValueError;
use palisade_policy::{Origin, PathRule, Sourced, Strength};
use palisade_sandbox::error::PlanError;
use serde::{Serialize, Serializer};
use std::path::Path;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// No plan can be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A system call's name is unknown.
    #[error(transparent)]
    Syscall(#[from] palisade_syscall::Error),
    /// No variable can have this name.
    #[error(transparent)]
    Name(#[from] ValueError),
}

/// Where a statement comes from.
#[derive(Debug, Clone, Serialize)]
pub struct Place {
    /// The layer of the policy.
    pub layer: &'static str,
    /// The file, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// How firmly it is stated.
    pub strength: Strength,
}

impl Place {
    /// The place of a statement with this origin.
    #[must_use]
    pub fn new(origin: &Origin, strength: Strength) -> Self {
        let file = origin.file.as_ref().map(|file| file.to_string_lossy().into_owned());
        Self { layer: origin.layer.name(), line: file.as_ref().map(|_some| origin.line), file, strength }
    }

    /// The place of a stated value.
    #[must_use]
    pub fn of<T>(stated: &Sourced<T>) -> Self {
        Self::new(&stated.origin, stated.strength)
    }
}

/// A rule on a path.
#[derive(Debug, Clone, Serialize)]
pub struct Rule {
    /// The list that it is in.
    pub list: &'static str,
    /// The pattern of paths.
    pub path: String,
    /// The path inside, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The place of the statement.
    #[serde(flatten)]
    pub place: Place,
    /// The rule and its origin in one line.
    #[serde(skip)]
    pub shown: String,
}

impl From<&PathRule> for Rule {
    fn from(rule: &PathRule) -> Self {
        Self {
            list: rule.access.key(),
            path: rule.pattern.to_string(),
            destination: rule.destination.as_ref().map(ToString::to_string),
            place: Place::new(&rule.origin, rule.strength),
            shown: rule.to_string(),
        }
    }
}

/// A path in JSON, which has only text: bytes that aren't UTF-8 are replaced.
fn lossy<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// This host, in `/`, with an administrator's policy file of the content `body`.
#[cfg(test)]
fn of_administrator(body: &str) -> crate::Situation {
    use palisade_policy::{Layer, built_in, merge, parse};
    let environment = palisade_host::environment::Environment::from_iter([("HOME", "/none")]);
    let administrator = parse(&format!("schema = 1\n{body}"), None, Layer::Administrator).unwrap();
    crate::Situation {
        facts: palisade_sandbox::facts::Facts::gather(environment, "/".into()).unwrap(),
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
