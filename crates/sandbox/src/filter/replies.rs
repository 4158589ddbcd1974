// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Syscall replies of a policy, and what a program learns about its machine: as rules of the filter, and as
//! instructions for the broker.

use crate::error::PlanError;
use crate::guarantee::Demands;
use crate::plan::planner::Isolation;
use crate::plan::text::Text;
use crate::plan::{Instead, Open, SyscallReplies};
use crate::view::tree::Tree;
use palisade_policy::reply::{Action as Stated, Question};
use palisade_policy::word::Word;
use palisade_policy::{Guarantee, Layer, Origin, Policy, Sourced, SyscallReply};
use palisade_sys::landlock::Rights;
use palisade_sys::launch::MOST_GIVEN;
use palisade_syscall::broker::replies::{Made, PolicyReply};
use palisade_syscall::reply::{self, ReplyAction};
use palisade_syscall::{Action, Arch, Errno, Error, Passed, Rule, Rules, Syscall};
use std::borrow::Cow;
use std::path::Path;

/// An entry that can't be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {source}")]
pub struct Impossible {
    /// The entry's origin.
    pub origin: Origin,
    /// Why.
    pub source: Error,
}

/// The syscall replies of a policy.
pub(crate) struct Answered {
    /// The rules for calls, in the order in which they are tried.
    rules: Vec<(Syscall, Rule)>,
    /// What the broker does for calls that are passed on.
    calls: Vec<PolicyReply>,
    opens: Vec<Open<'static>>,
    release: Option<Text<'static>>,
    processors: Option<u32>,
    start: Option<i64>,
}

/// The entries that can't be carried out.
#[must_use]
pub fn check(policy: &Policy) -> Vec<Impossible> {
    let answers = policy.answers();
    let answers = answers.iter().filter_map(|answer| {
        let source = rule(answer).err()?;
        Some(Impossible { origin: answer.origin.clone(), source })
    });
    misnamed(policy).chain(answers).collect()
}

/// The calls that a policy allows or denies, and that don't exist or can't be denied.
pub(crate) fn misnamed(policy: &Policy) -> impl Iterator<Item = Impossible> {
    let changes = policy.syscalls();
    let allowed = changes.allow.into_iter().map(|stated| {
        let made = Rules::deny_list().with(&[stated.value.as_str()], &[]);
        (stated.origin, made)
    });
    let denied = changes.deny.into_iter().map(|stated| {
        let made = Rules::deny_list().with(&[], &[stated.value.as_str()]);
        (stated.origin, made)
    });
    let all: Vec<_> = allowed.chain(denied).collect();
    all.into_iter().filter_map(|(origin, made)| Some(Impossible { origin, source: made.err()? }))
}

/// The rule for a reply to a call; `None` for a reply to opening a path.
fn rule(stated: &Sourced<SyscallReply>) -> Result<Option<(Syscall, Rule, ReplyAction)>, Error> {
    let Question::Call { call, when } = &stated.value.question else { return Ok(None) };
    let given = match &stated.value.action {
        Stated::Allow => ReplyAction::Allow,
        Stated::Ask => ReplyAction::Ask,
        Stated::Return { value } => ReplyAction::Return(*value),
        Stated::Deny { errno } => ReplyAction::Deny(reply::errno(errno)?),
        Stated::Redirect { .. } | Stated::Give { .. } => return Ok(None),
    };
    let (call, rule) = reply::rule(call, when, given, "answered by the policy")?;
    Ok(Some((call, rule, given)))
}

impl Answered {
    /// Reads and checks the replies of a policy.
    ///
    /// # Errors
    /// When an entry can't be carried out; when replies need a broker, and none can run.
    pub(crate) fn of(
        policy: &Policy,
        isolation: Isolation,
        demands: &Demands,
        notes: &mut Vec<Cow<'static, str>>,
    ) -> Result<Self, PlanError> {
        let mut out = Self {
            rules: Vec::new(),
            calls: Vec::new(),
            opens: Vec::new(),
            release: policy.word(Word::Release).map(|release| Text::new(release.value)).transpose()?,
            processors: policy.processors().map(|count| count.value),
            start: policy.time().map(|time| time.value.seconds()),
        };
        for stated in policy.answers() {
            let made = rule(&stated)
                .map_err(|source| Impossible { origin: stated.origin.clone(), source })
                .map_err(PlanError::Answer)?;
            match made {
                Some(_) if policy.is_outdone(&stated) => {}
                Some((call, rule, given)) => out.call(call, rule, given),
                None => out.open(&stated.value)?,
            }
        }
        if isolation == Isolation::InPlace && out.is_brokered() {
            let reason = format!(
                "without namespaces no process can receive the system calls, so {}",
                out.unanswered().join("; ")
            );
            demands.give_up(Guarantee::CallsAnswered, &reason, notes, || {
                format!("calls aren't answered as the policy says: {reason}")
            })?;
            // No user can allow the call, so it is refused. A call with a stated result isn't made either.
            for (_, rule) in out.rules.iter_mut().filter(|(_, rule)| rule.action == Action::Notify) {
                rule.action = Action::Errno(Errno::EPERM);
            }
            (out.calls, out.opens, out.release, out.processors) = (Vec::new(), Vec::new(), None, None);
            out.start = None;
        }
        let is_named = || policy.hostname().is_some_and(|name| name.origin.layer != Layer::BuiltIn);
        if isolation == Isolation::InPlace && is_named() {
            notes
                .push(Cow::Borrowed("the machine's name inside is the host's: another one needs namespaces"));
        }
        Ok(out)
    }

    /// What programs get where no broker runs, for each answer that needs one.
    fn unanswered(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for (call, _) in self.rules.iter().filter(|(_, rule)| rule.action == Action::Notify) {
            let words = format!("{} fails with EPERM", call.name());
            if !all.contains(&words) {
                all.push(words);
            }
        }
        all.extend(self.opens.iter().map(|open| format!("opening {} opens that file", open.path)));
        all.extend(self.release.iter().map(|_| "the kernel's release is the host's".to_owned()));
        all.extend(self.processors.iter().map(|_| "the number of processors is the host's".to_owned()));
        all.extend(self.start.iter().map(|_| "the clock is the host's".to_owned()));
        all
    }

    fn call(&mut self, call: Syscall, rule: Rule, given: ReplyAction) {
        let made = match given {
            ReplyAction::Ask => Some(Made::Question),
            ReplyAction::Return(value) if value != 0 => Some(Made::Value(value)),
            _ => None,
        };
        if let (Some(made), Some(number)) = (made, call.number(Arch::NATIVE)) {
            self.calls.push(PolicyReply { number, tests: rule.tests.clone(), made });
        }
        self.rules.push((call, rule));
    }

    fn open(&mut self, stated: &SyscallReply) -> Result<(), PlanError> {
        let Question::Open { open } = &stated.question else { return Ok(()) };
        let path = Text::new(open.as_str())?;
        if self.opens.iter().any(|known| known.path == path) {
            // An earlier entry for this path takes precedence.
            return Ok(());
        }
        let file = match &stated.action {
            Stated::Redirect { to } => Instead::Path(Text::new(to.as_str())?),
            Stated::Give { descriptor } => Instead::Descriptor(*descriptor),
            _ => return Ok(()),
        };
        self.opens.push(Open { path, file });
        let given = self.opens.iter().filter(|open| matches!(open.file, Instead::Descriptor(_))).count();
        if given > MOST_GIVEN {
            let reason = format!("at most {MOST_GIVEN} can be given");
            return Err(PlanError::Guarantee {
                guarantee: "the command gets all descriptors that the policy gives",
                reason,
                named: false,
            });
        }
        Ok(())
    }

    fn is_brokered(&self) -> bool {
        self.rules.iter().any(|(_, rule)| rule.action == Action::Notify)
            || !self.opens.is_empty()
            || self.release.is_some()
            || self.processors.is_some()
            || self.start.is_some()
    }

    /// The rules, with the replies to calls in front.
    pub(crate) fn first(&self, rules: Rules) -> Rules {
        rules.answered(self.rules.clone())
    }

    /// The rules, with those for stated results and for openings behind all others; and the broker's instructions.
    pub(crate) fn last(
        self,
        mut rules: Rules,
        passed: Passed,
    ) -> Result<(Rules, Option<SyscallReplies<'static>>), PlanError> {
        if !self.is_brokered() {
            return Ok((rules, None));
        }
        let Self { mut calls, opens, release, processors, start, .. } = self;
        let made = [
            ("uname", release.as_ref().map(|_release| Made::Machine)),
            ("sched_getaffinity", processors.map(Made::Processors)),
        ];
        for (name, made) in made {
            let Some(made) = made else { continue };
            let call: Syscall = name.parse().map_err(PlanError::Syscalls)?;
            rules = rules.passing(&[name], "the policy changes its result")?;
            if let Some(number) = call.number(Arch::NATIVE) {
                calls.push(PolicyReply { number, tests: Vec::new(), made });
            }
        }
        if start.is_some() {
            let (timed, clock) = rules.timed(Arch::NATIVE);
            rules = timed;
            calls.extend(clock);
        }
        if !opens.is_empty() {
            rules = rules.opening()?;
        }
        Ok((rules, Some(SyscallReplies { calls, opens, release, start, passed })))
    }
}

/// Makes files state the same number of processors as the calls do.
pub(crate) fn processors(
    tree: &mut Tree<'_>,
    policy: &Policy,
    isolation: Isolation,
) -> Result<(), PlanError> {
    let Some(count) = policy.processors().filter(|_count| isolation == Isolation::Full) else {
        return Ok(());
    };
    let count = count.value;
    if let Ok(host) = std::fs::read_to_string("/proc/cpuinfo") {
        tree.cover(Path::new("/proc/cpuinfo"), Text::new(described(&host, count))?)?;
    }
    let range = if count == 1 { "0\n".to_owned() } else { format!("0-{}\n", count - 1) };
    for name in ["online", "possible", "present"] {
        let path = Path::new("/sys/devices/system/cpu").join(name);
        let content = Text::new(range.as_str())?;
        if tree.host_path(&path).is_some() {
            tree.cover(&path, content)?;
        } else {
            // C libraries read these files first. If they are missing, the libraries count the processors in `/proc/stat`.
            tree.made_file(&path, 0o444, content, false, Rights::READ.intersection(Rights::OF_FILES))?;
        }
    }
    Ok(())
}

/// The host's description of its processors, for this number of them.
fn described(host: &str, count: u32) -> String {
    let stanzas: Vec<&str> = host.split("\n\n").filter(|stanza| stanza.starts_with("processor")).collect();
    let mut out = String::new();
    for (index, stanza) in (0..count).zip(stanzas.iter().cycle()) {
        for line in stanza.lines() {
            match line.split_once(':') {
                Some((name, _)) if matches!(name.trim_end(), "processor" | "apicid" | "initial apicid") => {
                    out.push_str(&format!("{name}: {index}\n"));
                }
                _ => {
                    out.push_str(line);
                    out.push('\n');
                }
            }
        }
        out.push('\n');
    }
    out
}

/// Makes the file with the machine's name state the policy's name.
pub(crate) fn hostname(tree: &mut Tree<'_>, policy: &Policy, isolation: Isolation) -> Result<(), PlanError> {
    let path = Path::new("/etc/hostname");
    let Some(name) = policy.hostname().filter(|_name| isolation == Isolation::Full) else { return Ok(()) };
    // Where the host's file isn't shown, no name is needed.
    if name.origin.layer == Layer::BuiltIn || tree.host_path(&tree.resolve(path)).is_none() {
        return Ok(());
    }
    tree.cover(&tree.resolve(path), Text::new(format!("{}\n", name.value.as_str()))?)
}

#[cfg(test)]
mod locks;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_described_as_the_hosts_are() {
        let host = "processor\t: 0\nmodel name\t: A\napicid\t\t: 0\n\nprocessor\t: 1\nmodel name\t: B\n\n";
        let three = described(host, 3);
        assert_eq!(
            three,
            "processor\t: 0\nmodel name\t: A\napicid\t\t: 0\n\nprocessor\t: 1\nmodel name\t: B\n\n\
             processor\t: 2\nmodel name\t: A\napicid\t\t: 2\n\n"
        );
        assert_eq!(described(host, 1).matches("processor").count(), 1);
        assert_eq!(described("", 2), "");
    }
}
