// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of each statement of a foreign file.

use palisade_text::harmless;
use serde::Serialize;
use std::rc::Rc;

/// As much of a statement as is quoted.
const QUOTED: usize = 160;

/// Where a statement stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct At {
    /// The file's name, if it was included by the one that is imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<Rc<str>>,
    pub(super) line: usize,
}

impl At {
    /// A line of the file itself.
    pub(super) const fn line(line: usize) -> Self {
        Self { file: None, line }
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}:{}", self.line),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// What became of a statement that isn't said exactly by the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// Said otherwise, and never more loosely.
    Approximated,
    /// Not said. It granted or did something, which the profile doesn't.
    LeftOut,
    /// Not said. It kept something away, which the profile doesn't.
    NotKept,
}

/// A statement that isn't said exactly.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    #[serde(flatten)]
    pub(super) at: At,
    pub(super) statement: String,
    #[serde(skip)]
    pub(super) outcome: Outcome,
    #[serde(rename = "reason")]
    pub(super) why: &'static str,
    /// Whether it kept something away.
    pub(super) restricts: bool,
}

impl Finding {
    pub(super) fn new(at: &At, statement: &str, outcome: Outcome, why: &'static str) -> Self {
        let mut quoted: String = statement.chars().take(QUOTED).collect();
        if quoted.len() < statement.len() {
            quoted.push('…');
        }
        let restricts = outcome == Outcome::NotKept;
        Self { at: at.clone(), statement: quoted, outcome, why, restricts }
    }

    /// For a comment.
    pub(super) fn line(&self) -> String {
        let not = if self.restricts { "NOT KEPT: " } else { "" };
        format!("{}: `{}`: {not}{}", self.at, self.statement, self.why)
    }
}

/// What became of all statements.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) taken: usize,
    pub(super) findings: Vec<Finding>,
    /// What the launcher itself doesn't know.
    pub(super) unknown: Vec<Finding>,
    /// Programs that run on the host, around the sandbox.
    pub(super) hooks: usize,
}

impl Report {
    pub(super) fn of(&self, kinds: &[Outcome]) -> Vec<&Finding> {
        self.findings.iter().filter(|finding| kinds.contains(&finding.outcome)).collect()
    }

    /// Statements that the profile doesn't say.
    pub(super) fn left_out(&self) -> Vec<&Finding> {
        self.of(&[Outcome::LeftOut, Outcome::NotKept])
    }

    /// For people, in lines: statements by what became of them and why, what matters most last.
    pub(super) fn words(&self, file: &str) -> String {
        let kinds = [
            (Outcome::Approximated, "approximated"),
            (Outcome::LeftOut, "left out"),
            (Outcome::NotKept, "NOT KEPT"),
        ];
        let mut lines = vec![format!(
            "palisade: note: {file}: {} taken over, {} approximated, {} left out",
            counted(self.taken, "statement"),
            self.of(&[Outcome::Approximated]).len(),
            self.left_out().len(),
        )];
        for (outcome, title) in kinds {
            // A reason may hold for dozens of statements, and is said once.
            let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
            for finding in self.of(&[outcome]) {
                let line = format!("  {}: {}", finding.at, finding.statement);
                match reasons.iter_mut().find(|(why, _lines)| *why == finding.why) {
                    Some((_why, lines)) => lines.push(line),
                    None => reasons.push((finding.why, vec![line])),
                }
            }
            for (why, statements) in reasons {
                lines.push(format!("{title}: {why}"));
                lines.extend(statements);
            }
        }
        let lost = self.of(&[Outcome::NotKept]).len();
        if lost > 0 {
            lines.push(format!(
                "palisade: note: {} kept something away that the profile doesn't keep away (NOT KEPT)",
                counted(lost, "statement")
            ));
        }
        if self.hooks > 0 {
            lines.push(format!(
                "palisade: note: {} will run on the host, as you: read the profile before you use it",
                counted(self.hooks, "program")
            ));
        }
        let lines = lines.iter().map(|line| harmless(line) + "\n");
        lines.collect()
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_once_and_what_is_not_kept_last() {
        let mut report = Report { taken: 1, ..Report::default() };
        for (line, statement, outcome, why) in [
            (1, "a", Outcome::NotKept, "of proc"),
            (2, "b", Outcome::LeftOut, "no such key"),
            (3, "c", Outcome::NotKept, "of proc"),
        ] {
            report.findings.push(Finding::new(&At::line(line), statement, outcome, why));
        }
        assert_eq!(
            report.words("f"),
            "palisade: note: f: 1 statement taken over, 0 approximated, 3 left out\n\
             left out: no such key\n  line 2: b\nNOT KEPT: of proc\n  line 1: a\n  line 3: c\n\
             palisade: note: 2 statements kept something away that the profile doesn't keep away (NOT KEPT)\n"
        );
    }

    #[test]
    fn what_is_quoted_cannot_steer_the_terminal_nor_be_endless() {
        let mut report = Report { taken: 1, ..Report::default() };
        let statement = format!("\u{1b}[2J\u{202e}\n{}", "x".repeat(1000));
        report.findings.push(Finding::new(&At::line(3), &statement, Outcome::NotKept, "why"));
        let words = report.words("f");
        assert!(!words.contains('\u{1b}') && !words.contains('\u{202e}'), "{words}");
        assert_eq!(words.lines().count(), 4, "{words}");
        assert!(words.len() < 600, "{words}");
        assert!(words.starts_with("palisade: note: f: 1 statement taken over, 0 approximated, 1 left out\n"));
    }
}
