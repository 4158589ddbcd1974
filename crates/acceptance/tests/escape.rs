// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The suite itself: every case, for each tool, as root and as an ordinary user.
//!
//! `PALISADE_BIN` names the binary, `PALISADE_TEST_HAS` declares what the machine has,
//! `PALISADE_ACCEPTANCE_ONLY` picks the cases whose name contains a text.

use std::collections::BTreeSet;
use std::io::Write as _;

use palisade_acceptance::case::{Case, Expect, Who, data_directory};
use palisade_acceptance::feature::Features;
use palisade_acceptance::file::load;
use palisade_acceptance::suite::run_leg;
use palisade_acceptance::tool::{Tool, find_palisade};

fn cases() -> Vec<Case> {
    load(&data_directory()).unwrap_or_else(|error| panic!("{error:?}"))
}

fn leg(tool: &Tool, who: Who) {
    let features = Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}"));
    if who == Who::Root && !features.has("root") {
        let _ = writeln!(std::io::stderr(), "acceptance: not run by root: nothing was tried as root");
        return;
    }
    let report =
        run_leg(&cases(), &features, &data_directory(), tool, who).unwrap_or_else(|error| panic!("{error}"));
    // Past libtest's capture: the table is worth reading when nothing failed, too.
    let _ = std::io::stderr().write_all(report.table().as_bytes());
    let failures = report.failures();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    if std::env::var_os("PALISADE_ACCEPTANCE_ONLY").is_none() {
        assert!(report.tried().count() > 0, "nothing was tried");
    }
}

#[test]
fn bubblewrap_as_root() {
    leg(&Tool::Bubblewrap, Who::Root);
}

#[test]
fn bubblewrap_as_user() {
    leg(&Tool::Bubblewrap, Who::User);
}

#[test]
fn palisade_as_root() {
    leg(&Tool::Palisade(find_palisade().unwrap_or_else(|error| panic!("{error}"))), Who::Root);
}

#[test]
fn palisade_as_user() {
    leg(&Tool::Palisade(find_palisade().unwrap_or_else(|error| panic!("{error}"))), Who::User);
}

/// The promise of the suite, kept by its data.
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
}
