// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a system call: what the filter says, and which walls behind the filter judge it.

use super::{ExplainError, Place};
use crate::Situation;
use palisade_policy::word::SyscallMode;
use palisade_policy::{Layer, LayerPolicy, Policy, Protect};
use palisade_sandbox::error::PlanError;
use palisade_sandbox::filter;
use palisade_syscall::explain::Explanation;
use palisade_syscall::{Action, Arch, Errno, Rules, Syscall, group};
use palisade_text::Show as _;
use serde::Serialize;

/// The answer about a system call.
#[derive(Debug, Serialize)]
pub struct SyscallExplanation {
    /// Always `syscall`.
    pub kind: &'static str,
    /// Its name.
    pub syscall: String,
    /// Whether it is allowed, for some arguments at least.
    pub allowed: bool,
    /// What happens with it, in words.
    pub words: String,
    /// The filter's rules. The first rule that matches counts.
    pub filter: Vec<FilterRule>,
    /// The walls behind the filter that judge it.
    pub walls: Vec<WallBehind>,
    /// The policy's statement, if it makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated: Option<Place>,
    /// What to write in which file to permit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
    /// The place of that statement, in one line.
    #[serde(skip)]
    pub stated_by: Option<String>,
    /// Why the answer is about a launch in which mounts protect names.
    #[serde(skip)]
    pub by_mounts: Option<palisade_syscall::Error>,
}

/// A rule of the filter.
#[derive(Debug, Serialize)]
pub struct FilterRule {
    /// `allowed`, `refused`, `pretended`, `kills` or `asks`.
    pub action: &'static str,
    /// The error with which it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<u16>,
    /// The arguments that the rule matches; empty: all.
    pub when: String,
}

/// A wall behind the filter.
#[derive(Debug, Serialize)]
pub struct WallBehind {
    /// The wall.
    pub by: &'static str,
    /// The error, if every such call gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<u16>,
    /// What it does, in a sentence.
    pub words: String,
}

impl SyscallExplanation {
    /// The answer about the system call of this name.
    ///
    /// # Errors
    /// When there is no such call, or no filter can be made.
    pub fn of(situation: &Situation, name: &str) -> Result<Self, ExplainError> {
        let call: Syscall = name.parse()?;
        let mut policy = situation.policy().clone();
        let isolation = situation.isolation(&policy);
        let mut by_mounts = None;
        let rules = match filter::explained(&situation.facts, &policy, isolation) {
            Err(PlanError::Syscalls(error @ palisade_syscall::Error::PastTheBroker { .. })) => {
                // Such a command needs `--protect mounts`.
                by_mounts = Some(error);
                let mounts = LayerPolicy::command_line().set_protect(Protect::Mounts, 0).clone();
                policy = policy.combine(mounts.into());
                filter::explained(&situation.facts, &policy, isolation)?
            }
            other => other?,
        };
        let policy = &policy;
        let explanation = rules.explain(call, Arch::NATIVE);
        let walls = if may(&rules, call) {
            filter::walls(&situation.facts, policy, isolation, call)
        } else {
            Vec::new()
        };
        let allowed = may(&rules, call) && walls.iter().all(|wall| wall.errno.is_none());
        let mut words = explanation.to_string();
        walls.iter().for_each(|wall| words.push_str(&format!("  then {wall}\n")));
        if allowed && let Some(more) = learned(policy, call) {
            words.push_str(&format!("  {more}\n"));
        }
        let changes = policy.syscalls();
        let listed = changes.allow.iter().chain(&changes.deny).find(|stated| stated.value == name);
        let answers = policy.answers();
        let answer = answers
            .iter()
            .find(|stated| stated.value.question.subject() == name && !policy.is_outdone(stated));
        let stated = answer.map(|stated| (&stated.origin, Place::of(stated)));
        let stated = stated.or_else(|| listed.map(|stated| (&stated.origin, Place::of(stated))));
        let stated_by = stated.as_ref().map(|(origin, _place)| origin.to_string());
        let permit = if may(&rules, call) { None } else { permit(situation, name, call)? };
        Ok(Self {
            kind: "syscall",
            syscall: name.to_owned(),
            allowed,
            words,
            filter: ruled(&explanation),
            walls: walls
                .iter()
                .map(|wall| WallBehind {
                    by: wall.by.key(),
                    errno: wall.errno.map(Errno::number),
                    words: wall.words.clone(),
                })
                .collect(),
            stated: stated.map(|(_origin, place)| place),
            permit,
            stated_by,
            by_mounts,
        })
    }
}

/// The filter's rules, up to the one that matches all arguments.
fn ruled(explanation: &Explanation<'_>) -> Vec<FilterRule> {
    let of = |action: Action, when: &str| {
        let (action, errno) = match action {
            Action::Allow => ("allowed", None),
            Action::Errno(errno) | Action::Refuse(errno) => ("refused", Some(errno.number())),
            Action::Pretend => ("pretended", None),
            Action::KillProcess => ("kills", None),
            _ => ("asks", None),
        };
        FilterRule { action, errno, when: when.to_owned() }
    };
    let always = explanation.rules.iter().position(|rule| rule.tests.is_empty());
    let counting = always.map_or(explanation.rules, |at| &explanation.rules[..=at]);
    let mut out: Vec<FilterRule> = counting.iter().map(|rule| of(rule.action, &rule.condition)).collect();
    if always.is_none() {
        out.push(of(explanation.otherwise, ""));
    }
    out
}

/// What the syscall mode does with a call that isn't always allowed.
fn learned(policy: &Policy, call: Syscall) -> Option<&'static str> {
    let stated = policy.syscalls().allow.iter().any(|stated| stated.value == call.name());
    if stated || group::base().contains(&call) {
        return None;
    }
    match policy.syscall_mode().value {
        SyscallMode::Off | SyscallMode::Learn => None,
        SyscallMode::Ask => Some("then you are asked, unless it was learned: palisade syscalls list"),
        SyscallMode::Enforce => Some("then it is refused, unless it was learned: palisade syscalls list"),
    }
}

/// Whether the filter allows it for some arguments. A call that the architecture lacks is harmless.
fn may(rules: &Rules, call: Syscall) -> bool {
    let explanation = rules.explain(call, Arch::NATIVE);
    let makes = |action| matches!(action, Action::Allow | Action::Notify);
    let counting = match explanation.rules.iter().position(|rule| rule.tests.is_empty()) {
        Some(last) => &explanation.rules[..=last],
        None if makes(explanation.otherwise) => return true,
        None => explanation.rules,
    };
    counting.iter().any(|rule| makes(rule.action))
}

/// What the user can write in the configuration to permit it. `None` if a lock prevents that, or if it isn't enough.
fn permit(situation: &Situation, name: &str, call: Syscall) -> Result<Option<String>, ExplainError> {
    let file = situation.facts.places.config.join("config.toml");
    // With some calls, only mounts can protect names.
    for (protect, and) in [(None, ""), (Some(Protect::Mounts), ", [filesystem] protect = \"mounts\"")] {
        let mut layer = LayerPolicy::empty(Layer::User, None);
        layer.add_syscall(name, true, 0)?;
        if let Some(protect) = protect {
            layer.set_protect(protect, 0);
        }
        let policy = situation.policy().clone().combine(layer.into());
        let isolation = situation.isolation(&policy);
        let Ok(rules) = filter::explained(&situation.facts, &policy, isolation) else { continue };
        let walls = filter::walls(&situation.facts, &policy, isolation, call);
        if may(&rules, call) && walls.iter().all(|wall| wall.errno.is_none()) {
            return Ok(Some(format!("in {}: [syscalls] allow = [\"{name}\"]{and}", file.shown())));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::of_administrator;

    #[test]
    fn what_a_lock_forbids_is_not_proposed() {
        let locked = "[locked.syscalls]\ndeny = [\"ptrace\"]\n";
        let call: Syscall = "ptrace".parse().unwrap();
        for (administrator, proposed) in [("", true), (locked, false)] {
            let situation = of_administrator(administrator);
            assert_eq!(permit(&situation, "ptrace", call).unwrap().is_some(), proposed);
        }
    }
}
