// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report on the cases of one user, for people.

use std::fmt::Write as _;
use std::time::Duration;

use crate::case::Who;
use crate::suite::Company;
use crate::tool::Tool;
use crate::trial::Outcome;

/// One case with one tool.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The case's name.
    pub case: String,
    /// The tool's name.
    pub tool: &'static str,
    /// The final outcome.
    pub outcome: Outcome,
    /// The outcome of the first run, if that gave no result about the tool and was repeated.
    pub first: Option<String>,
    /// How long the case took, with its control and every tool.
    pub took: Duration,
}

/// The results of one person and one half of the cases.
#[derive(Debug)]
pub struct Report {
    who: Who,
    company: Company,
    tools: Vec<&'static str>,
    entries: Vec<Entry>,
}

impl Report {
    pub(crate) fn new(who: Who, company: Company, tools: &[Tool], entries: Vec<Entry>) -> Report {
        Report { who, company, tools: tools.iter().map(Tool::name).collect(), entries }
    }

    /// Everything that fails the test, with the command that runs only that case again.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let failed = |entry: &&Entry| {
            use Outcome::{Broken, Escape, NoResult, NotDecided};
            matches!(entry.outcome, Escape(_) | Broken(_) | NoResult(_) | NotDecided(_))
        };
        let line = |entry: &Entry| {
            let first =
                entry.first.as_ref().map(|first| format!("\n    at first: {first}")).unwrap_or_default();
            format!(
                "{} ({}): {}{first}\n    again: {}",
                entry.case,
                entry.tool,
                entry.outcome.words(),
                self.again(entry)
            )
        };
        self.entries.iter().filter(failed).map(line).collect()
    }

    /// The command that runs one case again, for this person and this tool.
    fn again(&self, entry: &Entry) -> String {
        format!(
            "PALISADE_ACCEPTANCE_ONLY='={}' PALISADE_ACCEPTANCE_TOOLS={} \
             ./x test acceptance/integration/escape::{}",
            entry.case,
            entry.tool,
            test_name(self.who, self.company)
        )
    }

    /// Names of the cases that were run.
    pub fn tried(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(|entry| !matches!(entry.outcome, Outcome::NotTried(_)))
            .map(|entry| entry.case.as_str())
    }

    /// The counts of each tool, the known gaps, what was repeated and what was not tried, for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        for tool in &self.tools {
            let count = |wanted: fn(&Outcome) -> bool| {
                self.entries.iter().filter(|entry| entry.tool == *tool && wanted(&entry.outcome)).count()
            };
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "acceptance: {tool} as {}{}: {} pairs tried, {} refused, {} stopped, {} work, {} known gaps, {} escapes, \
                 {} broken, {} without result, {} not decided, {} not tried",
                if self.who == Who::Root { "root" } else { "an ordinary user" },
                if self.company == Company::Alone { ", alone" } else { "" },
                count(|outcome| !matches!(outcome, Outcome::NotTried(_))),
                count(|outcome| matches!(outcome, Outcome::Refused)),
                count(|outcome| matches!(outcome, Outcome::Stopped)),
                count(|outcome| matches!(outcome, Outcome::Works)),
                count(|outcome| matches!(outcome, Outcome::KnownGap(_))),
                count(|outcome| matches!(outcome, Outcome::Escape(_))),
                count(|outcome| matches!(outcome, Outcome::Broken(_))),
                count(|outcome| matches!(outcome, Outcome::NoResult(_))),
                count(|outcome| matches!(outcome, Outcome::NotDecided(_))),
                count(|outcome| matches!(outcome, Outcome::NotTried(_))),
            );
        }
        for Entry { case, tool, outcome, first, .. } in &self.entries {
            let line = match (outcome, first) {
                (Outcome::KnownGap(why), _) => format!("  gap       {case} ({tool}): {why}"),
                (Outcome::NotTried(feature), _) => format!("  not tried {case} ({tool}): no {feature} here"),
                (_, Some(first)) => format!("  repeated  {case} ({tool}): {first}"),
                _ => continue,
            };
            let _ = writeln!(text, "{line}");
        }
        let mut slowest: Vec<&Entry> =
            self.entries.iter().filter(|entry| Some(&entry.tool) == self.tools.first()).collect();
        slowest.sort_by_key(|entry| std::cmp::Reverse(entry.took));
        let slowest: Vec<String> = slowest
            .iter()
            .take(8)
            .map(|entry| format!("{} {:.1} s", entry.case, entry.took.as_secs_f32()))
            .collect();
        let _ = writeln!(text, "  slowest   {}", slowest.join(", "));
        text
    }
}

/// The test of `tests/escape.rs` that runs this person's half.
#[must_use]
pub fn test_name(who: Who, company: Company) -> &'static str {
    match (who, company) {
        (Who::Root, Company::Together) => "as_root",
        (Who::Root, Company::Alone) => "alone_as_root",
        (_, Company::Together) => "as_user",
        (_, Company::Alone) => "alone_as_user",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(case: &str, outcome: Outcome, first: Option<&str>) -> Entry {
        Entry {
            case: case.into(),
            tool: "palisade",
            outcome,
            first: first.map(str::to_owned),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn what_says_nothing_of_the_tool_fails_and_is_told_how_to_repeat() {
        let report = Report::new(
            Who::User,
            Company::Alone,
            &[Tool::Palisade("/palisade".into())],
            vec![
                entry("fine", Outcome::Refused, Some("it took 10 s")),
                entry("hangs", Outcome::NotDecided("it took 20 s".into()), Some("it took 10 s")),
                entry("out", Outcome::Escape(String::new()), None),
                entry("absent", Outcome::NotTried("git".into()), None),
            ],
        );
        let failures = report.failures();
        let [hangs, out] = failures.as_slice() else { panic!("{failures:?}") };
        assert!(hangs.contains("not decided") && hangs.contains("it took 10 s"), "{hangs}");
        assert!(
            hangs.contains("PALISADE_ACCEPTANCE_ONLY='=hangs'") && hangs.contains("alone_as_user"),
            "{hangs}"
        );
        assert!(out.contains("ESCAPE") && out.contains("'=out'"), "{out}");
        let table = report.table();
        assert!(table.contains("3 pairs tried, 1 refused"), "{table}");
        assert!(table.contains("1 not decided, 1 not tried"), "{table}");
        assert!(table.contains("repeated  fine (palisade): it took 10 s"), "{table}");
        assert_eq!(report.tried().collect::<Vec<_>>(), ["fine", "hangs", "out"]);
    }
}
