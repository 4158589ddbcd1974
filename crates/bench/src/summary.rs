// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns series into rows: the figures of each contender, and whether the table can be trusted.

use serde::{Deserialize, Serialize};

use crate::goal::Goal;
use crate::interleave::Series;
use crate::random::Random;
use crate::statistics::{Estimate, differs, estimate, median, quantile};

/// If the A/A interval is wider than this, differences of a few per cent can't be detected.
const WIDEST_QUIET: f64 = 0.05;

/// The result of one suite.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) suite: &'static str,
    pub(crate) tables: Vec<Table>,
    pub(crate) missing: Vec<crate::entry::Missing>,
    /// Notes for the reader, to know before comparing.
    pub(crate) notes: &'static [&'static str],
    /// The report is incomplete: a signal arrived, or the run still goes on.
    pub(crate) interrupted: bool,
    /// The answer of a suite that asks a yes-or-no question.
    pub(crate) answer: Option<bool>,
}

impl Report {
    pub(crate) fn of(suite: &'static str, tables: Vec<Table>) -> Self {
        Self { suite, tables, missing: Vec::new(), notes: &[], interrupted: false, answer: None }
    }

    /// The failed rows of this project or of the bench, each with its table and the reason. With any of them the run has
    /// failed.
    pub(crate) fn own_failures(&self) -> Vec<String> {
        let rows = self.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        rows.filter(|(_, row)| !row.series.peer && row.figures.is_none())
            .map(|(table, row)| {
                let why = row
                    .series
                    .failed
                    .first()
                    .map_or("no round was completed".to_owned(), ToString::to_string);
                format!("{}/{}: {why}", table.workload, row.series.name)
            })
            .collect()
    }

    /// Whether a peer was compared with in each table that has peers, and in at least one table.
    pub(crate) fn has_compared(&self) -> bool {
        let mut compared = self
            .tables
            .iter()
            .filter(|table| table.rows.iter().any(|row| row.series.peer))
            .map(|table| table.rows.iter().any(|row| row.series.peer && row.figures.is_some()))
            .peekable();
        compared.peek().is_some() && compared.all(|one| one)
    }
}

/// One workload with all contenders.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) workload: String,
    /// The category of the workload, in suites that have categories.
    pub(crate) category: Option<&'static str>,
    pub(crate) rounds: usize,
    pub(crate) burst: usize,
    pub(crate) rows: Vec<Row>,
    /// The baseline compared with itself. `None` if a baseline failed.
    pub(crate) control: Option<Control>,
    /// The targets.
    pub(crate) goals: Vec<Goal>,
    /// Further tables of words.
    pub(crate) sections: Vec<Section>,
    /// The unit in which its times are shown.
    pub(crate) scale: Scale,
    /// The memory figures come from `wait4`: none of them is below this process's own peak.
    pub(crate) waited: bool,
}

/// A table of words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The unit in which times are shown. They are stored in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    #[default]
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Scale {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
            Self::Nanoseconds => "ns",
        }
    }

    /// The time in milliseconds for a value that is shown in this scale.
    pub(crate) fn of(self, seconds: f64) -> f64 {
        match self {
            Self::Milliseconds => seconds,
            Self::Microseconds => seconds * 1e3,
            Self::Nanoseconds => seconds * 1e6,
        }
    }
}

/// One contender.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) series: Series,
    /// Only if every run was verified.
    pub(crate) figures: Option<Figures>,
}

/// The figures of a row; times are in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) wall: Estimate,
    /// Median of the ratios to the baseline of the same round.
    pub(crate) ratio: Option<Estimate>,
    /// Median of the differences to the baseline of the same round.
    pub(crate) added: Option<Estimate>,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// Bytes.
    pub(crate) max_rss: u64,
}

/// The A/A control.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Control {
    /// The ratio of the second baseline to the first.
    pub(crate) ratio: Estimate,
    /// The ratio differs significantly although both are the same command: a false difference.
    #[serde(default)]
    pub(crate) differs: bool,
    /// Why the table should not be trusted.
    pub(crate) noisy: Option<String>,
}

impl Control {
    /// Judges by the median of the rounds' ratios, and by all of them.
    pub(crate) fn judge(ratio: Estimate, ratios: &[f64]) -> Self {
        let differs = differs(ratios, 1.0);
        let noisy = if differs {
            Some("the same command differs from itself".to_owned())
        } else if ratio.single {
            Some("one round says nothing about noise".to_owned())
        } else if ratio.width() > WIDEST_QUIET {
            Some(format!("the same command is only known to within {:.0}%", ratio.width() * 100.0))
        } else {
            None
        };
        Self { ratio, differs, noisy }
    }
}

impl Table {
    /// Whether it has only words and no rows.
    pub(crate) fn is_words(&self) -> bool {
        self.rows.is_empty() && !self.sections.is_empty()
    }

    /// The first series is the baseline, the second is the baseline again.
    pub(crate) fn summarise(
        workload: &str,
        rounds: usize,
        burst: usize,
        series: Vec<Series>,
        random: &mut Random,
    ) -> Self {
        let figures: Vec<Option<Figures>> = series
            .iter()
            .enumerate()
            .map(|(index, own)| {
                let baseline = series.first().filter(|baseline| index > 0 && baseline.valid());
                own.valid().then(|| Figures::of(own, baseline, random)).flatten()
            })
            .collect();
        let ratios = || match series.as_slice() {
            [first, second, ..] => second.paired(first, |own, other| own / other),
            _ => Vec::new(),
        };
        let control = figures
            .get(1)
            .and_then(Option::as_ref)
            .filter(|_| series.get(1).is_some_and(Series::is_again))
            .and_then(|second| second.ratio)
            .map(|ratio| Control::judge(ratio, &ratios()));
        let rows = series.into_iter().zip(figures).map(|(series, figures)| Row { series, figures }).collect();
        Self {
            workload: workload.to_owned(),
            category: None,
            rounds,
            burst,
            rows,
            control,
            goals: Vec::new(),
            sections: Vec::new(),
            scale: Scale::default(),
            waited: true,
        }
    }
}

impl Figures {
    fn of(series: &Series, baseline: Option<&Series>, random: &mut Random) -> Option<Self> {
        let walls = series.walls();
        let mut against = |f: fn(f64, f64) -> f64| {
            baseline.and_then(|baseline| estimate(&series.paired(baseline, f), random))
        };
        let ratio = against(|own, other| own / other);
        let added = against(|own, other| own - other);
        Some(Self {
            wall: estimate(&walls, random)?,
            ratio,
            added,
            p10: quantile(&walls, 0.1)?,
            p90: quantile(&walls, 0.9)?,
            p95: quantile(&walls, 0.95)?,
            p99: quantile(&walls, 0.99)?,
            user: median(&series.samples.iter().map(|sample| sample.user).collect::<Vec<_>>())?,
            system: median(&series.samples.iter().map(|sample| sample.system).collect::<Vec<_>>())?,
            max_rss: series.samples.iter().map(|sample| sample.max_rss).max()?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::interleave::Sample;
    use crate::workload::Failure;

    pub(crate) fn series(name: &str, walls: &[f64]) -> Series {
        let samples = walls
            .iter()
            .enumerate()
            .map(|(round, &wall)| Sample {
                round,
                wall,
                user: wall / 4.0,
                system: wall / 2.0,
                max_rss: 2 << 20,
                exit_code: 0,
            })
            .collect();
        Series {
            name: name.into(),
            command: format!("{name} -- true"),
            isolation: Vec::new(),
            samples,
            failed: Vec::new(),
            failed_at_start: false,
            peer: false,
        }
    }

    /// A table with every kind of row.
    pub(crate) fn table() -> Table {
        let plain: Vec<f64> = (0..50).map(|n| 0.0010 + f64::from(n % 7) * 1e-6).collect();
        let again: Vec<f64> = (0..50).map(|n| 0.0010 + f64::from((n + 3) % 7) * 1e-6).collect();
        let slow: Vec<f64> = plain.iter().map(|wall| wall + 0.0035).collect();
        let mut flaky = series("flaky", &[0.0005; 49]);
        flaky.failed.push(Failure::Exit { code: 3, said: "no".into() });
        flaky.isolation = vec!["seccomp".into()];
        let refused =
            Series::refused("liar", "liar true".into(), Failure::Proof { why: "it was not run".into() });
        let all = vec![
            series("plain", &plain),
            series("plain again", &again),
            series("slow", &slow),
            flaky,
            refused,
        ];
        Table::summarise("true", 50, 1, all, &mut Random::new(1))
    }

    #[test]
    fn rows_are_paired_with_the_baseline() {
        let table = table();
        let slow = table.rows[2].figures.as_ref().unwrap();
        assert!((slow.added.unwrap().median - 0.0035).abs() < 1e-9);
        assert!((slow.ratio.unwrap().median - 4.49).abs() < 0.05);
        assert!(table.rows[0].figures.as_ref().unwrap().ratio.is_none());
    }

    #[test]
    fn a_row_with_a_failure_has_no_figures() {
        let table = table();
        assert!(table.rows[3].figures.is_none() && table.rows[4].figures.is_none());
    }

    #[test]
    fn the_control_tells_quiet_from_noisy() {
        let judge = |median: f64, low, high, ratios: &[f64]| {
            Control::judge(Estimate { median, low, high, single: ratios.len() == 1 }, ratios).noisy
        };
        assert!(table().control.unwrap().noisy.is_none());
        assert_eq!(judge(1.0, 0.99, 1.01, &[0.99, 1.01]), None);
        assert!(judge(1.02, 1.01, 1.03, &[1.02; 8]).unwrap().contains("differs from itself"));
        // Seven rounds are too few for that claim.
        assert_eq!(judge(1.02, 1.01, 1.03, &[1.02; 7]), None);
        assert!(judge(1.0, 0.9, 1.1, &[1.0; 9]).unwrap().contains("20%"));
        assert!(judge(1.0, 1.0, 1.0, &[1.0]).unwrap().contains("one round"));
    }

    #[test]
    fn rows_of_ours_that_fail_are_told_from_peers() {
        let whole = Report::of("x", vec![table()]);
        assert_eq!(whole.own_failures(), ["true/flaky: exit code 3: no", "true/liar: it was not run"]);
        assert!(!whole.has_compared(), "there is no peer");
        let mut peers = table();
        for row in &mut peers.rows[3..] {
            row.series.peer = true;
        }
        let mut report = Report::of("x", vec![peers]);
        assert!(report.own_failures().is_empty() && !report.has_compared());
        report.tables[0].rows[2].series.peer = true;
        assert!(report.has_compared());
    }
}
