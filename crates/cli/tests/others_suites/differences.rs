// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The known differences, and the differences in a comparison that aren't known.

use super::outcome::{Outcome, Outcomes};
use super::suite::directory;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

/// Classes of differences that are meant: what a sandbox is for.
const DESIGN: [&str; 5] = ["protected", "network", "ids", "hidden", "privilege"];
/// And the others. `flaky` may occur or not.
const OPEN: [&str; 3] = ["datagram", "open", "flaky"];
/// So many lines may be of the others.
pub(super) const MOST: usize = 30;

/// A line of the list: `suite | test | class | reason`.
#[derive(Debug)]
struct Known {
    suite: String,
    /// A name, or the beginning of names with `*` behind it.
    test: String,
    class: String,
}

impl Known {
    fn of(line: &str) -> Self {
        let fields: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [suite, test, class, reason] = fields[..] else { panic!("not a line of the list: {line}") };
        assert!(!reason.is_empty(), "no reason: {line}");
        assert!(DESIGN.contains(&class) || OPEN.contains(&class), "no such class: {line}");
        assert!(!test.ends_with('*') || DESIGN.contains(&class), "many at once, not by design: {line}");
        Self { suite: suite.to_owned(), test: test.to_owned(), class: class.to_owned() }
    }

    fn fits(&self, test: &str) -> bool {
        // A test with parts of its own fails when one of them does.
        let is_part = |test: &str| test.strip_prefix(&self.test).is_some_and(|part| part.starts_with('/'));
        self.test
            .strip_suffix('*')
            .map_or(self.test == test || is_part(test), |beginning| test.starts_with(beginning))
    }
}

/// The list.
#[derive(Debug)]
pub(super) struct Differences(Vec<Known>);

impl Differences {
    /// Of all files `*.list`: many lines of one suite are better kept in a file of their own.
    pub(super) fn read() -> Self {
        let files = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
        let lists = files.filter(|path| path.extension().is_some_and(|extension| extension == "list"));
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        Self::of(&lists.map(read).collect::<Vec<_>>().join("\n"))
    }

    fn of(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let known: Vec<Known> = lines.map(Known::of).collect();
        let names: BTreeSet<_> = known.iter().map(|known| (&known.suite, &known.test)).collect();
        assert_eq!(names.len(), known.len(), "a test is listed twice");
        Self(known)
    }

    pub(super) fn suites(&self) -> BTreeSet<&str> {
        self.0.iter().map(|known| known.suite.as_str()).collect()
    }

    pub(super) fn not_by_design(&self) -> impl Iterator<Item = String> + '_ {
        let open = self.0.iter().filter(|known| !DESIGN.contains(&known.class.as_str()));
        open.map(|known| format!("{} | {}", known.suite, known.test))
    }

    fn of_suite(&self, suite: &str) -> impl Iterator<Item = &Known> {
        self.0.iter().filter(move |known| known.suite == suite)
    }
}

/// What of one suite isn't as the list says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    suite: String,
    /// Tests that pass outside and not inside, and aren't listed; with their outcome inside.
    new: Vec<(String, String)>,
    /// Tests that are listed and pass inside, too.
    gone: Vec<String>,
    /// As many occurred as listed.
    known: usize,
}

impl Verdict {
    /// Of the outcomes outside and inside, of one or more attempts. A difference that isn't known must occur in each
    /// attempt, one that is known in one of them.
    pub(super) fn of(suite: &str, differences: &Differences, attempts: &[(&Outcomes, &Outcomes)]) -> Self {
        let differs = |test: &str, (outside, inside): &(&Outcomes, &Outcomes)| {
            outside.get(test) == Some(&Outcome::Passed) && inside.get(test) != Some(&Outcome::Passed)
        };
        let (first, more) = attempts.split_first().unwrap();
        let mut verdict = Self { suite: suite.to_owned(), new: Vec::new(), gone: Vec::new(), known: 0 };
        for test in first.0.keys() {
            let is_known = differences.of_suite(suite).any(|known| known.fits(test));
            if !is_known && attempts.iter().all(|attempt| differs(test, attempt)) {
                let came = first.1.get(test).map_or("not told".to_owned(), |came| format!("{came:?}"));
                verdict.new.push((test.clone(), came.to_ascii_lowercase()));
            }
            verdict.known += usize::from(is_known && attempts.iter().any(|attempt| differs(test, attempt)));
        }
        for known in differences.of_suite(suite).filter(|known| known.class != "flaky") {
            let tests: Vec<&String> = first.0.keys().filter(|test| known.fits(test)).collect();
            let occurs = tests.iter().any(|test| attempts.iter().any(|attempt| differs(test, attempt)));
            // A test that fails outside, too, shows nothing.
            let passes = tests.iter().any(|test| first.0.get(*test) == Some(&Outcome::Passed));
            let again = more.iter().all(|(outside, _)| {
                tests.iter().any(|test| outside.get(*test).is_none_or(|came| *came == Outcome::Passed))
            });
            if passes && again && !occurs {
                verdict.gone.push(known.test.clone());
            }
        }
        verdict
    }

    /// Tests to be run once more.
    pub(super) fn in_doubt(&self) -> impl Iterator<Item = &str> {
        self.new.iter().map(|(test, _)| test.as_str()).chain(self.gone.iter().map(String::as_str))
    }

    pub(super) fn is_clean(&self) -> bool {
        self.new.is_empty() && self.gone.is_empty()
    }

    /// In words: lines for the list, lines to be removed from it.
    pub(super) fn told(&self) -> String {
        let mut told = format!("{} known differences\n", self.known);
        for (test, came) in &self.new {
            let _written = writeln!(told, "new: {} | {test} | CLASS | REASON ({came} inside)", self.suite);
        }
        for test in &self.gone {
            let _written = writeln!(told, "remove, it passes inside: {} | {test}", self.suite);
        }
        told
    }
}

#[test]
fn a_new_difference_and_one_that_is_gone_are_both_told() {
    use Outcome::{Failed, Passed, Skipped};
    let outcomes = |all: &[(&str, Outcome)]| -> Outcomes {
        all.iter().map(|(test, outcome)| ((*test).to_owned(), *outcome)).collect()
    };
    let list = Differences::of(
        "# comment\ns | known | datagram | why\ns | gone | protected | why\ns | many* | network | why\n\
         s | now | flaky | why\nt | other | open | why\n",
    );
    assert_eq!(list.not_by_design().count(), 3);
    let outside = outcomes(&[
        ("known", Passed),
        ("known/part", Passed),
        ("gone", Passed),
        ("many1", Passed),
        ("now", Passed),
        ("new", Passed),
        ("skipped", Passed),
        ("missing", Passed),
        ("fails", Failed),
    ]);
    let inside = outcomes(&[
        ("known", Failed),
        ("gone", Passed),
        ("many1", Failed),
        ("now", Passed),
        ("new", Failed),
        ("skipped", Skipped),
        ("fails", Failed),
    ]);
    let once = Verdict::of("s", &list, &[(&outside, &inside)]);
    let named: Vec<&str> = once.in_doubt().collect();
    assert_eq!((named, once.known), (vec!["missing", "new", "skipped", "gone"], 3));
    // At the second attempt some pass inside, one fails outside, and one that is known differs after all.
    let outside_again =
        outcomes(&[("new", Passed), ("skipped", Failed), ("missing", Passed), ("gone", Passed)]);
    let inside_again = outcomes(&[("new", Failed), ("missing", Passed), ("gone", Failed)]);
    let twice = Verdict::of("s", &list, &[(&outside, &inside), (&outside_again, &inside_again)]);
    assert_eq!(twice.in_doubt().collect::<Vec<_>>(), ["new"]);
    assert!(!twice.is_clean() && twice.told().contains("new: s | new | CLASS | REASON (failed inside)"));
    let gone_again = outcomes(&[("gone", Passed)]);
    let still = Verdict::of("s", &list, &[(&outside, &inside), (&gone_again, &gone_again)]);
    assert_eq!(still.in_doubt().collect::<Vec<_>>(), ["gone"]);
    assert!(still.told().contains("remove, it passes inside: s | gone"));
}
