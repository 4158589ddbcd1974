// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report at the end of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::job::{TestResult, Verdict};
use crate::plan::LeftOut;
use crate::room::Worked;

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// Everything a run has found.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// A result for each test.
    pub(crate) results: &'a [TestResult],
    /// Tests that ran out of time, were repeated alone and passed.
    pub(crate) repeated: &'a [String],
    /// Suites that did not run.
    pub(crate) left_out: &'a [LeftOut],
    /// Why the suites of the long run were included, if the reason was that no base is known.
    pub(crate) no_base: Option<&'a str>,
    /// Whether the tests wrote to the disk: a repetition must then do the same.
    pub(crate) on_disk: bool,
    /// The time from the start of the first job to the end of the last.
    pub(crate) took: Duration,
    /// How much the processors worked during the run, if the kernel reports it.
    pub(crate) worked: Option<Worked>,
}

impl Report<'_> {
    /// Tests that failed, including those that ran out of time again when they ran alone.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &TestResult> {
        self.results.iter().filter(|result| matches!(result.verdict, Verdict::Failed | Verdict::NotDecided))
    }

    /// The processor time of all tests, and that of each module, the largest first.
    fn busy(&self) -> (Duration, Vec<(&str, Duration)>) {
        let mut suites: BTreeMap<&str, Duration> = BTreeMap::new();
        for result in self.results {
            let suite = result.name.split_once("::").map_or(&*result.name, |(suite, _test)| suite);
            *suites.entry(suite).or_default() += result.busy.unwrap_or_default();
        }
        let mut suites: Vec<_> = suites.into_iter().filter(|(_, busy)| !busy.is_zero()).collect();
        suites.sort_by_key(|(_, busy)| std::cmp::Reverse(*busy));
        (suites.iter().map(|(_, busy)| *busy).sum(), suites)
    }

    /// Each test that failed, with the reason.
    pub(crate) fn failures(&self) -> String {
        self.failed().map(|result| format!("\nFAILED {}\n{}\n", result.name, result.reason)).collect()
    }

    /// The text that a run prints at its end.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |words: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{words}");
        };
        let mut slow: Vec<&TestResult> = self.results.iter().collect();
        slow.sort_by_key(|result| std::cmp::Reverse(result.took));
        line(format_args!("\nthe slowest tests, and the processor time of each:"));
        for result in slow.iter().take(SLOWEST) {
            let busy = result.busy.map_or_else(String::new, |busy| format!("{:.1} s", busy.as_secs_f64()));
            line(format_args!("  {:7.1} s {busy:>9}  {}", result.took.as_secs_f64(), result.name));
        }
        let (all, suites) = self.busy();
        line(format_args!("\nprocessor time: {:.0} s in total, most of it in", all.as_secs_f64()));
        for (suite, busy) in suites.iter().take(SLOWEST) {
            line(format_args!("  {:7.1} s  {suite}", busy.as_secs_f64()));
        }
        let not_tried: Vec<&TestResult> =
            self.results.iter().filter(|one| !one.not_tried.is_empty()).collect();
        if !not_tried.is_empty() {
            line(format_args!("\nnot tried, because this machine lacks something:"));
            for result in not_tried {
                let mut reasons: Vec<&str> = result.not_tried.iter().map(String::as_str).collect();
                reasons.sort_unstable();
                reasons.dedup();
                line(format_args!("  {}: {}", result.name, reasons.join("; ")));
            }
        }
        if !self.left_out.is_empty() {
            line(format_args!("\nleft out (./x test all runs them):"));
            for one in self.left_out {
                if one.tests.is_empty() {
                    line(format_args!("  {}", one.why));
                    continue;
                }
                line(format_args!("  {} ({} tests): {}", common(&one.tests), one.tests.len(), one.why));
            }
        }
        if let Some(why) = self.no_base {
            line(format_args!("\nsuites of the long run ran, too: {why}"));
        }
        if !self.repeated.is_empty() {
            line(format_args!("\nnot decided at first, passed alone:"));
            for name in self.repeated {
                line(format_args!("  {name}"));
            }
        }
        let failed: Vec<&TestResult> = self.failed().collect();
        if !failed.is_empty() {
            line(format_args!("{}", self.failures().trim_end()));
            line(format_args!("\nfailed; each line runs one test again:"));
            let how = if self.on_disk { "PALISADE_TEST_SCRATCH=disk " } else { "" };
            for result in &failed {
                let word =
                    if result.verdict == Verdict::NotDecided { "   # out of time, alone too" } else { "" };
                line(format_args!("  {how}./x test {}{word}", quoted(&result.name)));
            }
        }
        let ignored = self.results.iter().filter(|one| one.verdict == Verdict::Ignored).count();
        let left_out: usize = self.left_out.iter().map(|one| one.tests.len()).sum();
        let passed = self.results.len() - failed.len() - ignored;
        line(format_args!("\ntests took {} s", self.took.as_secs()));
        if let Some(Worked { all, idle, idle_alone }) = self.worked {
            line(format_args!(
                "processors had {} s and were idle for {} s, of which {} s while tests ran that must run alone",
                all.as_secs(),
                idle.as_secs(),
                idle_alone.as_secs()
            ));
        }
        line(format_args!("{passed} passed, {} failed, {} skipped", failed.len(), ignored + left_out));
        text
    }
}

/// The name, quoted for a shell.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:_-.".contains(&byte);
    if name.bytes().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// The common prefix of names, up to a boundary.
fn common(names: &[String]) -> &str {
    let Some(first) = names.first() else { return "" };
    if names.len() == 1 {
        return first;
    }
    let length = names.iter().fold(first.len(), |length, name| {
        first.bytes().zip(name.bytes()).take(length).take_while(|(one, other)| one == other).count()
    });
    let end = first[..length].rfind(['/', ':']).map_or(0, |at| at + 1);
    &first[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, verdict: Verdict, seconds: u64) -> TestResult {
        TestResult::new(name, verdict, Duration::from_secs(seconds))
    }

    #[test]
    fn the_end_tells_what_keeps_processors_busy() {
        let of = |name, seconds| TestResult {
            busy: Some(Duration::from_secs(seconds)),
            ..result(name, Verdict::Passed, 1)
        };
        let results =
            [of("a/i/m::x", 3), of("a/i/n::x", 4), of("a/i/m::y", 2), result("a/unit/z", Verdict::Passed, 9)];
        let report = Report {
            results: &results,
            repeated: &[],
            left_out: &[],
            no_base: None,
            on_disk: false,
            took: Duration::from_secs(9),
            worked: None,
        };
        let text = report.text();
        let told = "processor time: 9 s in total, most of it in\n      5.0 s  a/i/m\n      4.0 s  a/i/n\n\n";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn the_end_counts_names_the_slowest_and_says_how_to_repeat() {
        let results = [
            result("a/unit/x", Verdict::Passed, 1),
            TestResult { reason: "because".into(), ..result("a/unit/y", Verdict::Failed, 5) },
            result("a/unit/z", Verdict::NotDecided, 2),
            result("a/unit/w", Verdict::Ignored, 0),
        ];
        let left_out = [LeftOut { tests: vec!["b/i/m::p".into(), "b/i/m::q".into()], why: "slow".into() }];
        let report = Report {
            results: &results,
            repeated: &[],
            left_out: &left_out,
            no_base: None,
            on_disk: false,
            took: Duration::from_secs(9),
            worked: None,
        };
        let text = report.text();
        assert!(text.ends_with("\n1 passed, 2 failed, 3 skipped\n"), "{text}");
        assert!(text.contains("\nFAILED a/unit/y\nbecause\n"), "{text}");
        assert!(text.contains("  ./x test a/unit/y\n"), "{text}");
        assert!(text.contains("  b/i/m:: (2 tests): slow\n"), "{text}");
        let slowest = text.lines().nth(2).unwrap();
        assert!(slowest.contains("5.0 s            a/unit/y"), "{slowest}");
        let text = Report { on_disk: true, ..report }.text();
        assert!(text.contains("  PALISADE_TEST_SCRATCH=disk ./x test a/unit/y\n"), "{text}");
    }
}
