// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the outcome of each test from what the suites print.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// By `UNIT::TEST`, or `UNIT` where a unit is one test.
pub(super) type Outcomes = BTreeMap<String, Outcome>;

/// How a unit reports the outcomes of its tests.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    /// It is one test: 0 passed, 77 skipped.
    Exit,
    /// Rust's: `test NAME ... ok`.
    Libtest,
    /// Go's with `-test.v`: `--- PASS: NAME (0.00s)`.
    Go,
    /// `ok 1 - NAME`, `not ok 2 - NAME`, `ok 3 - NAME # SKIP why`.
    Tap,
}

impl Format {
    /// The outcomes, from `printed` and the exit code of the unit.
    pub(super) fn read(self, unit: &str, code: i32, printed: &str) -> Outcomes {
        if self == Format::Exit {
            let outcome = match code {
                0 => Outcome::Passed,
                77 => Outcome::Skipped,
                _ => Outcome::Failed,
            };
            return Outcomes::from([(unit.to_owned(), outcome)]);
        }
        let mut outcomes = Outcomes::new();
        for line in printed.lines() {
            let told = match self {
                Format::Exit => None,
                Format::Libtest => of_libtest(line),
                Format::Go => of_go(line),
                Format::Tap => of_tap(line),
            };
            let Some((name, outcome)) = told else { continue };
            let entry = outcomes.entry(format!("{unit}::{name}")).or_insert(outcome);
            // Several tests may have one name: all of them must pass.
            if *entry == Outcome::Passed || outcome == Outcome::Failed {
                *entry = outcome;
            }
        }
        outcomes
    }
}

fn of_libtest(line: &str) -> Option<(&str, Outcome)> {
    let (name, came) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match came.split([' ', ',']).next()? {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Skipped,
        _ => return None,
    };
    Some((name.trim_end_matches(" - should panic"), outcome))
}

fn of_go(line: &str) -> Option<(&str, Outcome)> {
    let (came, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let outcome = match came {
        "PASS" => Outcome::Passed,
        "FAIL" => Outcome::Failed,
        "SKIP" => Outcome::Skipped,
        _ => return None,
    };
    Some((rest.rsplit_once(" (").map_or(rest, |(name, _time)| name), outcome))
}

fn of_tap(line: &str) -> Option<(&str, Outcome)> {
    let (rest, outcome) = match line.strip_prefix("not ok ") {
        Some(rest) => (rest, Outcome::Failed),
        None => (line.strip_prefix("ok ")?, Outcome::Passed),
    };
    let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
    // `[NUMBER] [- ]NAME`. A name says more than a number, which changes where a test isn't there.
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let name = name.strip_prefix("- ").unwrap_or(name).trim();
    match directive.split([' ', ':']).next()?.to_ascii_lowercase().as_str() {
        "skip" => Some((name, Outcome::Skipped)),
        // Known to fail, there.
        "todo" => Some((name, Outcome::Skipped)),
        _ => Some((name, outcome)),
    }
}

#[test]
fn outcomes_are_read_as_they_are_printed() {
    use Outcome::{Failed, Passed, Skipped};
    let read = |format: Format, printed: &str| {
        format.read("u", 0, printed).into_iter().collect::<Vec<(String, Outcome)>>()
    };
    let of = |name: &str, outcome| (format!("u::{name}"), outcome);
    assert_eq!(
        read(
            Format::Libtest,
            "test a::b ... ok\ntest c ... FAILED\ntest d ... ignored, why\ntest result: ok."
        ),
        [of("a::b", Passed), of("c", Failed), of("d", Skipped)]
    );
    assert_eq!(
        read(Format::Go, "=== RUN   TestA\n    --- FAIL: TestA/b (0.00s)\n--- PASS: TestC (1.00s)\n"),
        [of("TestA/b", Failed), of("TestC", Passed)]
    );
    assert_eq!(
        read(Format::Tap, "ok 1 - a b\nnot ok - c\nok 3 - d # SKIP e\nnot ok 4 - f # TODO known\n1..4\n"),
        [of("a b", Passed), of("c", Failed), of("d", Skipped), of("f", Skipped)]
    );
    assert_eq!(read(Format::Tap, "ok 1 - a\nnot ok 2 - a\nok 3 - a\n"), [of("a", Failed)]);
    for (code, outcome) in [(0, Passed), (77, Skipped), (1, Failed), (-139, Failed)] {
        assert_eq!(Format::Exit.read("u", code, "ok"), Outcomes::from([("u".to_owned(), outcome)]));
    }
}
