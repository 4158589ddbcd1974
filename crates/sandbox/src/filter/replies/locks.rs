// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of locks: whatever later layers state, no answer to a call is looser than a lock demands. The tests compute
//! the lock's demand a second time, from the statements alone.

use super::*;
use crate::filter;
use palisade_policy::{Strength, merge, parse};
use palisade_syscall::Call;
use proptest::prelude::*;
use proptest::sample::select;

/// One statement about one call, in a file of its own.
#[derive(Clone, Debug)]
struct Stated {
    layer: Layer,
    strength: Strength,
    says: Says,
}

#[derive(Clone, Debug)]
enum Says {
    /// It is in the list `allow`.
    Allow,
    /// It is in the list `deny`.
    Deny,
    /// The answer to the call, for arguments that meet a condition.
    Answer(&'static str, &'static str),
}

/// A condition on the first two arguments.
type Fits = fn(u64, u64) -> bool;

/// Conditions, each with its meaning.
const CONDITIONS: [(&str, Fits); 7] = [
    ("", |_, _| true),
    ("arg0 in 1", |first, _| first == 1),
    ("arg0 in 1,2", |first, _| first == 1 || first == 2),
    ("arg0 not in 1", |first, _| first != 1),
    ("arg0 has 0x2", |first, _| first & 2 != 0),
    ("arg1 in 1", |_, second| second == 1),
    ("arg0 in 1 and arg1 in 1", |first, second| first == 1 && second == 1),
];

/// Actions, each with how firmly it prevents the call.
const ACTIONS: [(&str, u8); 6] = [
    ("action = \"allow\"", 0),
    ("action = \"ask\"", 1),
    ("action = \"return\", value = 0", 2),
    ("action = \"return\", value = 7", 2),
    ("action = \"deny\"", 3),
    ("action = \"deny\", errno = \"ENOENT\"", 3),
];

fn stated() -> impl Strategy<Value = Stated> {
    let says = prop_oneof![
        1 => Just(Says::Allow),
        2 => Just(Says::Deny),
        6 => (select(&CONDITIONS[..]), select(&ACTIONS[..]))
            .prop_map(|((when, _), (action, _))| Says::Answer(when, action)),
    ];
    (select(&Layer::ALL[1..]), select(&Strength::ALL[..]), says).prop_map(|(layer, strength, says)| {
        let strength =
            if palisade_policy::layer::may_lock(layer) { strength } else { strength.min(Strength::Set) };
        Stated { layer, strength, says }
    })
}

fn policy(call: &str, all: &[Stated]) -> Policy {
    let file = |stated: &Stated| {
        let section = match stated.strength {
            Strength::Default => "default.syscalls",
            Strength::Set => "syscalls",
            Strength::Locked => "locked.syscalls",
        };
        let body = match &stated.says {
            Says::Allow => format!("allow = [\"{call}\"]"),
            Says::Deny => format!("deny = [\"{call}\"]"),
            Says::Answer(when, action) => {
                format!("answers = [{{ call = \"{call}\", when = \"{when}\", {action} }}]")
            }
        };
        parse(&format!("schema = 1\n[{section}]\n{body}\n"), None, stated.layer).unwrap()
    };
    merge(all.iter().map(file).collect())
}

/// How firmly the locks of one layer prevent the call: the list counts first, then statements about certain arguments,
/// then the rest.
fn demanded(locks: &[&Stated], first: u64, second: u64) -> u8 {
    if locks.iter().any(|lock| matches!(lock.says, Says::Deny)) {
        return 3;
    }
    let firmest = |narrow: bool| {
        let answers = locks.iter().filter_map(|lock| {
            let Says::Answer(when, action) = lock.says else { return None };
            let (_, fits) = CONDITIONS.iter().find(|(text, _)| *text == when)?;
            let (_, firmness) = ACTIONS.iter().find(|(text, _)| *text == action)?;
            (when.is_empty() != narrow && fits(first, second)).then_some(*firmness)
        });
        answers.max()
    };
    firmest(true).or_else(|| firmest(false)).unwrap_or(0)
}

/// How firmly the filter prevents the call, together with the broker for calls that the filter passes on.
fn found(call: &str, policy: &Policy, isolation: Isolation) -> impl Fn(u64, u64) -> u8 + use<> {
    let call: Syscall = call.parse().unwrap();
    let number = call.number(Arch::NATIVE).unwrap();
    let (rules, _) = filter::listed(policy, isolation == Isolation::InPlace).unwrap();
    let answered =
        Answered::of(policy, isolation, &crate::guarantee::Demands::none(), &mut Vec::new()).unwrap();
    let first = answered.first(rules);
    let (rules, broker) = answered.last(first, Passed::Nothing).unwrap();
    move |first, second| {
        let arguments = [first, second, 0, 0, 0, 0];
        match rules.decide(Arch::NATIVE, &Call { audit_arch: Arch::NATIVE.audit(), number, arguments }) {
            Action::Allow => 0,
            Action::Pretend => 2,
            Action::Notify => {
                let fits = |answer: &&PolicyReply| {
                    answer.number == number && answer.tests.iter().all(|test| test.holds(&arguments))
                };
                match broker.as_ref().unwrap().calls.iter().find(fits).unwrap().made {
                    Made::Question => 1,
                    _ => 2,
                }
            }
            _ => 3,
        }
    }
}

/// The first arguments for which an answer is looser than a lock demands.
fn loosened(call: &str, all: &[Stated], isolation: Isolation) -> Option<(u64, u64)> {
    let found = found(call, &policy(call, all), isolation);
    let locks = |layer| all.iter().filter(move |s| s.layer == layer && s.strength == Strength::Locked);
    let points = (0..4).flat_map(|first| (0..2).map(move |second| (first, second)));
    points.into_iter().find(|(first, second)| {
        let demanded = Layer::ALL.iter().map(|layer| {
            let locks: Vec<&Stated> = locks(*layer).collect();
            demanded(&locks, *first, *second)
        });
        found(*first, *second) < demanded.max().unwrap()
    })
}

/// A user restates a list that an administrator has locked, as a default, and also states another answer to the call.
#[test]
fn a_lock_is_not_loosened_by_saying_it_again() {
    let of = |layer, strength, says| Stated { layer, strength, says };
    let deny = "action = \"deny\"";
    for lock in [Says::Deny, Says::Answer("", deny), Says::Answer("arg0 in 1", deny)] {
        for when in ["", "arg0 in 1"] {
            let all = [
                of(Layer::Administrator, Strength::Locked, lock.clone()),
                of(Layer::User, Strength::Default, Says::Deny),
                of(Layer::User, Strength::Set, Says::Answer(when, "action = \"allow\"")),
            ];
            assert_eq!(loosened("getpriority", &all, Isolation::Full), None, "{lock:?} {when:?}");
        }
    }
}

/// Where no user can be asked, a question isn't answered with yes.
#[test]
fn a_question_that_nobody_can_answer_is_answered_with_no() {
    for action in ["action = \"ask\"", "action = \"return\", value = 7"] {
        let lock = Stated {
            layer: Layer::Administrator,
            strength: Strength::Locked,
            says: Says::Answer("", action),
        };
        assert_eq!(loosened("getpriority", &[lock], Isolation::InPlace), None, "{action}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_layer_loosens_a_lock(
        call in select(vec!["getpriority", "kcmp"]),
        all in prop::collection::vec(stated(), 1..8),
    ) {
        prop_assert_eq!(loosened(call, &all, Isolation::Full), None);
        prop_assert_eq!(loosened(call, &all, Isolation::InPlace), None);
    }
}
