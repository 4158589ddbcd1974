// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes metrics in the format of <https://prometheus.io/docs/instrumenting/exposition_formats/>. They contain nothing
//! that was typed.

use super::Facts;
use crate::counts::Ruling;
use core::fmt::Write;
use palisade_http::Served;

/// All metrics; with `served`, also those of the page's server.
#[must_use]
pub fn prometheus(facts: &Facts, served: Option<&Served>) -> String {
    let counts = &facts.counts;
    let mut text = String::with_capacity(4096);
    for (name, kind, what, value) in [
        ("lines_total", "counter", "Lines that were run", counts.lines),
        ("lines_failed_total", "counter", "Lines that ended with another code than 0", counts.failed),
        ("ghost_shown_total", "counter", "Lines at which ghost text was shown", counts.ghost_shown),
        ("ghost_taken_total", "counter", "Times that ghost text was taken", counts.ghost_taken),
        ("history_entries", "gauge", "Entries of the history", facts.entries),
        ("history_failed", "gauge", "Entries that ended with another code than 0", facts.failed),
        ("history_imported", "gauge", "Entries that were imported", facts.imported),
        (
            "unreadable",
            "gauge",
            "Parts of the history and the counts that can't be read",
            u64::try_from(facts.problems.len()).unwrap_or(u64::MAX),
        ),
    ] {
        let name = format!("palisade_shell_{name}");
        let _infallible = writeln!(text, "# HELP {name} {what}.\n# TYPE {name} {kind}\n{name} {value}");
    }
    head(&mut text, "palisade_shell_guard_rulings_total", "The guard's rulings");
    for ruling in Ruling::ALL {
        let (name, count) = (ruling.name(), counts.rulings.of(ruling));
        let _infallible = writeln!(text, "palisade_shell_guard_rulings_total{{ruling=\"{name}\"}} {count}");
    }
    if !counts.rules.is_empty() {
        head(&mut text, "palisade_shell_guard_rule_total", "The guard's rulings by rule");
    }
    for (rule, rulings) in &counts.rules {
        for ruling in Ruling::ALL.into_iter().filter(|ruling| rulings.of(*ruling) > 0) {
            let (rule, name, count) = (label(rule), ruling.name(), rulings.of(ruling));
            let _infallible = writeln!(
                text,
                "palisade_shell_guard_rule_total{{rule=\"{rule}\",ruling=\"{name}\"}} {count}"
            );
        }
    }
    if let Some(served) = served {
        let (answered, refused) = served.numbers();
        head(&mut text, "palisade_shell_page_requests_total", "Requests to the page");
        for (answer, count) in [("given", answered), ("refused", refused)] {
            let _infallible =
                writeln!(text, "palisade_shell_page_requests_total{{answer=\"{answer}\"}} {count}");
        }
    }
    text
}

fn head(text: &mut String, name: &str, what: &str) {
    let _infallible = writeln!(text, "# HELP {name} {what}.\n# TYPE {name} counter");
}

/// The escaped value of a label.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Told;

    #[test]
    fn each_number_has_help_and_type_and_labels_are_quoted() {
        let mut facts = Facts { entries: 7, ..Facts::default() };
        let rule = "my \"rule\"\\\nx".to_owned();
        let line = Some("hunter2".to_owned());
        facts.counts.rule(Told { time: 1, ruling: Ruling::Blocked, rule, line });
        let text = prometheus(&facts, Some(&Served::default()));
        assert!(
            text.contains("# TYPE palisade_shell_history_entries gauge\npalisade_shell_history_entries 7\n")
        );
        let wanted =
            "palisade_shell_guard_rule_total{rule=\"my \\\"rule\\\"\\\\\\nx\",ruling=\"blocked\"} 1\n";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("palisade_shell_guard_rulings_total{ruling=\"blocked\"} 1\n"), "{text}");
        assert!(text.contains("palisade_shell_page_requests_total{answer=\"given\"} 0\n"), "{text}");
        assert!(!text.contains("hunter2"));
        let mut described = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                described = rest.split(' ').next().unwrap();
            } else if !line.starts_with('#') {
                assert_eq!(line.split(['{', ' ']).next(), Some(described), "{line}");
                line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
            }
        }
        assert!(!prometheus(&facts, None).contains("page_requests"));
    }
}
