// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the suite: every case, as root and as an ordinary user. Each case runs its control outside, then each tool.
//!
//! `PALISADE_BIN` names the binary, `PALISADE_TEST_HAS` declares what the machine has. `PALISADE_ACCEPTANCE_TOOLS` names
//! the tools, by default `palisade`; `palisade,bwrap` runs bubblewrap beside it, as a control of the suite itself.
//! `PALISADE_ACCEPTANCE_ONLY` picks the cases whose name contains a text, or after `=` the one of that name;
//! `PALISADE_ACCEPTANCE_LIST=short` those of `tests/acceptance/short.list`.
//!
//! Cases that must be alone on the machine are tests of their own, `alone_as_root` and `alone_as_user`: they wait until
//! no other case runs.

use std::collections::BTreeSet;
use std::io::Write as _;

use palisade_acceptance::case::{Case, Expect, Who, data_directory};
use palisade_acceptance::feature::Features;
use palisade_acceptance::file::load;
use palisade_acceptance::selection::{Selection, read_list, tools};
use palisade_acceptance::suite::{Company, run_person};
use palisade_acceptance::tool::{Tool, find_palisade};

fn cases() -> Vec<Case> {
    load(&data_directory()).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Prints past libtest's capture: the text is worth reading also when no test failed.
fn tell(text: &str) {
    let _nobody_reads = std::io::stderr().write_all(text.as_bytes());
}

fn run(who: Who, company: Company) {
    let data = data_directory();
    let features = Features::find(&data).unwrap_or_else(|error| panic!("{error}"));
    if who == Who::Root && !features.has("root") {
        tell("acceptance: not run by root: nothing was tried as root\n");
        return;
    }
    let named = tools().unwrap_or_else(|error| panic!("{error}"));
    let mut tools = Vec::new();
    if named.contains("palisade") {
        tools.push(Tool::Palisade(find_palisade().unwrap_or_else(|error| panic!("{error}"))));
    }
    if named.contains("bwrap") {
        tools.push(Tool::Bubblewrap);
    } else if company == Company::Together {
        tell(
            "acceptance: not run: bubblewrap, the suite's own control; PALISADE_ACCEPTANCE_TOOLS=palisade,bwrap does\n",
        );
    }
    let selection = Selection::find(&data).unwrap_or_else(|error| panic!("{error}"));
    let cases = cases();
    if let Some(name) = selection.only.as_ref().and_then(|only| only.strip_prefix('=')) {
        assert!(cases.iter().any(|case| case.name == name), "no case is called {name:?}");
    }
    let report = run_person(&cases, &features, &data, &tools, who, company, &selection)
        .unwrap_or_else(|error| panic!("{error}"));
    tell(&report.table());
    let failures = report.failures();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    if selection.is_everything() {
        assert!(report.tried().count() > 0, "nothing was tried");
    }
}

#[test]
fn as_root() {
    run(Who::Root, Company::Together);
}

#[test]
fn as_user() {
    run(Who::User, Company::Together);
}

#[test]
fn alone_as_root() {
    run(Who::Root, Company::Alone);
}

#[test]
fn alone_as_user() {
    run(Who::User, Company::Alone);
}

/// Every other test checks only the features that it needs itself.
#[test]
fn declared_features_are_here() {
    let features = Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}"));
    features.check().unwrap_or_else(|error| panic!("{error}"));
}

/// What the suite promises, checked in its data.
#[test]
fn cases_are_well_formed() {
    let cases = cases();
    let mut names = BTreeSet::new();
    for case in &cases {
        assert!(names.insert(&case.name), "{}: twice", case.name);
        let kebab = |character: char| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-'
        };
        assert!(case.name.chars().all(kebab), "{}: not in kebab case", case.name);
        assert!(!case.tools.is_empty(), "{}: for no tool", case.name);
        for difference in case.bwrap.iter().chain(&case.palisade) {
            assert!(!difference.why.is_empty(), "{}: a difference without words", case.name);
            assert_ne!(difference.expect, case.expect, "{}: no difference", case.name);
        }
        assert!(
            case.trace.is_none() || matches!(case.expect, Expect::Refused | Expect::Either),
            "{}: a trace of what must work",
            case.name
        );
        if case.expect == Expect::Stops {
            assert_eq!(case.tools, ["palisade"], "{}: only Palisade promises to stop", case.name);
        }
    }
    assert!(cases.len() >= 90, "only {} pairs", cases.len());
    // The short list is for testing a second binary: it has attacks of each kind.
    let short = read_list(&data_directory(), "short").unwrap_or_else(|error| panic!("{error}"));
    let missing: Vec<_> = short.iter().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "short.list: no such cases: {missing:?}");
    assert!((25..=60).contains(&short.len()), "short.list: {} cases", short.len());
    for file in ["files", "kernel", "names", "network", "processes", "secrets", "works"] {
        let text = std::fs::read_to_string(data_directory().join(format!("{file}.toml"))).unwrap();
        let listed = short.iter().filter(|name| text.contains(&format!("name = '{name}'"))).count();
        assert!(listed >= 2, "short.list: {listed} cases of {file}.toml");
    }
}
