// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs other projects' test suites outside and inside, and compares them test by test. A test that passes outside must pass
//! inside, except for those in `tests/others/*.list`. It runs with `./x test all` and `./x test suites`.
//!
//! A suite is data: `tests/others/NAME.toml` states how it is obtained, run and read. It is obtained once, into
//! `target/suites/NAME`, and runs as an ordinary user in a directory of that user. `PALISADE_SUITES` is `all` or
//! names with commas between them. (bubblewrap's suites are obtained in this way, too: `bwrap_suites.rs`.)
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod differences;
mod outcome;
mod round;
pub(crate) mod store;
pub(crate) mod suite;

use crate::support::{self, has};
use differences::{Differences, Verdict};
use outcome::{Outcome, Outcomes};
use round::{Rounds, Where};
use std::collections::BTreeSet;
use suite::Suite;

#[test]
fn cpython() {
    compare("cpython");
}

#[test]
fn git() {
    compare("git");
}

#[test]
fn go() {
    compare("go");
}

#[test]
fn coreutils() {
    compare("coreutils");
}

#[test]
fn libuv() {
    compare("libuv");
}

#[test]
fn crates() {
    compare("crates");
}

#[test]
fn node() {
    compare("node");
}

/// Runs a suite outside and inside. What differs, and isn't expected to, is run once more on both sides, alone: only
/// what differs again is a finding.
fn compare(name: &str) {
    if !has("suites") || !is_wanted(name) {
        return;
    }
    let suite = Suite::read(name);
    let differences = Differences::read();
    let tree = store::obtained(&suite);
    let place = support::ordinary();
    let rounds = Rounds::new(&suite, &tree, &place);
    let units = rounds.units();
    assert!(!units.is_empty(), "{name} has no units");
    let outside = rounds.run(Where::Outside, &units, suite.jobs);
    let inside = rounds.run(Where::Inside, &units, suite.jobs);
    let passed = outside.values().filter(|outcome| **outcome == Outcome::Passed).count();
    assert!(
        passed >= suite.least,
        "{passed} tests pass outside, fewer than {}: {} holds what was printed",
        suite.least,
        rounds.printed.display()
    );
    let first = Verdict::of(&suite.name, &differences, &[(&outside, &inside)]);
    let again: Vec<String> = first.in_doubt().filter_map(|test| unit_of(test, &units)).collect();
    let again: Vec<String> = again.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    let verdict = if again.is_empty() {
        first
    } else {
        let second = [Where::Outside, Where::Inside].map(|side| rounds.run(side, &again, 1));
        Verdict::of(&suite.name, &differences, &[(&outside, &inside), (&second[0], &second[1])])
    };
    let inside_too = outside.iter().filter(|(test, outcome)| both_passed(test, **outcome, &inside)).count();
    println!("{name}: {passed} tests pass outside, {inside_too} of them inside at the first attempt");
    print!("{}", verdict.told());
    assert!(verdict.is_clean(), "{name}: {}\nprinted: {}", verdict.told(), rounds.printed.display());
}

fn both_passed(test: &str, outside: Outcome, inside: &Outcomes) -> bool {
    outside == Outcome::Passed && inside.get(test) == Some(&Outcome::Passed)
}

/// The unit whose test it is.
fn unit_of(test: &str, units: &[String]) -> Option<String> {
    units.iter().find(|unit| test == unit.as_str() || test.starts_with(&format!("{unit}::"))).cloned()
}

pub(crate) fn is_wanted(name: &str) -> bool {
    let wanted = std::env::var("PALISADE_SUITES").unwrap_or_default();
    wanted == "all" || wanted.split(',').any(|one| one == name)
}

#[test]
fn every_line_of_the_list_is_of_a_suite_and_few_are_not_by_design() {
    let differences = Differences::read();
    for name in differences.suites() {
        Suite::read(name);
    }
    let open: Vec<String> = differences.not_by_design().collect();
    assert!(open.len() <= differences::MOST, "{} differences: {}", open.len(), open.join("\n"));
}
