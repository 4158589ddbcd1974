// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the compiled filter agrees with libseccomp's filter for the same policy, for every number and both
//! architectures.
//!
//! Some things can't be told to libseccomp, or mean something else there:
//!
//! - It defines no order for overlapping rules, so it gets regions that don't overlap (`regions.rs`). If a call takes
//!   too many regions, rules of that call are left out.
//! - It has one action for all numbers without a rule. It gets our action for unknown numbers, and a rule for every
//!   known call.
//! - Without x32, its x86-64 filter treats x32's numbers as a foreign architecture's; ours treats them as unknown
//!   numbers. So x32 is added without rules (`export.c`).
//! - In long programs, 2.5.4 sometimes mixes up blocks of different calls (`a_policy_that_libseccomp_mixes_up`). If
//!   its answer for a call differs, it gets a policy for that call alone, and must then agree.
//! - For a foreign architecture it accepts only calls that its own table knows. Newer calls count as unknown numbers
//!   on both sides.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

#[path = "../interpreter/mod.rs"]
mod interpreter;
mod library;
mod regions;
#[path = "../samples/mod.rs"]
mod samples;

use std::cell::RefCell;

use interpreter::run;
use library::Library;
use palisade_syscall::rules::{Question, Width};
use palisade_syscall::{Action, Arch, Call, Errno, Instruction, Rule, Rules, Syscall, Test, compile};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use regions::{Region, regions};
use samples::{ARCHES, arguments, lists, numbers, rules, rules_for};

/// The most regions for one call, and in a policy. libseccomp 2.5.4 takes 50 ms for 1000 regions, 250 ms for 1500 and
/// more than a second for 2200.
const REGIONS: usize = 300;
const ALL_REGIONS: usize = 1300;

/// How much was compared.
#[derive(Debug, Default)]
struct Count {
    policies: usize,
    calls: usize,
    regions: usize,
    rules: usize,
    rules_left_out: usize,
    /// Calls that libseccomp doesn't know, in all policies.
    younger_calls: usize,
    /// Calls for which libseccomp agreed only when it got a policy for the call alone.
    mixed_up: usize,
}

/// The rules that libseccomp accepts, with their regions.
fn tellable(
    rules: &Rules,
    arch: Arch,
    library: &Library,
    count: &mut Count,
) -> (Rules, Vec<(Syscall, Vec<Region>)>) {
    let mut told = Rules::new(rules.default);
    (told.unknown, told.foreign) = (rules.unknown, rules.foreign);
    let (mut all, mut told_before) = (Vec::new(), 0);
    for call in Syscall::all().filter(|call| call.number(arch).is_some()) {
        if arch != Arch::NATIVE && library.number(arch, call).is_none() {
            told.add(call, Rule::always(rules.unknown, "younger than libseccomp"));
            count.younger_calls += 1;
            continue;
        }
        // A call without a condition takes one region.
        let limit = ALL_REGIONS.saturating_sub(told_before).clamp(1, REGIONS);
        let whole = rules.of(call);
        let mut of_call = whole;
        let regions = loop {
            match regions(of_call, rules.default, limit) {
                Some(regions) => break regions,
                None => of_call = &of_call[..of_call.len() - 1],
            }
        };
        count.rules += of_call.len();
        count.rules_left_out += whole.len() - of_call.len();
        told_before += regions.len();
        for rule in of_call {
            told.add(call, rule.clone());
        }
        all.push((call, regions));
    }
    count.regions += told_before;
    (told, all)
}

/// Further numbers to try: the neighbours of every constant in a program. Between two neighbouring constants all
/// comparisons have the same result, so these stand for all numbers.
fn boundaries(program: &[Instruction]) -> impl Iterator<Item = u32> {
    let constants = program.iter().filter(|instruction| instruction.code != 0x06).map(|found| found.k);
    constants.flat_map(|k| [k.wrapping_sub(1), k, k.wrapping_add(1)]).filter(|&number| number >= 600)
}

/// Checks that both filters give the same answer.
fn same(ours: &[Instruction], theirs: &[Instruction], call: &Call) -> Result<(), TestCaseError> {
    let (ours, theirs) = (run(ours, call).verdict, run(theirs, call).verdict);
    prop_assert_eq!(ours, theirs, "ours and libseccomp's, {:x?}", call);
    Ok(())
}

fn compare(rules: &Rules, arch: Arch, library: &mut Library, count: &mut Count) -> Result<(), TestCaseError> {
    count.policies += 1;
    let (rules, regions) = tellable(rules, arch, library, count);
    let theirs = library.export(&rules, arch, &regions);
    let ours = compile(&rules, arch).unwrap().program;

    let mut every: Vec<u32> = numbers().chain(boundaries(&ours)).chain(boundaries(&theirs)).collect();
    every.sort_unstable();
    every.dedup();
    for &number in &every {
        let known = Syscall::from_number(arch, number);
        let mut tried = arguments(known.map_or(&[][..], |call| rules.of(call)));
        let told = regions.iter().find(|(call, _)| Some(*call) == known);
        if let Some((_, regions)) = told {
            let rests = [0, u64::MAX, 0x5a5a_a5a5_0f0f_f0f0];
            tried.extend(regions.iter().flat_map(|region| rests.map(|rest| region.arguments(rest))));
        }
        count.calls += tried.len();
        let call = |arguments: &[u64; 6]| Call { audit_arch: arch.audit(), number, arguments: *arguments };
        let differs = tried.iter().find_map(|arguments| same(&ours, &theirs, &call(arguments)).err());
        match (differs, told) {
            (None, _) => {}
            (Some(error), None) => return Err(error),
            (Some(_), Some(told)) => {
                count.mixed_up += 1;
                let alone = library.export(&rules, arch, std::slice::from_ref(told));
                tried.iter().try_for_each(|arguments| same(&ours, &alone, &call(arguments)))?;
            }
        }
    }
    // i386, 32-bit ARM, the other architecture; one bit changed; no architecture.
    let arches = [0x4000_0003, 0x4000_0028, 0xc000_003e, 0xc000_00b7, arch.audit() ^ 1 << 31, 0, u32::MAX];
    count.calls += arches.len() * every.len();
    for audit_arch in arches {
        for &number in &every {
            let call = Call { audit_arch, number, arguments: [0; 6] };
            if Syscall::from_number(arch, number).is_none() || audit_arch != arch.audit() {
                same(&ours, &theirs, &call)?;
            }
        }
    }
    Ok(())
}

/// Compares `policies` random policies for each architecture, and prints what was compared.
fn compare_random(what: &str, policies: u32, strategy: impl Strategy<Value = Rules>) {
    let Some(library) = Library::start() else { return };
    let state = RefCell::new((library, Count::default()));
    let config = ProptestConfig { cases: policies, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config)
        .run(&strategy, |rules| {
            let (library, count) = &mut *state.borrow_mut();
            ARCHES.into_iter().try_for_each(|arch| compare(&rules, arch, library, count))
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let (_, count) = state.into_inner();
    println!("{what}: {count:?}");
    // Otherwise the policies or the comparison would be weaker than they look.
    assert!(count.rules_left_out * 2 < count.rules, "{what}: {count:?}");
    assert!(count.mixed_up * 20 < count.rules, "{what}: {count:?}");
}

#[test]
fn random_rules_for_many_calls() {
    compare_random("many calls", 16, rules(0..40));
}

/// Tests that take few regions, so that many fit into a policy: their values lie close together.
fn short_test() -> impl Strategy<Value = Test> {
    let value = prop_oneof![4 => 0u64..8, 1 => 0xffff_fffe..0x1_0000_0002u64, 1 => Just(u64::MAX)];
    let question = prop_oneof![
        proptest::collection::vec(value.clone(), 0..4).prop_map(Question::In),
        proptest::collection::vec(value, 0..4).prop_map(Question::NotIn),
        prop_oneof![0u64..16, Just(0xf000_0000), Just(0x3_8000_0000), Just(1 << 63)].prop_map(Question::Has),
    ];
    (0u8..2, prop_oneof![Just(Width::Low), Just(Width::Full)], question)
        .prop_map(|(argument, width, question)| Test::new(argument, width, question).unwrap())
}

/// Tests that each rule leaves the remaining cases to the next one.
#[test]
fn many_random_rules_for_a_few_calls() {
    let calls = ["read", "ioctl", "clone3", "openat"].map(|name| name.parse().unwrap());
    compare_random("few calls", 24, rules_for(calls.to_vec(), 4..16, short_test()));
}

/// In the whole program for this policy, libseccomp 2.5.4 denies `_sysctl` with `[0, 0, 0, 0, 1, 0]`, about which it
/// was told nothing. Without the rule for `fcntl` it doesn't.
#[test]
fn a_policy_that_libseccomp_mixes_up() {
    let Some(mut library) = Library::start() else { return };
    let errno = |number| Action::Errno(Errno::new(number).unwrap());
    let mut rules = Rules::new(errno(4));
    rules.unknown = Action::Allow;
    let mut rule = |call: &str, action, tests: &[(u8, Width, Question)]| {
        let tests = tests
            .iter()
            .map(|(argument, width, question)| Test::new(*argument, *width, question.clone()).unwrap());
        let (condition, reason) = (String::new(), String::new());
        rules.add(call.parse().unwrap(), Rule { action, tests: tests.collect(), condition, reason });
    };
    rule(
        "_sysctl",
        Action::Allow,
        &[
            (4, Width::Low, Question::Has(u32::MAX.into())),
            (5, Width::Full, Question::NotIn(vec![0x2_3bba_87bc_4712])),
        ],
    );
    rule("fcntl", errno(2), &[(4, Width::Full, Question::In(vec![1, 2, 0x447d_596f_9eae_63d4]))]);
    let mut count = Count::default();
    compare(&rules, Arch::X86_64, &mut library, &mut count).unwrap();
    println!("{count:?}");
}

#[test]
fn the_lists() {
    let Some(mut library) = Library::start() else { return };
    for rules in lists() {
        for arch in ARCHES {
            let mut count = Count::default();
            compare(&rules, arch, &mut library, &mut count).unwrap();
            assert_eq!(count.rules_left_out, 0);
            println!("{arch:?}: {count:?}");
        }
    }
}

/// Compares the tables, as far as both go. A wrong number would deny the wrong call.
#[test]
fn names_and_numbers() {
    let Some(mut library) = Library::start() else { return };
    for arch in ARCHES {
        let last = Syscall::all().filter_map(|call| call.number(arch)).max().unwrap();
        let theirs: Vec<(u32, String)> =
            (0..=last).filter_map(|number| Some((number, library.name(arch, number)?))).collect();
        for (number, theirs) in &theirs {
            let ours = Syscall::from_number(arch, *number).map(Syscall::name);
            assert_eq!(ours, Some(theirs.as_str()), "{arch:?} {number}");
        }
        for call in Syscall::all() {
            if let Some(theirs) = library.number(arch, call) {
                assert_eq!(call.number(arch), Some(theirs), "{arch:?} {call}");
            }
        }
        println!("{arch:?}: {} numbers", theirs.len());
        assert!(theirs.len() > 290, "{}", theirs.len());
    }
}
