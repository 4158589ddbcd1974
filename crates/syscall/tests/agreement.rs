// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compiled filter does what the rules say, for every call.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod interpreter;

use interpreter::run;
use palisade_syscall::rules::{Question, Width};
use palisade_syscall::{Action, Arch, Call, Errno, Filter, Rule, Rules, Syscall, Test, compile};
use proptest::prelude::*;

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

fn verdict(action: Action) -> u32 {
    match action {
        Action::Allow => 0x7fff_0000,
        Action::Errno(errno) => 0x0005_0000 + u32::from(errno.number()),
        Action::KillProcess => 0x8000_0000,
        Action::Notify => 0x7fc0_0000,
        other => panic!("{other:?}"),
    }
}

/// Numbers around everything that could be mistaken: the table's ends, x32, the signs.
fn numbers() -> impl Iterator<Item = u32> {
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

/// Arguments at and around the values that the rules for a call look for.
fn arguments(rules: &[Rule]) -> Vec<[u64; 6]> {
    let mut all = vec![[0; 6], [u64::MAX; 6], [u64::from(u32::MAX); 6]];
    for test in rules.iter().flat_map(|rule| &rule.tests) {
        let values = match test.question() {
            Question::In(values) | Question::NotIn(values) => values.clone(),
            Question::Has(mask) => (0..64).map(|bit| 1 << bit).chain([*mask, !mask]).collect(),
        };
        let high = 1 << 32;
        for value in values.into_iter().flat_map(|v| [v, v ^ high, v | !0 << 32, v.wrapping_add(1), v << 32])
        {
            for mut others in [[0; 6], [u64::MAX; 6], all[all.len() - 1]] {
                others[usize::from(test.argument())] = value;
                all.push(others);
            }
        }
    }
    all
}

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
        // i386, the other architecture, nothing at all.
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

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Allow),
        Just(Action::KillProcess),
        Just(Action::Notify),
        (1u16..5).prop_map(|number| Action::Errno(Errno::new(number).unwrap())),
    ]
}

fn test(arguments: std::ops::Range<u8>) -> impl Strategy<Value = Test> {
    let value = prop_oneof![0u64..4, any::<u64>(), Just(1 << 32), Just(u64::MAX)];
    let question = prop_oneof![
        proptest::collection::vec(value.clone(), 0..4).prop_map(Question::In),
        proptest::collection::vec(value.clone(), 0..4).prop_map(Question::NotIn),
        value.prop_map(Question::Has),
    ];
    (arguments, prop_oneof![Just(Width::Low), Just(Width::Full)], question)
        .prop_map(|(argument, width, question)| Test::new(argument, width, question).unwrap())
}

/// `share`: how many of the calls that a rule may be for get one.
fn rules(share: std::ops::Range<usize>) -> impl Strategy<Value = Rules> {
    let calls: Vec<Syscall> = Syscall::all().collect();
    let rule = (action(), proptest::collection::vec(test(0..6), 0..3));
    let rule = (proptest::sample::select(calls), rule);
    (proptest::collection::vec(rule, share), action(), action(), action()).prop_map(
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

    /// One more denial never makes the kernel make a call that it didn't.
    #[test]
    fn a_denial_never_widens(rules in rules(0..40), index in 0usize..400, arguments: [u64; 6]) {
        let denied = Syscall::all().nth(index % Syscall::all().count()).unwrap();
        prop_assume!(!["execve", "exit", "exit_group", "rt_sigreturn"].contains(&denied.name()));
        let narrower = rules.clone().with(&[], &[denied.name()]).unwrap();
        for number in 0..600 {
            let call = Call { audit_arch: Arch::X86_64.audit(), number, arguments };
            let (before, after) = (rules.decide(Arch::X86_64, &call), narrower.decide(Arch::X86_64, &call));
            prop_assert!(after != Action::Allow || before == Action::Allow, "{}", number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// What one rule leaves loaded is used by the next only where that is sure.
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

/// Two answers written one after the other, a chain of every length around the reach of a conditional
/// jump, and a comparison that leads to both: one may still be reached when the other just isn't.
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
    // Fewer, for each takes seconds.
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Long enough that jumps don't reach: the far ones need their stepping stones.
    #[test]
    fn programs_with_far_jumps(rules in rules(300..400)) {
        agree(&rules)?;
    }
}

#[test]
fn the_deny_list() {
    agree(&Rules::deny_list()).unwrap();
}

/// Everything but calls that the list looks into: so the kernel answers them from its bitmap.
#[test]
fn calls_are_decided_without_reading_an_argument() {
    for arch in ARCHES {
        let rules = Rules::deny_list();
        let filter = compile(&rules, arch).unwrap();
        let mut read = Vec::new();
        for call in Syscall::all() {
            let Some(number) = call.number(arch) else {
                continue;
            };
            let call_of = Call { audit_arch: arch.audit(), number, arguments: [0; 6] };
            if run(&filter.program, &call_of).reads_arguments {
                read.push(call.name());
            }
        }
        assert_eq!(read, ["clone", "ioctl", "personality", "socket", "socketpair", "unshare"]);
    }
}

/// Loading costs by both: this is where a change of the compiler or of the list shows.
#[test]
fn the_deny_list_is_small_and_flat() {
    for (arch, length, depth) in [(Arch::X86_64, 100, 18), (Arch::Aarch64, 100, 18)] {
        let filter = compile(&Rules::deny_list(), arch).unwrap();
        let steps = |number| {
            let call = Call { audit_arch: arch.audit(), number, arguments: [0; 6] };
            run(&filter.program, &call).steps
        };
        let deepest = (0..470).map(steps).max().unwrap();
        let total: usize = (0..470).map(steps).sum();
        println!(
            "{arch:?}: {} instructions, at most {deepest} steps, 470 calls {total}",
            filter.program.len()
        );
        assert!(filter.program.len() <= length, "{}", filter.listing(arch));
        assert!(deepest <= depth, "{deepest} steps");
    }
}
