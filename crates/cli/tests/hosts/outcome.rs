// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outcome of a launch on a host, and its comparison with the table.

use super::table::{Expected, Fails, Guarantees, Host, Runs, Table};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// How the launch is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// With every guarantee, or not at all.
    Strict,
    /// With the guarantees that the host can give.
    Best,
}

impl Mode {
    pub(super) const ALL: [Self; 2] = [Self::Strict, Self::Best];

    pub(super) const fn command(self) -> &'static str {
        match self {
            Self::Strict => "palisade run",
            Self::Best => "palisade run --best-effort",
        }
    }
}

/// What a launch printed and did.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) code: i32,
    pub(super) status: Vec<String>,
    pub(super) out: Vec<String>,
    pub(super) err: Vec<String>,
    pub(super) facts: BTreeSet<String>,
}

impl Outcome {
    /// The guarantees of which `--status-fd` told.
    fn held(&self) -> Option<Guarantees> {
        let started = self.status.iter().find(|line| line.contains(r#""event":"started""#))?;
        let started: serde_json::Value = serde_json::from_str(started).ok()?;
        let each = |(name, by): (&String, &serde_json::Value)| {
            (name.clone(), by.as_str().unwrap_or_default().to_owned())
        };
        Some(started["guarantees"].as_object()?.iter().map(each).collect())
    }

    /// What it noted about the host. Of a file that was written outside and is gone every host notes the same.
    fn notes(&self) -> Vec<&str> {
        let notes = self.err.iter().filter_map(|line| line.strip_prefix("palisade: note: "));
        notes.filter(|note| !note.contains("written outside the shown directories")).collect()
    }

    fn words(&self) -> String {
        let mut words = format!("code {}", self.code);
        for line in self.status.iter().chain(&self.out).chain(&self.err) {
            let _written = write!(words, "\n  {line}");
        }
        let _written = write!(words, "\n  facts: {:?}", self.facts);
        words
    }
}

/// Compares. The error says what differs.
pub(super) fn judge(table: &Table, host: &Host, mode: Mode, outcome: &Outcome) -> Result<(), String> {
    let differs = match host.expected(mode) {
        Expected::Runs(runs) => compare(&table.held(host, runs), runs, outcome),
        Expected::Fails(fails) => refusal(fails, outcome),
    };
    differs.map_err(|why| format!("{why}\n  {}", outcome.words()))
}

fn compare(wanted: &Guarantees, runs: &Runs, outcome: &Outcome) -> Result<(), String> {
    let done = outcome.out.iter().any(|line| line == "done");
    if outcome.code != 0 || !done || !outcome.facts.contains("made") {
        return Err("it doesn't run".to_owned());
    }
    let held = outcome.held().ok_or("--status-fd doesn't tell the guarantees")?;
    let differences: Vec<String> = wanted
        .keys()
        .chain(held.keys())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter(|name| wanted.get(*name) != held.get(*name))
        .map(|name| format!("{name} = {:?}, not {:?}", held.get(name), wanted.get(name)))
        .collect();
    if !differences.is_empty() {
        return Err(differences.join("; "));
    }
    let notes = outcome.notes();
    let as_listed = notes.len() == runs.notes.len()
        && notes.iter().zip(&runs.notes).all(|(note, wanted)| note.starts_with(wanted));
    if !as_listed {
        return Err(format!("other notes: {notes:#?}"));
    }
    facts(&held, outcome)
}

/// What is held is true.
fn facts(held: &Guarantees, outcome: &Outcome) -> Result<(), String> {
    let by = |name: &str| held.get(name).map_or("", String::as_str);
    // Landlock hides what a file has, and not its name, so this holds without a file tree of the launch's own, too.
    if outcome.out.iter().any(|line| line == "read outside") {
        return Err("a file outside was read".to_owned());
    }
    if !by("unchanged").is_empty() && outcome.facts.contains("reached") {
        return Err("a file outside was made, and `unchanged` is held".to_owned());
    }
    if by("names-protected") == "broker behind the filter" && outcome.facts.contains("named") {
        return Err("a protected name was made, and a broker judges names".to_owned());
    }
    if outcome.out.iter().any(|line| line == "unlinked") {
        return Err("a program with libraries doesn't run inside".to_owned());
    }
    Ok(())
}

fn refusal(fails: &Fails, outcome: &Outcome) -> Result<(), String> {
    if outcome.code != 125 || !outcome.out.is_empty() || outcome.facts.contains("made") {
        return Err("it doesn't fail".to_owned());
    }
    let line = |kind: &str| {
        outcome
            .err
            .iter()
            .find_map(|line| line.strip_prefix("palisade: ").unwrap_or(line).strip_prefix(kind))
            .unwrap_or_default()
    };
    if line("error: ") != fails.error {
        return Err(format!("another error than {:?}", fails.error));
    }
    if line("hint: ") != fails.hint {
        return Err(format!("another hint than {:?}", fails.hint));
    }
    Ok(())
}

#[test]
fn what_differs_is_told() {
    let held = |by: &str| Guarantees::from([("unchanged".to_owned(), by.to_owned())]);
    let runs = Runs { held: String::new(), but: Guarantees::new(), notes: vec!["weaker: ".to_owned()] };
    let outcome = |by: &str, note: &str, facts: &[&str]| Outcome {
        code: 0,
        status: vec![format!(r#"{{"event":"started","guarantees":{{"unchanged":{by}}}}}"#)],
        out: vec!["done".to_owned()],
        err: vec![format!("palisade: note: {note}")],
        facts: facts.iter().map(|fact| (*fact).to_owned()).collect(),
    };
    let good = outcome("\"Landlock\"", "weaker: why", &["made"]);
    assert_eq!(compare(&held("Landlock"), &runs, &good), Ok(()));
    for (outcome, wanted) in [
        (&good, "own file tree"),
        (&outcome("null", "weaker: why", &["made"]), "Landlock"),
        (&outcome("\"Landlock\"", "another", &["made"]), "Landlock"),
        (&outcome("\"Landlock\"", "weaker: why", &[]), "Landlock"),
        (&outcome("\"Landlock\"", "weaker: why", &["made", "reached"]), "Landlock"),
        (&Outcome { code: 1, ..outcome("\"Landlock\"", "weaker: why", &["made"]) }, "Landlock"),
    ] {
        assert!(compare(&held(wanted), &runs, outcome).is_err(), "{outcome:?}");
    }
    let fails = Fails { error: "no".to_owned(), hint: "do".to_owned() };
    let refused = |error: &str, hint: &str| Outcome {
        code: 125,
        err: vec![format!("palisade: error: {error}"), format!("hint: {hint}")],
        ..Outcome::default()
    };
    assert_eq!(refusal(&fails, &refused("no", "do")), Ok(()));
    assert!(refusal(&fails, &refused("no", "")).is_err());
    assert!(refusal(&fails, &refused("no more", "do")).is_err());
    assert!(refusal(&fails, &good).is_err());
}
