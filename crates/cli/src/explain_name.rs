// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens with a system call or an environment variable.

use crate::answer::{self, Failure, NO, YES};
use crate::situation::Place;
use palisade::Situation;
use palisade_policy::environment::{EnvironmentRule, Fate, Reason};
use palisade_policy::word::SyscallMode;
use palisade_policy::{Layer, LayerPolicy, Policy, Protect};
use palisade_sandbox::error::{PlanError, quoted};
use palisade_sandbox::filter;
use palisade_syscall::explain::Explanation;
use palisade_syscall::{Action, Arch, Errno, Rules, Syscall, group};
use palisade_text::Show as _;
use palisade_text::harmless;
use serde::Serialize;

pub(crate) mod names;

/// The answer about a system call.
#[derive(Debug, Serialize)]
struct Call {
    /// Always `syscall`.
    kind: &'static str,
    syscall: String,
    /// Whether it is allowed, for some arguments at least.
    allowed: bool,
    /// What happens, in words.
    words: String,
    /// What the filter says; the first that fits counts.
    filter: Vec<Ruled>,
    /// Who judges it behind the filter.
    walls: Vec<Walled>,
    /// The policy's statement, if it makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stated: Option<Place>,
    /// What to write in which file.
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<String>,
}

/// A rule of the filter's.
#[derive(Debug, Serialize)]
struct Ruled {
    /// `allowed`, `refused`, `pretended`, `kills` or `asks`.
    action: &'static str,
    /// The error with which it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<u16>,
    /// For which arguments; empty: for all.
    when: String,
}

/// A wall behind it.
#[derive(Debug, Serialize)]
struct Walled {
    by: &'static str,
    /// The error, if every such call gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<u16>,
    words: String,
}

/// Explains a system call.
pub(crate) fn syscall(situation: &Situation, name: &str, json: bool) -> Result<u8, Failure> {
    let call: Syscall = name.parse()?;
    let mut policy = situation.policy().clone();
    let isolation = situation.isolation(&policy);
    let rules = match filter::explained(&situation.facts, &policy, isolation) {
        Err(PlanError::Syscalls(error @ palisade_syscall::Error::PastTheBroker { .. })) => {
            // Such a command is run with `--protect mounts`.
            crate::output::note(&error);
            policy =
                policy.combine(LayerPolicy::command_line().set_protect(Protect::Mounts, 0).clone().into());
            filter::explained(&situation.facts, &policy, isolation)?
        }
        other => other?,
    };
    let policy = &policy;
    let explanation = rules.explain(call, Arch::NATIVE);
    let walls =
        if may(&rules, call) { filter::walls(&situation.facts, policy, isolation, call) } else { Vec::new() };
    let allowed = may(&rules, call) && walls.iter().all(|wall| wall.errno.is_none());
    let mut words = explanation.to_string();
    walls.iter().for_each(|wall| words.push_str(&format!("  then {wall}\n")));
    if allowed && let Some(more) = learned(policy, call) {
        words.push_str(&format!("  {more}\n"));
    }
    let changes = policy.syscalls();
    let listed = changes.allow.iter().chain(&changes.deny).find(|stated| stated.value == name);
    let answers = policy.answers();
    let answer =
        answers.iter().find(|stated| stated.value.question.subject() == name && !policy.is_outdone(stated));
    let stated = answer.map(|stated| (&stated.origin, Place::of(stated)));
    let stated = stated.or_else(|| listed.map(|stated| (&stated.origin, Place::of(stated))));
    let origin = stated.as_ref().map(|(origin, _place)| origin.to_string());
    let permit = if may(&rules, call) { None } else { permit_call(situation, name, call)? };
    let answer = Call {
        kind: "syscall",
        syscall: name.to_owned(),
        allowed,
        words,
        filter: ruled(&explanation),
        walls: walls
            .iter()
            .map(|wall| Walled {
                by: wall.by.key(),
                errno: wall.errno.map(Errno::number),
                words: wall.words.clone(),
            })
            .collect(),
        stated: stated.map(|(_origin, place)| place),
        permit,
    };
    if json {
        answer::print_json(&answer)?;
    } else {
        let mut text = answer.words.clone();
        if let Some(origin) = origin {
            text.push_str(&format!("  stated by  {}\n", harmless(&origin)));
        }
        if let Some(permit) = &answer.permit {
            text.push_str(&format!("  to permit  {}\n", harmless(permit)));
        }
        answer::print(&text)?;
    }
    Ok(if allowed { YES } else { NO })
}

/// The filter's rules up to the one that fits whatever the arguments are.
fn ruled(explanation: &Explanation<'_>) -> Vec<Ruled> {
    let of = |action: Action, when: &str| {
        let (action, errno) = match action {
            Action::Allow => ("allowed", None),
            Action::Errno(errno) | Action::Refuse(errno) => ("refused", Some(errno.number())),
            Action::Pretend => ("pretended", None),
            Action::KillProcess => ("kills", None),
            _ => ("asks", None),
        };
        Ruled { action, errno, when: when.to_owned() }
    };
    let always = explanation.rules.iter().position(|rule| rule.tests.is_empty());
    let counting = always.map_or(explanation.rules, |at| &explanation.rules[..=at]);
    let mut out: Vec<Ruled> = counting.iter().map(|rule| of(rule.action, &rule.condition)).collect();
    if always.is_none() {
        out.push(of(explanation.otherwise, ""));
    }
    out
}

/// What the mode says of a call that isn't always allowed.
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

/// Whether the filter allows it for some arguments. A call that the architecture lacks does no harm.
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

/// What the user writes in their configuration, unless a lock stands against it, or it isn't enough.
fn permit_call(situation: &Situation, name: &str, call: Syscall) -> Result<Option<String>, Failure> {
    let file = situation.facts.places.config.join("config.toml");
    // With some calls names can't be kept but by mounts.
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

/// The answer about a variable.
#[derive(Debug, Serialize)]
struct Variable {
    /// Always `env`.
    kind: &'static str,
    name: String,
    /// Whether it is there inside, if it is there outside.
    allowed: bool,
    /// `kept`, `removed` or `set`.
    fate: &'static str,
    /// Its value inside, if the policy sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Whether it is set outside.
    outside: bool,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stated: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<String>,
}

/// Explains a variable.
pub(crate) fn variable(situation: &Situation, name: &str, json: bool) -> Result<u8, Failure> {
    // No variable can have some names.
    EnvironmentRule::keep(name)?;
    let filter = situation.policy().environment();
    let (fate, reason) = filter.judge(name.as_bytes());
    let (why, stated) = match reason {
        Reason::Unmentioned => ("no rule speaks of it, so it is inherited".to_owned(), None),
        Reason::BuiltIn(entry) => (format!("the built-in list removes {entry}"), None),
        Reason::Rule(rule) => (format!("{} ({})", words(&rule.value), rule.origin), Some(Place::of(rule))),
    };
    let (fate, value) = match fate {
        Fate::Kept => ("kept", None),
        Fate::Removed => ("removed", None),
        Fate::Set(value) => ("set", Some(value.to_owned())),
    };
    let allowed = fate != "removed";
    let answer = Variable {
        kind: "env",
        name: name.to_owned(),
        allowed,
        fate,
        value,
        outside: std::env::var_os(name).is_some(),
        why,
        stated,
        permit: if allowed { None } else { permit_variable(situation, name)? },
    };
    if json {
        answer::print_json(&answer)?;
    } else {
        let outside = if answer.outside { "" } else { " (it isn't set here)" };
        let mut text = format!("{}: {fate}{outside}: {}\n", harmless(name), harmless(&answer.why));
        if let Some(permit) = &answer.permit {
            text.push_str(&format!("  to permit  {}\n", harmless(permit)));
        }
        answer::print(&text)?;
    }
    Ok(if allowed { YES } else { NO })
}

fn words(rule: &EnvironmentRule) -> String {
    match rule {
        EnvironmentRule::Keep(glob) => format!("keep = {glob:?}"),
        EnvironmentRule::Remove(glob) => format!("remove = {glob:?}"),
        EnvironmentRule::Set { name, value } => format!("set {name} = {value:?}"),
    }
}

/// The option that keeps it, unless a lock stands against it.
fn permit_variable(situation: &Situation, name: &str) -> Result<Option<String>, Failure> {
    let mut layer = LayerPolicy::command_line();
    layer.keep_env(name, 0)?;
    let tried = situation.policy().clone().combine(layer.into()).environment();
    let keeps = tried.judge(name.as_bytes()).0 == Fate::Kept;
    Ok(keeps.then(|| format!("palisade run --keep-env {} -- COMMAND…", quoted(name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation;

    #[test]
    fn what_a_lock_forbids_is_not_proposed() {
        let locked = "[locked.syscalls]\ndeny = [\"ptrace\"]\n[locked.environment]\nremove = [\"AWS_*\"]\n";
        let call: Syscall = "ptrace".parse().unwrap();
        for (administrator, proposed) in [("", true), (locked, false)] {
            let situation = situation::of_administrator(administrator);
            assert_eq!(permit_call(&situation, "ptrace", call).unwrap().is_some(), proposed);
            assert_eq!(permit_variable(&situation, "AWS_X").unwrap().is_some(), proposed);
        }
    }
}
