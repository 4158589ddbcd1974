// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how often the guard is wrong: about lines that people type at work, and about attacks.
//!
//! Each corpus has two halves, separated by a hash of the line. Atoms and rules were changed after looking at the first
//! half, never after looking at the second.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use palisade_shell::classify::{Classifier, Context, Level, Origin, Settings, trust::Trust};

const HARMLESS: &str = include_str!("corpora/harmless.txt");
/// Examples of tools' use from the tldr pages, which their contributors license under CC BY 4.0: see
/// `documentation.py`.
const DOCUMENTATION: &str = include_str!("corpora/documentation.txt");
const ATTACKS: &str = include_str!("corpora/attacks.txt");

/// Whether a line is in the held-out half, which is never looked at.
fn is_held_out(line: &str) -> bool {
    Trust::hash(line).as_bytes()[0] % 2 == 1
}

fn classifier() -> Classifier {
    Classifier::new(&Settings::default()).unwrap()
}

/// Counts the wrong lines of a half, and all its lines.
fn count<'l>(
    lines: impl Iterator<Item = &'l str>,
    held_out: bool,
    mut is_wrong: impl FnMut(&str) -> bool,
) -> (usize, usize) {
    let half: Vec<&str> = lines.filter(|line| is_held_out(line) == held_out).collect();
    (half.iter().filter(|line| is_wrong(line)).count(), half.len())
}

/// Prints what is wrong, but only in the half that may be looked at.
fn show(held_out: bool, level: Level, line: &str, rules: &[&str]) {
    if !held_out || std::env::var_os("PALISADE_SHOW_HELD_OUT").is_some() {
        println!("{}: {line} {rules:?}", level.name());
    }
}

fn are_let_through(what: &str, lines: &str) {
    let classifier = classifier();
    assert!(lines.lines().count() >= 10_000);
    for held_out in [false, true] {
        let (wrong, all) = count(lines.lines(), held_out, |line| {
            let verdict = classifier.classify(line, Origin::Typed, &Context::default());
            if verdict.level > Level::Allow {
                let rules: Vec<&str> = verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
                show(held_out, verdict.level, line, &rules);
            }
            verdict.level > Level::Allow
        });
        println!("{what}, held out {held_out}: {wrong} of {all} not let through");
        // Two in a thousand.
        assert!(wrong * 500 <= all, "{what}, held out {held_out}: {wrong} of {all}");
    }
}

#[test]
fn harmless_lines_are_let_through() {
    are_let_through("harmless", HARMLESS);
}

#[test]
fn examples_of_documentation_are_let_through() {
    are_let_through("documentation", DOCUMENTATION);
}

#[test]
fn attacks_are_caught() {
    let classifier = classifier();
    assert!(ATTACKS.lines().count() >= 300);
    for held_out in [false, true] {
        let (missed, all) = count(ATTACKS.lines(), held_out, |entry| {
            let (expected, line) = entry.split_once(' ').unwrap();
            let expected = if expected == "C" { Level::Confirm } else { Level::Warn };
            let verdict = classifier.classify(line, Origin::Typed, &Context::default());
            if verdict.level < expected {
                let rules: Vec<&str> = verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect();
                show(held_out, verdict.level, line, &rules);
            }
            verdict.level < expected
        });
        println!("attacks, held out {held_out}: {missed} of {all} missed");
        assert!(missed * 20 <= all, "held out {held_out}: {missed} of {all}");
    }
}
