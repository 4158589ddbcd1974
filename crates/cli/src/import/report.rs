// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints what became of the statements of a foreign file.

use palisade_import::report::{Outcome, Report};
use palisade_text::harmless;

/// Lines for people: statements by outcome and reason, the most important ones last.
pub(super) fn words(report: &Report, file: &str) -> String {
    let kinds = [
        (Outcome::Approximated, "approximated"),
        (Outcome::LeftOut, "left out"),
        (Outcome::NotKept, "NOT KEPT"),
    ];
    let mut lines = vec![format!(
        "palisade: note: {file}: {} imported, {} approximated, {} left out",
        counted(report.taken, "statement"),
        report.of(&[Outcome::Approximated]).len(),
        report.left_out().len(),
    )];
    for (outcome, title) in kinds {
        // One reason may hold for dozens of statements. It is printed once.
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for finding in report.of(&[outcome]) {
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
    let lost = report.of(&[Outcome::NotKept]).len();
    if lost > 0 {
        lines.push(format!(
            "palisade: note: {} restricted something that the profile doesn't restrict (NOT KEPT)",
            counted(lost, "statement")
        ));
    }
    if report.hooks > 0 {
        lines.push(format!(
            "palisade: note: {} will run on the host, as you: read the profile before you use it",
            counted(report.hooks, "program")
        ));
    }
    for path in &report.others {
        lines.push(format!(
            "palisade: note: {} belongs to another user: read the profile before you use it",
            path.display()
        ));
    }
    let lines = lines.iter().map(|line| harmless(line) + "\n");
    lines.collect()
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_import::report::{At, Finding};

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
            words(&report, "f"),
            "palisade: note: f: 1 statement imported, 0 approximated, 3 left out\n\
             left out: no such key\n  line 2: b\nNOT KEPT: of proc\n  line 1: a\n  line 3: c\n\
             palisade: note: 2 statements restricted something that the profile doesn't restrict (NOT KEPT)\n"
        );
    }

    #[test]
    fn what_is_quoted_cannot_steer_the_terminal_nor_be_endless() {
        let mut report = Report { taken: 1, ..Report::default() };
        let statement = format!("\u{1b}[2J\u{202e}\n{}", "x".repeat(1000));
        report.findings.push(Finding::new(&At::line(3), &statement, Outcome::NotKept, "why"));
        let words = words(&report, "f");
        assert!(!words.contains('\u{1b}') && !words.contains('\u{202e}'), "{words}");
        assert_eq!(words.lines().count(), 4, "{words}");
        assert!(words.len() < 600, "{words}");
        assert!(words.starts_with("palisade: note: f: 1 statement imported, 0 approximated, 1 left out\n"));
    }
}
