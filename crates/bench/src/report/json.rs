// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results in JSON, in the format of hyperfine's `--export-json`, so that hyperfine's scripts can read them. Additional data
//! is below `palisade`, in each result and at the top. Times are in seconds, memory in bytes.

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::goal::Goal;
use crate::statistics::{Estimate, deviation, mean, median};
use crate::summary::{Control, Report, Row, Section, Table};

/// A result file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) results: Vec<Entry>,
    /// Absent in hyperfine's own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) palisade: Option<Session>,
}

/// One row. The summary of a failed row is `null`, not a number.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) command: String,
    pub(crate) mean: Option<f64>,
    pub(crate) stddev: Option<f64>,
    pub(crate) median: Option<f64>,
    pub(crate) user: Option<f64>,
    pub(crate) system: Option<f64>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    /// Only verified rounds.
    #[serde(default)]
    pub(crate) times: Vec<f64>,
    #[serde(default)]
    pub(crate) memory_usage_byte: Vec<u64>,
    #[serde(default)]
    pub(crate) exit_codes: Vec<Option<i32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) palisade: Option<Details>,
}

/// The data that hyperfine's format has no place for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Details {
    pub(crate) suite: String,
    pub(crate) workload: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<String>,
    pub(crate) name: String,
    pub(crate) valid: bool,
    pub(crate) failures: Vec<String>,
    /// The round of each entry of `times`. Pairs have the same round.
    pub(crate) rounds: Vec<usize>,
    pub(crate) burst: usize,
    pub(crate) wall: Option<Estimate>,
    pub(crate) ratio: Option<Estimate>,
    pub(crate) added: Option<Estimate>,
    pub(crate) p10: Option<f64>,
    pub(crate) p90: Option<f64>,
    #[serde(default)]
    pub(crate) p95: Option<f64>,
    #[serde(default)]
    pub(crate) p99: Option<f64>,
    pub(crate) isolation: Vec<String>,
}

/// The circumstances of the measurement.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) schema: u32,
    pub(crate) seed: u64,
    pub(crate) gap_milliseconds: f64,
    /// A signal came, or the process was killed: the file holds what was measured until then.
    #[serde(default)]
    pub(crate) interrupted: bool,
    pub(crate) environment: Environment,
    pub(crate) controls: Vec<NamedControl>,
    pub(crate) not_measured: Vec<NotMeasured>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) goals: Vec<NamedGoal>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sections: Vec<Section>,
}

/// A goal and its table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NamedGoal {
    pub(crate) workload: String,
    #[serde(flatten)]
    pub(crate) goal: Goal,
}

/// The A/A control of one table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NamedControl {
    pub(crate) workload: String,
    pub(crate) control: Option<Control>,
}

/// A launcher that isn't installed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NotMeasured {
    pub(crate) name: String,
    pub(crate) how: String,
}

/// The report as a document.
pub(crate) fn document(
    report: &Report,
    environment: &Environment,
    seed: u64,
    gap_milliseconds: f64,
) -> Document {
    let results = report
        .tables
        .iter()
        .flat_map(|table| table.rows.iter().map(|row| entry(report.suite, table, row)))
        .collect();
    let controls = report
        .tables
        .iter()
        .filter(|table| !table.is_words())
        .map(|table| NamedControl { workload: table.workload.clone(), control: table.control.clone() })
        .collect();
    let not_measured = report
        .missing
        .iter()
        .map(|missing| NotMeasured { name: missing.name.clone(), how: missing.how.clone() })
        .collect();
    let goals = report
        .tables
        .iter()
        .flat_map(|table| {
            table.goals.iter().map(|goal| NamedGoal { workload: table.workload.clone(), goal: goal.clone() })
        })
        .collect();
    let sections = report.tables.iter().flat_map(|table| table.sections.iter().cloned()).collect();
    let session = Session {
        schema: 1,
        seed,
        gap_milliseconds,
        interrupted: report.interrupted,
        environment: environment.clone(),
        controls,
        not_measured,
        goals,
        sections,
    };
    Document { results, palisade: Some(session) }
}

fn entry(suite: &str, table: &Table, row: &Row) -> Entry {
    let samples = &row.series.samples;
    let times = row.series.walls();
    let valid = row.figures.is_some();
    let of_valid = |value: Option<f64>| value.filter(|_| valid);
    let figures = row.figures.as_ref();
    Entry {
        command: row.series.command.clone(),
        mean: of_valid(mean(&times)),
        stddev: of_valid(deviation(&times)),
        median: of_valid(median(&times)),
        // hyperfine has means in these fields.
        user: of_valid(mean(&samples.iter().map(|sample| sample.user).collect::<Vec<_>>())),
        system: of_valid(mean(&samples.iter().map(|sample| sample.system).collect::<Vec<_>>())),
        min: of_valid(times.iter().copied().reduce(f64::min)),
        max: of_valid(times.iter().copied().reduce(f64::max)),
        memory_usage_byte: samples.iter().map(|sample| sample.max_rss).collect(),
        exit_codes: samples.iter().map(|sample| Some(sample.exit_code)).collect(),
        times,
        palisade: Some(Details {
            suite: suite.to_owned(),
            workload: table.workload.clone(),
            category: table.category.map(str::to_owned),
            name: row.series.name.clone(),
            valid,
            failures: row.series.failed.iter().map(ToString::to_string).collect(),
            rounds: samples.iter().map(|sample| sample.round).collect(),
            burst: table.burst,
            wall: figures.map(|figures| figures.wall),
            ratio: figures.and_then(|figures| figures.ratio),
            added: figures.and_then(|figures| figures.added),
            p10: figures.map(|figures| figures.p10),
            p90: figures.map(|figures| figures.p90),
            p95: figures.map(|figures| figures.p95),
            p99: figures.map(|figures| figures.p99),
            isolation: row.series.isolation.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::table;

    fn value() -> serde_json::Value {
        let report = Report::of("launch", vec![table()]);
        serde_json::to_value(document(&report, &Environment::default(), 1, 2.0)).unwrap()
    }

    #[test]
    fn has_hyperfines_shape() {
        let value = value();
        let result = &value["results"][0];
        for key in ["mean", "stddev", "median", "user", "system", "min", "max"] {
            assert!(result[key].is_f64(), "{key}: {result}");
        }
        assert_eq!(result["command"], "plain -- true");
        for key in ["times", "exit_codes", "memory_usage_byte"] {
            assert_eq!(result[key].as_array().unwrap().len(), 50, "{key}");
        }
    }

    #[test]
    fn a_failed_row_has_no_numbers() {
        let value = value();
        let flaky = &value["results"][3];
        assert!(flaky["mean"].is_null() && flaky["min"].is_null() && flaky["palisade"]["wall"].is_null());
        assert_eq!(flaky["palisade"]["valid"], false);
        assert_eq!(flaky["palisade"]["failures"][0], "exit code 3: no");
    }

    #[test]
    fn reads_hyperfines_own_files() {
        let text = r#"{"results":[{"command":"true","mean":1e-3,"stddev":null,"median":1e-3,"user":0.0,"system":0.0,"min":1e-3,
            "max":1e-3,"times":[0.001],"memory_usage_byte":[1024],"exit_codes":[null],"parameters":{"x":"y"}}]}"#;
        let document: Document = serde_json::from_str(text).unwrap();
        assert!(document.palisade.is_none());
        assert_eq!(document.results[0].times, [0.001]);
    }
}
