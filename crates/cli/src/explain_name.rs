// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens with a system call or an environment variable.

use crate::answer::{self, Failure, NO, YES};
use crate::situation::{Place, Situation};
use palisade_policy::environment::{EnvironmentRule, Fate, Reason};
use palisade_policy::{Layer, LayerPolicy, Policy, Sourced};
use palisade_sandbox::answering;
use palisade_sandbox::error::quoted;
use palisade_syscall::{Action, Arch, Rules, Syscall};
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
    /// The policy's statement, if it makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stated: Option<Place>,
    /// What to write in which file.
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<String>,
}

/// Explains a system call.
pub(crate) fn syscall(situation: &Situation, name: &str, json: bool) -> Result<u8, Failure> {
    let call: Syscall = name.parse()?;
    let rules = rules(situation.policy())?;
    let explanation = rules.explain(call, Arch::NATIVE);
    let allowed = may(&rules, call);
    let changes = situation.policy().syscalls();
    let listed = changes.allow.iter().chain(&changes.deny).find(|stated| stated.value == name);
    let answers = situation.policy().answers();
    let answer = answers.iter().find(|stated| stated.value.question.subject() == name);
    let stated = answer.map(|stated| (&stated.origin, Place::of(stated)));
    let stated = stated.or_else(|| listed.map(|stated| (&stated.origin, Place::of(stated))));
    let origin = stated.as_ref().map(|(origin, _place)| origin.to_string());
    let permit = if allowed { None } else { permit_call(situation, name, call)? };
    let answer = Call {
        kind: "syscall",
        syscall: name.to_owned(),
        allowed,
        words: explanation.to_string(),
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

fn rules(policy: &Policy) -> Result<Rules, Failure> {
    fn names(stated: &[Sourced<String>]) -> Vec<&str> {
        stated.iter().map(|stated| stated.value.as_str()).collect()
    }
    let changes = policy.syscalls();
    let rules = Rules::deny_list().with(&names(&changes.allow), &names(&changes.deny))?;
    Ok(answering::answered(policy, rules)?.keeping_modes(answering::judges_modes(policy)))
}

/// Whether it is allowed for some arguments. A call that the architecture lacks does no harm.
fn may(rules: &Rules, call: Syscall) -> bool {
    let explanation = rules.explain(call, Arch::NATIVE);
    let always = explanation.rules.iter().find(|rule| rule.tests.is_empty());
    let last = always.map_or(explanation.otherwise, |rule| rule.action);
    last == Action::Allow || explanation.rules.iter().any(|rule| rule.action == Action::Allow)
}

/// What the user writes in their configuration, unless a lock stands against it.
fn permit_call(situation: &Situation, name: &str, call: Syscall) -> Result<Option<String>, Failure> {
    let mut layer = LayerPolicy::empty(Layer::User, None);
    layer.add_syscall(name, true, 0)?;
    let tried = rules(&situation.policy().clone().combine(layer.into()))?;
    let file = situation.facts.places.config.join("config.toml");
    let permits = may(&tried, call);
    Ok(permits.then(|| format!("in {}: [syscalls] allow = [\"{name}\"]", file.shown())))
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

    #[test]
    fn what_a_lock_forbids_is_not_proposed() {
        let locked = "[locked.syscalls]\ndeny = [\"ptrace\"]\n[locked.environment]\nremove = [\"AWS_*\"]\n";
        let call: Syscall = "ptrace".parse().unwrap();
        for (administrator, proposed) in [("", true), (locked, false)] {
            let situation = Situation::of_administrator(administrator);
            assert_eq!(permit_call(&situation, "ptrace", call).unwrap().is_some(), proposed);
            assert_eq!(permit_variable(&situation, "AWS_X").unwrap().is_some(), proposed);
        }
    }
}
