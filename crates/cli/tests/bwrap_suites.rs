// SPDX-License-Identifier: Apache-2.0 OR MIT
//! bubblewrap's own test suites, unchanged, with `palisade` under the name `bwrap`: of the oldest and of the newest
//! version that it stands in for. They run as an ordinary user, because bubblewrap's tests end early for root. Every test
//! must pass, and there must be as many as bubblewrap's authors wrote. A test may only be skipped where bubblewrap itself
//! skips it on this machine, too.
//!
//! It runs with `./x test all` and `./x test suites`; `tests/others/bubblewrap-*.toml` states how the suites are obtained.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::others_suites::{is_wanted, store, suite::Suite};
use crate::support::{self, Place, Run, has, job};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const SUITES: [&str; 2] = ["bubblewrap-0.8", "bubblewrap-0.11"];

#[test]
fn every_test_of_bubblewraps_own_passes() {
    for name in SUITES {
        pass(name);
    }
}

/// The script that has nearly all tests.
const MAIN: &str = "test-run.sh";

fn pass(name: &str) {
    if !has("suites") || !is_wanted(name) || !["gcc", "bwrap", "userns"].into_iter().all(has) {
        return;
    }
    let place = support::ordinary();
    let own = place.home.join("bwrap");
    symlink(place.binary(), &own).unwrap();
    let scripts = Scripts::of(name, &place);
    let units =
        job::finish(place.command("/bin/sh").args(["-c", &scripts.suite.units]).current_dir(&scripts.tree));
    let units: Vec<&str> = units.ok().lines().collect();
    assert!(units.contains(&MAIN), "{units:?}");
    let mut findings = Vec::new();
    for unit in units {
        let ours = scripts.run(unit, &own);
        let taps = Taps::read(&ours.out);
        let least = if unit == MAIN { scripts.suite.least } else { 1 };
        let mut wrong = taps.wrong(&ours, least);
        if !taps.skipped.is_empty() {
            let theirs = skipped_by_bubblewrap(unit, &place);
            let other = taps.skipped.iter().filter(|skipped| !theirs.contains(skipped));
            wrong.extend(other.map(|skipped| format!("skipped, but not by bubblewrap itself: {skipped}")));
        }
        support::say(&format!("{name}: {unit}: {} tests, {} skipped\n", taps.ok, taps.skipped.len()));
        if !wrong.is_empty() {
            findings.push(format!("{unit}: {}\n{}\n{}", wrong.join("; "), end(&ours.out), end(&ours.err)));
        }
    }
    assert!(findings.is_empty(), "{name}:\n{}", findings.join("\n"));
}

/// The last lines.
fn end(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// What bubblewrap itself skips on this machine: of all suites, as it ends early in that of a newer version.
fn skipped_by_bubblewrap(unit: &str, place: &Place) -> Vec<String> {
    let skipped = |name| Taps::read(&Scripts::of(name, place).run(unit, Path::new("bwrap")).out).skipped;
    SUITES.into_iter().flat_map(skipped).collect()
}

/// A suite, and a copy of it that belongs to the user.
struct Scripts<'p> {
    suite: Suite,
    tree: PathBuf,
    place: &'p Place,
}

impl<'p> Scripts<'p> {
    fn of(name: &str, place: &'p Place) -> Self {
        let suite = Suite::read(name);
        let tree = place.home.join(name);
        if !tree.exists() {
            job::finish(Command::new("cp").arg("-a").args([&store::obtained(&suite), &tree])).ok();
            let owner = format!("{}:{}", place.uid, place.gid);
            job::finish(Command::new("chown").args(["-Rh", &owner]).arg(&tree)).ok();
        }
        Self { suite, tree, place }
    }

    fn run(&self, unit: &str, bwrap: &Path) -> Run {
        let mut shell = self.place.command("/bin/sh");
        shell.args(["-c", &self.suite.run, "unit", unit]).current_dir(&self.tree).env("BWRAP", bwrap);
        let run = job::finish(&mut shell);
        self.place.assert_all_dead();
        run
    }
}

/// What a script has printed, in the Test Anything Protocol.
#[derive(Debug, Default, PartialEq, Eq)]
struct Taps {
    /// How many tests passed or were skipped.
    ok: usize,
    failed: Vec<String>,
    /// The reasons.
    skipped: Vec<String>,
    planned: Option<usize>,
}

impl Taps {
    fn read(printed: &str) -> Self {
        let mut taps = Self::default();
        for line in printed.lines() {
            let is_test = line.starts_with("ok ");
            taps.ok += usize::from(is_test);
            if line.starts_with("not ok") {
                taps.failed.push(line.to_owned());
            }
            if let Some(plan) = line.strip_prefix("1..") {
                taps.planned = plan.split(' ').next().and_then(|number| number.parse().ok());
            }
            if is_test || line.starts_with("1..") {
                let reason = line.split_once("# SKIP").map(|(_test, reason)| reason.trim().to_owned());
                taps.skipped.extend(reason);
            }
        }
        taps
    }

    /// What isn't as it must be.
    fn wrong(&self, run: &Run, least: usize) -> Vec<String> {
        let mut wrong = self.failed.clone();
        if run.code != 0 {
            wrong.push(format!("exit code {}", run.code));
        }
        if self.planned != Some(self.ok) {
            wrong.push(format!("{} tests of {:?} planned ones", self.ok, self.planned));
        }
        // A script that is left out as a whole plans none.
        if self.ok < least && self.planned != Some(0) {
            wrong.push(format!("{} tests, not {least}", self.ok));
        }
        wrong
    }
}

#[test]
fn a_script_that_fails_stops_early_or_skips_is_seen() {
    let wrong = |out: &str, code: i32, least: usize| {
        let run = Run { code, out: out.to_owned(), err: String::new() };
        Taps::read(out).wrong(&run, least)
    };
    assert!(wrong("ok 1 a\nok 2 # SKIP b\n1..2\n", 0, 2).is_empty());
    assert_eq!(wrong("1..1\nnot ok 1 - a\n", 1, 1).len(), 4);
    assert_eq!(wrong("ok 1 a\n", 0, 1), ["1 tests of None planned ones"]);
    assert_eq!(wrong("ok 1 a\n1..1\n", 0, 2), ["1 tests, not 2"]);
    assert_eq!(Taps::read("ok 1 a\nok 2 # SKIP b c\n1..2\n").skipped, ["b c"]);
    assert_eq!(Taps::read("1..0 # SKIP no module\n").skipped, ["no module"]);
}
