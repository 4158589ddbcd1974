// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade run --plan FILE`: confirms a plan that was printed, read and approved before.
//!
//! The file gives no permission of its own. The launch is planned from the policy and the options as always, and the
//! file must say the same. The launcher applies the plan that was just made. So a file is refused if a sandboxed
//! command has edited it, or if it is older than the administrator's last lock.

use palisade_host::places::{Distrust, Trustee};
use palisade_host::trusted::{self, Fault, TrustedError};
use palisade_sandbox::caches;
use palisade_sandbox::error::{describe, quoted};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::plan::{Plan, SCHEMA, Step};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file larger than this, in bytes, is no plan.
const LARGEST: usize = 64 << 20;
/// The keys that don't describe what a launch does: the plan's inputs, its listing, and texts.
const ASIDE: [&str; 6] = ["palisade", "inputs", "absent", "variables", "listing", "notes"];

/// Why a plan in a file isn't launched.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// Other users can change the file, or it can't be read.
    #[error("can't read plan {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: TrustedError,
    },
    /// The file holds no plan of this program.
    #[error("can't read plan {path:?}: {reason}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file says something else than the policy and the options.
    #[error("plan {path:?} differs from the plan that the policy and these options make: {difference}")]
    Differs {
        /// The file.
        path: PathBuf,
        /// The first difference.
        difference: String,
    },
}

impl PlanFileError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Read {
                path,
                source: TrustedError::Distrusted { path: reason, permissions, reason: fault },
            } => {
                let ours = permissions.uid == rustix::process::geteuid().as_raw();
                let at = quoted(&reason.to_string_lossy());
                match fault {
                    Fault::Mode(Distrust::GroupWritable { .. } | Distrust::WorldWritable { .. }) if ours => {
                        format!("look at it, then: chmod go-w {at}")
                    }
                    Fault::Acl if ours => format!("look at it, then: setfacl -b {at}"),
                    _ => format!(
                        "look at it, then: install -m 600 {} ~/plan.json   # then use --plan ~/plan.json",
                        quoted(&path.to_string_lossy())
                    ),
                }
            }
            Self::Read { .. } | Self::Parse { .. } => {
                "palisade run --dry-run --json … >FILE   # prints a plan".to_owned()
            }
            Self::Differs { path, .. } => format!(
                "palisade run --dry-run --json … >{}   # prints the current plan; use the same options with --plan",
                quoted(&path.to_string_lossy())
            ),
        }
    }
}

/// Confirms that the file `path` says what `made` is, which the policy and the options of this launch make.
///
/// # Errors
/// When other users can change the file, when it is no plan, or when it says something else.
pub fn confirm(path: &Path, facts: &Facts, made: &Plan<'_>) -> Result<(), PlanFileError> {
    let account = &facts.account;
    let trustee = Trustee { uid: account.uid, private_group: account.private_group.then_some(account.gid) };
    let bytes = trusted::read(&facts.cwd.join(path), trustee, LARGEST)
        .map_err(|source| PlanFileError::Read { path: path.to_owned(), source })?;
    let failed = |reason: String| PlanFileError::Parse { path: path.to_owned(), reason };
    let given: Plan<'_> = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
    if given.schema != SCHEMA {
        return Err(failed(format!("its schema is {}, this program's is {SCHEMA}", given.schema)));
    }
    let value = |plan: &Plan<'_>| serde_json::to_value(plan).map(essence);
    let (given_value, made_value) = match (value(&given), value(made)) {
        (Ok(given), Ok(made)) => (given, made),
        (Err(error), _) | (_, Err(error)) => return Err(failed(error.to_string())),
    };
    if given_value == made_value {
        return Ok(());
    }
    let differs = |difference| Err(PlanFileError::Differs { path: path.to_owned(), difference });
    for weight in [Weight::Said, Weight::FollowsFromOthers] {
        if let Some(step) = first_without(&given.steps, &made.steps, weight) {
            return differs(format!("only the file has: {}", describe(step)));
        }
        if let Some(step) = first_without(&made.steps, &given.steps, weight) {
            return differs(format!("the file lacks: {}", describe(step)));
        }
    }
    differs(format!("{} differs", difference(&given_value, &made_value)))
}

/// How much a different step says about what the policy or the options state differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Said,
    /// A directory serves another step, and which caches there are depends on all rights.
    FollowsFromOthers,
}

impl Weight {
    fn of(step: &Step<'_>) -> Self {
        match step {
            Step::Directory { .. } => Self::FollowsFromOthers,
            Step::Bind(bind) if caches::is_place(&Path::new("/").join(bind.target.as_path())) => {
                Self::FollowsFromOthers
            }
            _ => Self::Said,
        }
    }
}

/// The first step of this weight that `others` lacks.
fn first_without<'s>(steps: &'s [Step<'s>], others: &[Step<'_>], weight: Weight) -> Option<&'s Step<'s>> {
    steps.iter().find(|step| Weight::of(step) == weight && !others.contains(step))
}

/// A plan without the keys that don't describe what a launch does. The plans inside it are treated in the same way.
fn essence(mut value: Value) -> Value {
    match &mut value {
        Value::Object(entries) => {
            if entries.contains_key("schema") {
                entries.retain(|key, _| !ASIDE.contains(&key.as_str()));
            }
            entries.values_mut().for_each(|entry| *entry = essence(entry.take()));
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| *entry = essence(entry.take())),
        _ => {}
    }
    value
}

/// The name of the first key in which two values differ, with those above it: `conduct.hooks`.
fn difference(one: &Value, other: &Value) -> String {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return String::new() };
    let mut keys = one.keys().chain(other.keys());
    let Some(key) = keys.find(|key| one.get(*key) != other.get(*key)) else { return String::new() };
    match (one.get(key), other.get(key)) {
        (Some(one), Some(other)) => match difference(one, other).as_str() {
            "" => key.clone(),
            below => format!("{key}.{below}"),
        },
        _ => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_and_what_says_nothing_is_left_out() {
        let one = json!({"schema": 2, "inputs": [1], "conduct": {"hooks": [], "log": null}, "variables": {}});
        let two = json!({"schema": 2, "inputs": [2], "conduct": {"hooks": [1], "log": null}, "notes": []});
        let (one, two) = (essence(one), essence(two));
        assert_eq!(difference(&one, &two), "conduct.hooks");
        assert_eq!(one, json!({"schema": 2, "conduct": {"hooks": [], "log": null}}));
        // Keys of these names in other places count.
        let inner = json!({"buses": [{"variables": 1, "plan": {"schema": 2, "notes": [], "steps": []}}]});
        assert_eq!(essence(inner), json!({"buses": [{"variables": 1, "plan": {"schema": 2, "steps": []}}]}));
    }
}
