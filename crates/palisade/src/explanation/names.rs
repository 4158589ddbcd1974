// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists all protected names with their reasons, and the names that a policy takes off the list.

use super::Place;
use crate::Situation;
use palisade_policy::names::built_in;
use palisade_policy::{Content, Layer, NameRule, Policy, Protect, Strength};
use palisade_sandbox::error::PlanError;
use serde::Serialize;

/// The group of names that are in no list.
const OTHERS: &str = "policy";

/// All protected names.
#[derive(Debug, Serialize)]
pub struct NamesExplanation {
    /// Always `names`.
    pub kind: &'static str,
    /// `broker`, `mounts` or `off`.
    pub mode: Protect,
    /// The place that states the mode.
    pub mode_from: Place,
    /// The names, grouped.
    pub names: Vec<ProtectedName>,
    /// The mode with its origin.
    #[serde(skip)]
    pub shown_mode: String,
}

/// One name.
#[derive(Debug, Serialize)]
pub struct ProtectedName {
    /// The name as a policy writes it.
    pub name: String,
    /// The list that it is in.
    pub group: String,
    /// Why it is protected.
    pub reason: String,
    /// Whether it is protected.
    pub protected: bool,
    /// The place that states it.
    #[serde(flatten)]
    pub place: Place,
    /// Whether git continues when a change of it is refused.
    pub carried: bool,
    /// Below these directories it isn't protected.
    pub except_below: Vec<String>,
    /// The changes that are allowed nevertheless.
    pub content: Content,
    /// Whether it is one path inside, not a name at any depth.
    pub anchored: bool,
    /// The place that states it, in one line. `None` for a built-in name.
    #[serde(skip)]
    pub stated: Option<String>,
}

impl NamesExplanation {
    /// All names of a situation.
    ///
    /// # Errors
    /// When the places in the policy can't be found.
    pub fn of(situation: &Situation) -> Result<Self, PlanError> {
        let resolved = situation.resolved()?;
        let policy = situation.policy();
        let mode = policy.protect();
        Ok(Self {
            kind: "names",
            mode: mode.value,
            mode_from: Place::of(&mode),
            shown_mode: format!("protect = {:?} ({})", mode.value.key(), mode.origin),
            names: names(policy, resolved.protected_paths()),
        })
    }
}

/// The built-in names in their order, then what the policy adds.
fn names(policy: &Policy, paths: Vec<NameRule>) -> Vec<ProtectedName> {
    let mut rules: Vec<NameRule> = policy.names().rules().to_vec();
    let mut names = Vec::with_capacity(rules.len());
    for entry in built_in() {
        let held = rules.iter().position(|rule| rule.path == entry.rule.path);
        let protected = held.is_some();
        let rule = held.map_or_else(|| entry.rule.clone(), |at| rules.remove(at));
        let mut name = ProtectedName::new(rule, entry.group.clone(), protected);
        // The statement that took the name off the list. Without one, the name wasn't on the list.
        if let Some(taken) = policy.stated_of(entry).filter(|_taken| !protected && entry.on) {
            name.place = Place::of(&taken);
            name.stated = Some(taken.origin.to_string());
        }
        names.push(name);
    }
    names
        .extend(rules.into_iter().chain(paths).map(|rule| ProtectedName::new(rule, OTHERS.to_owned(), true)));
    names
}

/// How firmly a rule is stated. A built-in rule yields to every other rule.
pub(super) fn strength(rule: &NameRule) -> Strength {
    match (rule.locked, rule.origin.layer) {
        (true, _) => Strength::Locked,
        (false, Layer::BuiltIn) => Strength::Default,
        (false, _) => Strength::Set,
    }
}

impl ProtectedName {
    fn new(rule: NameRule, group: String, protected: bool) -> Self {
        let strength = strength(&rule);
        let slash = if rule.anchored { "/" } else { "" };
        let place = Place::new(&rule.origin, strength);
        let stated = rule.origin.to_string();
        Self {
            name: format!("{slash}{}", rule.path),
            group,
            reason: rule.reason,
            protected,
            stated: (rule.origin.layer != Layer::BuiltIn).then_some(stated),
            place,
            carried: rule.carried,
            except_below: rule.except_below,
            content: rule.content,
            anchored: rule.anchored,
        }
    }
}
