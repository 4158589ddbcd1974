// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which system calls a plan's filter passes on or refuses because they weren't learned.

mod key;

pub(crate) use self::key::Inside;

use crate::error::PlanError;
use crate::facts::Facts;
use crate::filter;
use crate::plan::planner::{Isolation, without_namespaces};
use crate::plan::text::Text;
use crate::plan::{Calls, Plan};
use palisade_event::{Detail, Event, Mechanism, Object, Operation, Sandbox, Subject, Verdict, Why};
use palisade_policy::word::{SyscallMode, SyscallRefusal};
use palisade_policy::{Context, Policy};
use palisade_syscall::broker::report::Program;
use palisade_syscall::store::{Key, Store, key::shown};
use palisade_syscall::{Action, Arch, Errno, Numbers, Passed, Rule, Rules, Syscall, group};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

/// A question of the broker for the user at the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered<'q> {
    /// Its number, for the answer.
    pub number: u64,
    /// The calling thread, as the host numbers it.
    pub thread: u32,
    /// The call.
    pub call: Syscall,
    /// The program that would make it.
    pub program: &'q Program,
}

/// The event of a call that was refused because it wasn't learned.
pub(crate) fn event(subject: Subject, call: Syscall, killed: bool, calls: Option<&Calls<'_>>) -> Event {
    let text = match calls {
        None => "the policy asks about this call, and no answer allowed it".to_owned(),
        Some(calls) if calls.mode == SyscallMode::Ask => {
            format!("no answer allowed it for programs of {}", shown(&calls.profile.to_string()))
        }
        Some(calls) => {
            format!("it wasn't learned for programs of {}", shown(&calls.profile.to_string()))
        }
    };
    Event::new(
        SystemTime::now(),
        Detail::Sandbox(Sandbox::default()),
        subject,
        (Operation::Syscall, Object::syscall(call.name(), call.number(Arch::NATIVE))),
        (if killed { Verdict::Killed } else { Verdict::Refused }, Mechanism::Broker),
        Why::text(text),
    )
    .with_hint(Some(format!("palisade syscalls explain {}", call.name())))
}

/// What happens to a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is made.
    Made,
    /// The user is asked.
    Asked,
    /// It is refused, or ends its process.
    Refused,
}

/// What happens to a call under a plan with namespaces and the policy that it was made from, without regard to
/// arguments. A call that is refused only for certain arguments counts as made.
///
/// # Errors
/// When the policy names calls that don't exist.
pub fn fate(plan: &Plan<'_>, policy: &Policy, call: Syscall) -> Result<Fate, PlanError> {
    let (rules, _stated) = filter::listed(policy, false)?;
    let refused =
        |rule: &Rule| rule.tests.is_empty() && matches!(rule.action, Action::Errno(_) | Action::KillProcess);
    if rules.of(call).iter().any(refused) {
        return Ok(Fate::Refused);
    }
    let calls = plan.broker.as_ref().and_then(|broker| broker.calls.as_ref());
    let passed_on = calls.filter(|calls| {
        let numbers = Numbers::from_bits(&calls.numbers);
        call.number(Arch::NATIVE).is_some_and(|number| numbers.contains(number))
    });
    Ok(match passed_on.map(|calls| calls.mode) {
        None | Some(SyscallMode::Learn | SyscallMode::Off) => Fate::Made,
        Some(SyscallMode::Ask) => Fate::Asked,
        Some(SyscallMode::Enforce) => Fate::Refused,
    })
}

/// Adds the rules that the mode needs. `stated`: calls that the policy allows by name; `passed`: calls that the rules
/// pass on already; `inside`: what the command sees.
///
/// # Errors
/// When no calls were learned that could be enforced; when the program can't be identified; when the mode needs a
/// broker, and none can run; when the learned calls can't be read.
pub(crate) fn plan(
    facts: &Facts,
    (policy, context): (&Policy, &Context),
    rules: Rules,
    stated: &[&str],
    (inside, passed): (&Inside<'_>, Passed),
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(Rules, Option<Calls<'static>>), PlanError> {
    let mode = policy.syscall_mode().value;
    if mode == SyscallMode::Off {
        return Ok((rules, None));
    }
    let refusal = policy.syscall_refusal().value;
    let key = key::of(facts, policy, context, inside)?;
    let profile = key.text();
    let mut allowed: BTreeSet<Syscall> = group::base().clone();
    // Names were checked when the rules were made.
    allowed.extend(stated.iter().filter_map(|name| name.parse::<Syscall>().ok()));
    if mode != SyscallMode::Learn {
        let file = facts.places.syscalls();
        facts.depends_on(&file, true);
        let store = Store::read(&file)?;
        let learned = store.as_ref().map(|store| store.allowed(&profile)).transpose()?.flatten();
        match learned {
            Some(learned) => allowed.extend(learned),
            // The user decides about every call.
            None if mode == SyscallMode::Ask => {}
            None => {
                let former = store.map(|store| by_name(&store, &key, facts)).transpose()?.flatten();
                return Err(PlanError::NothingLearned { profile, former });
            }
        }
    }
    let arch = Arch::NATIVE;
    if inside.isolation == Isolation::InPlace {
        if mode != SyscallMode::Enforce {
            let guarantee = "system calls can be learned or asked about";
            let reason = "without namespaces no process can receive the system calls";
            return Err(without_namespaces(guarantee, reason));
        }
        notes.push(Cow::Borrowed(
            "calls that weren't learned are refused without a report: no process can receive them",
        ));
        let action = match refusal {
            SyscallRefusal::Kill => Action::KillProcess,
            SyscallRefusal::Errno => Action::Errno(Errno::EPERM),
        };
        return Ok((rules.only(&allowed, action, arch), None));
    }
    let by_kernel = mode == SyscallMode::Learn && kernel_learns(facts);
    let unwatched = by_kernel.then(|| rules.clone());
    let (mut watched, mut numbers) = rules.watched(&allowed, arch);
    if mode == SyscallMode::Learn && !by_kernel {
        watched = watched.executing(&mut numbers, arch);
    }
    let numbers = Cow::Owned(numbers.bits().to_vec());
    let calls = Calls { mode, refusal, profile: Text::new(profile)?, numbers, passed, by_kernel };
    Ok((unwatched.unwrap_or(watched), Some(calls)))
}

/// The profile with the name of a program's file, if calls are stored for it. Before programs were distinguished,
/// commands without a profile were stored under that name.
fn by_name(store: &Store, key: &Key, facts: &Facts) -> Result<Option<String>, PlanError> {
    let Some(program) = facts.command.first().filter(|_| !matches!(key, Key::Profile(_))) else {
        return Ok(None);
    };
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    Ok(store.allowed(&name)?.map(|_calls| name))
}

/// The socket of palisaded at which the kernel's recording of system calls is requested.
const LEARNING: &str = "/run/palisade/learn.sock";

/// Whether palisaded answers there. If it does, the plan must not be kept.
fn kernel_learns(facts: &Facts) -> bool {
    facts.depends_on(Path::new(LEARNING), false);
    let answers = std::os::unix::net::UnixStream::connect(LEARNING).is_ok();
    if answers {
        facts.set_volatile();
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::planner;
    use palisade_host::environment::Environment;
    use palisade_policy::Layer;
    use palisade_syscall::store::Binary;
    use std::collections::BTreeMap;
    use std::ffi::OsStr;

    #[test]
    fn a_call_is_decided_by_what_was_learned_and_by_the_list() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let mut facts = Facts::gather(Environment::from_iter([("HOME", &home)]), home.clone()).unwrap();
        facts.run_by(Some(OsStr::new("p")));
        facts.places.state = home.join("state");
        let call = |name: &str| name.parse::<Syscall>().unwrap();
        let learned = BTreeMap::from([(
            Binary { path: "/bin/true".into(), hash: [0; 32] },
            BTreeSet::from(["getpriority", "setpriority", "ptrace"].map(call)),
        )]);
        Store::open(&facts.places.syscalls()).unwrap().learn("p", &learned).unwrap();
        for (mode, unlearned) in
            [("off", Fate::Made), ("learn", Fate::Made), ("ask", Fate::Asked), ("enforce", Fate::Refused)]
        {
            let text = format!("schema = 1\n[syscalls]\nmode = \"{mode}\"\ndeny = [\"setpriority\"]\n");
            let policy = Policy::from(palisade_policy::parse(&text, None, Layer::User).unwrap());
            let plan = planner::learn(&facts, &policy, None).unwrap();
            let fate = |name: &str| fate(&plan, &policy, call(name)).unwrap();
            assert_eq!(fate("getpriority"), Fate::Made, "{mode}");
            assert_eq!(fate("sched_rr_get_interval"), unlearned, "{mode}");
            // A call that the policy or the deny list refuses isn't learned.
            assert_eq!((fate("setpriority"), fate("ptrace")), (Fate::Refused, Fate::Refused), "{mode}");
        }
    }
}
