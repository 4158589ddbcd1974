// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the results of the trials: lines during the run, and a table for the documentation.

use super::catalogue::Application;
use super::trial::Trial;
use std::path::Path;

/// A line about one of them.
pub(crate) fn line(application: &Application, trial: &Trial) -> String {
    let cells = Cells::of(application, trial);
    format!(
        "{:<20} {:<7} {:<44} {:<12} {:>6} files {:>7}  plan {:>7} {:>5} ms  window {:>6} ms\n",
        application.name,
        cells.result,
        cells.job,
        cells.refused,
        cells.files,
        cells.size,
        cells.cold,
        cells.hot,
        cells.window
    )
}

/// Renews the table in a file.
pub(crate) fn renew(file: &Path, trials: &[(Application, Trial)]) {
    let old = std::fs::read_to_string(file).unwrap_or_default();
    let text = replace(&old, &table(trials));
    std::fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// `text` with `table` for the one that is in it, or after it.
fn replace(text: &str, table: &str) -> String {
    let lines = || text.split_inclusive('\n');
    let before: String = lines().take_while(|line| !line.starts_with('|')).collect();
    let after = lines().skip_while(|line| !line.starts_with('|')).skip_while(|line| line.starts_with('|'));
    before + table + &after.collect::<String>()
}

#[test]
fn a_table_is_replaced_in_its_text() {
    assert_eq!(replace("a\n\n| 1 |\n| 2 |\n\nb\n", "| 3 |\n"), "a\n\n| 3 |\n\nb\n");
    assert_eq!(replace("", "| 3 |\n"), "| 3 |\n");
}

fn table(trials: &[(Application, Trial)]) -> String {
    let mut text = String::from(
        "| application | job | result | ways out refused | files shown | size | plan, first time (ms) | plan, kept (ms) | \
         first window (ms) |\n|---|---|---|---|---:|---:|---:|---:|---:|\n",
    );
    for (application, trial) in trials {
        let Cells { job, result, refused, files, size, cold, hot, window } = Cells::of(application, trial);
        let name = application.name;
        text.push_str(&format!(
            "| {name} | {job} | {result} | {refused} | {files} | {size} | {cold} | {hot} | {window} |\n"
        ));
    }
    text
}

/// What both say of one.
struct Cells {
    job: String,
    result: &'static str,
    refused: String,
    files: String,
    size: String,
    cold: String,
    hot: String,
    window: String,
}

impl Cells {
    fn of(application: &Application, trial: &Trial) -> Self {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
        };
        Self {
            job: application.job(),
            result: match (&trial.failure, trial.stubborn) {
                (Some(_), _) => "FAILED",
                (None, true) => "works; ends only when it is killed",
                (None, false) => "works",
            },
            refused: match &trial.refused {
                Some(Ok(ways)) => format!("{ways} of {ways}"),
                Some(Err(_)) => "NOT REFUSED".to_owned(),
                None => "–".to_owned(),
            },
            files: trial.shown.map_or_else(|| "–".to_owned(), |shown| shown.files.to_string()),
            size: trial
                .shown
                .map_or_else(|| "–".to_owned(), |shown| format!("{} MB", shown.bytes / 1_000_000)),
            cold: number(trial.cold, 0),
            hot: number(trial.hot, 1),
            window: number(trial.window, 0),
        }
    }
}
