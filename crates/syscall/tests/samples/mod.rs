// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random rules, and calls whose answers could differ between two filters.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use palisade_syscall::rules::{Question, Width};
use palisade_syscall::{Action, Arch, Errno, Rule, Rules, Syscall, Test};
use proptest::prelude::*;

pub(crate) const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

pub(crate) fn verdict(action: Action) -> u32 {
    match action {
        Action::Allow => 0x7fff_0000,
        Action::Errno(errno) => 0x0005_0000 + u32::from(errno.number()),
        Action::KillProcess => 0x8000_0000,
        Action::Notify => 0x7fc0_0000,
        Action::Pretend => 0x0005_0000,
        other => panic!("{other:?}"),
    }
}

/// The rules of sandboxes: without a broker, with one, and with one that learns.
pub(crate) fn lists() -> [Rules; 3] {
    let list = Rules::deny_list();
    [
        list.clone().keeping_modes(false),
        list.clone().brokered().unwrap().keeping_modes(true),
        list.learned().unwrap().keeping_modes(true),
    ]
}

/// Numbers that a filter could handle wrongly: around the ends of the table, x32, the sign bit.
pub(crate) fn numbers() -> impl Iterator<Item = u32> {
    let x32 = 0x4000_0000;
    (0..600).chain(x32..x32 + 600).chain([
        1023,
        4096,
        x32 - 1,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX - 1,
        u32::MAX,
    ])
}

/// Arguments at and around the values that the rules for a call test.
pub(crate) fn arguments(rules: &[Rule]) -> Vec<[u64; 6]> {
    let mut all = vec![[0; 6], [u64::MAX; 6], [u64::from(u32::MAX); 6]];
    for test in rules.iter().flat_map(|rule| &rule.tests) {
        let values = match test.question() {
            Question::In(values) | Question::NotIn(values) => values.clone(),
            Question::Has(mask) => (0..64).map(|bit| 1 << bit).chain([*mask, !mask]).collect(),
        };
        let around = |v: u64| {
            [v, v ^ 1 << 32, v | !0 << 32, v ^ 1 << 31, v.wrapping_add(1), v.wrapping_sub(1), v << 32]
        };
        for value in values.into_iter().flat_map(around) {
            for mut others in [[0; 6], [u64::MAX; 6], all[all.len() - 1]] {
                others[usize::from(test.argument())] = value;
                all.push(others);
            }
        }
    }
    all
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Allow),
        Just(Action::KillProcess),
        Just(Action::Notify),
        Just(Action::Pretend),
        (1u16..5).prop_map(|number| Action::Errno(Errno::new(number).unwrap())),
    ]
}

pub(crate) fn test(arguments: std::ops::Range<u8>) -> impl Strategy<Value = Test> {
    let value = prop_oneof![0u64..4, any::<u64>(), Just(1 << 32), Just(u64::MAX)];
    let question = prop_oneof![
        proptest::collection::vec(value.clone(), 0..4).prop_map(Question::In),
        proptest::collection::vec(value.clone(), 0..4).prop_map(Question::NotIn),
        value.prop_map(Question::Has),
    ];
    (arguments, prop_oneof![Just(Width::Low), Just(Width::Full)], question)
        .prop_map(|(argument, width, question)| Test::new(argument, width, question).unwrap())
}

/// `share`: how many of the possible calls get a rule.
pub(crate) fn rules(share: std::ops::Range<usize>) -> impl Strategy<Value = Rules> {
    rules_for(Syscall::all().collect(), share, test(0..6))
}

/// Random rules for these calls, `many` in all, each with at most two of these tests.
pub(crate) fn rules_for(
    calls: Vec<Syscall>,
    many: std::ops::Range<usize>,
    test: impl Strategy<Value = Test>,
) -> impl Strategy<Value = Rules> {
    let rule = (action(), proptest::collection::vec(test, 0..3));
    let rule = (proptest::sample::select(calls), rule);
    (proptest::collection::vec(rule, many), action(), action(), action()).prop_map(
        |(list, default, unknown, foreign)| {
            let mut rules = Rules::new(default);
            (rules.unknown, rules.foreign) = (unknown, foreign);
            for (call, (action, tests)) in list {
                let (condition, reason) = (String::new(), String::new());
                rules.add(call, Rule { action, tests, condition, reason });
            }
            rules
        },
    )
}
