// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of the trials, as lines for who waits and as a table for the documentation.

use crate::catalogue::Application;
use crate::trial::Trial;

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

/// The table of `docs/applications.md`.
pub(crate) fn table(trials: &[(Application, Trial)]) -> String {
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
            size: trial.shown.map_or_else(|| "–".to_owned(), |shown| format!("{} MB", shown.bytes / 1_000_000)),
            cold: number(trial.cold, 0),
            hot: number(trial.hot, 1),
            window: number(trial.window, 0),
        }
    }
}
