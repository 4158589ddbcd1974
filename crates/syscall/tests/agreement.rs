// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the compiled filter agrees with the rules, for every call.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use crate::interpreter::run;
use crate::samples::{ARCHES, action, arguments, lists, numbers, rules, test, verdict};
use palisade_syscall::rules::{Question, Width};
use palisade_syscall::{Action, Arch, Call, Errno, Filter, Rule, Rules, Syscall, Test, compile};
use proptest::prelude::*;

fn agree_on(rules: &Rules, arch: Arch, number: u32) -> Result<(), TestCaseError> {
    agree_with(&compile(rules, arch).unwrap(), rules, arch, number)
}

fn agree_with(filter: &Filter, rules: &Rules, arch: Arch, number: u32) -> Result<(), TestCaseError> {
    let of_call = Syscall::from_number(arch, number).map_or(&[][..], |call| rules.of(call));
    for arguments in arguments(of_call) {
        let call = Call { audit_arch: arch.audit(), number, arguments };
        let expected = verdict(rules.decide(arch, &call));
        prop_assert_eq!(run(&filter.program, &call).verdict, expected, "{:?} {:x?}", arch, call);
    }
    Ok(())
}

fn agree(rules: &Rules) -> Result<(), TestCaseError> {
    for arch in ARCHES {
        let filter = compile(rules, arch).unwrap();
        for number in numbers() {
            agree_with(&filter, rules, arch, number)?;
        }
        // i386, the other architecture, no architecture at all.
        for audit_arch in [0x4000_0003, 0xc000_003e, 0xc000_00b7, 0, u32::MAX] {
            for number in [0, 11, 59, 101, 0x4000_0000 + 101] {
                let call = Call { audit_arch, number, arguments: [0; 6] };
                let expected = verdict(rules.decide(arch, &call));
                prop_assert_eq!(run(&filter.program, &call).verdict, expected);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_rules(rules in rules(0..80)) {
        agree(&rules)?;
    }

    #[test]
    fn random_calls(rules in rules(0..80), number: u32, arguments: [u64; 6]) {
        let filter = compile(&rules, Arch::X86_64).unwrap();
        for number in [number, number % 512] {
            let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments };
            let expected = verdict(rules.decide(Arch::X86_64, &call));
            prop_assert_eq!(run(&filter.program, &call).verdict, expected);
        }
    }

    /// A further denial never lets the kernel make a call that it didn't make before.
    #[test]
    fn a_denial_never_widens(rules in rules(0..40), index in 0usize..400, arguments: [u64; 6]) {
        let denied = Syscall::all().nth(index % Syscall::all().count()).unwrap();
        // Calls that every program needs can't be denied.
        let Ok(narrower) = rules.clone().with(&[], &[denied.name()]) else { return Ok(()) };
        for number in 0..600 {
            let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments };
            let (before, after) = (rules.decide(Arch::X86_64, &call), narrower.decide(Arch::X86_64, &call));
            prop_assert!(after != Action::Allow || before == Action::Allow, "{}", number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// A value that one rule left loaded is used by the next rule only where it is certainly loaded.
    #[test]
    fn many_rules_for_one_call(
        list in proptest::collection::vec((action(), proptest::collection::vec(test(0..2), 0..3)), 1..6),
    ) {
        let mut rules = Rules::new(Action::Allow);
        for (action, tests) in list {
            rules.add("read".parse().unwrap(), Rule { tests, ..Rule::always(action, "a test") });
        }
        agree_on(&rules, Arch::X86_64, 0)?;
    }
}

/// Two answers, one after the other, behind a chain of every length around the reach of a conditional jump, and a
/// comparison that leads to both. One answer may still be within reach when the other just isn't.
#[test]
fn jumps_at_the_edge_of_their_reach() {
    let errno = |number| Action::Errno(Errno::new(number).unwrap());
    let asks = |action, question| Rule {
        tests: vec![Test::new(0, Width::Low, question).unwrap()],
        ..Rule::always(action, "a test")
    };
    let calls = ["read", "write", "open", "close"].map(|name| name.parse::<Syscall>().unwrap());
    let answers = [errno(1), Action::Allow];
    for (length, [a, b]) in
        (236..262).flat_map(|length| [(length, answers), (length, [answers[1], answers[0]])])
    {
        for (near, middle, far) in (0..64).map(|i| (i % 4, i / 4 % 4, i / 16)) {
            if near == middle || near == far || middle == far {
                continue;
            }
            let mut rules = Rules::new(Action::KillProcess);
            let mut add = |call: usize, question, yes, no| {
                rules.add(calls[call], asks(yes, question));
                rules.add(calls[call], Rule::always(no, "a test"));
            };
            add(far, Question::In(vec![5]), a, b);
            add(middle, Question::In((0..length).collect()), errno(2), errno(3));
            add(near, Question::In(vec![5]), Action::Allow, errno(1));
            let filter = compile(&rules, Arch::X86_64).unwrap();
            for (number, argument) in
                (0..5).flat_map(|number| [0, 4, 5, 6, 300].map(|argument| (number, argument)))
            {
                let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments: [argument; 6] };
                let expected = verdict(rules.decide(Arch::X86_64, &call));
                assert_eq!(run(&filter.program, &call).verdict, expected, "{length} {call:?}");
            }
        }
    }
}

proptest! {
    // Only a few cases, because each takes seconds.
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Programs so long that jumps don't reach: the far ones need intermediate jumps.
    #[test]
    fn programs_with_far_jumps(rules in rules(300..400)) {
        agree(&rules)?;
    }
}

#[test]
fn the_lists() {
    for rules in lists() {
        agree(&rules).unwrap();
    }
}
