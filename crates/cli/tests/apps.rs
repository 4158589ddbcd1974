// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real applications, opened by the profiles that are shipped: they do their job, and reach nothing else of the host.
//!
//! Which is said by `PALISADE_APPS`: `ci` (if it isn't set), `all`, or names; `apps.list` says which those are. They
//! must be there: `./x test` and `./x test apps` install them. `PALISADE_APPS_REPORT=FILE` has the table in that file
//! renewed (`docs/applications.md`), `PALISADE_APPS_TESTED=write` the list of what was opened, and
//! `PALISADE_APPS_PICTURES=DIRECTORY` takes pictures of the screens.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod catalogue;
mod display;
mod picture;
mod report;
mod sample;
mod session;
mod shown;
mod trial;

use crate::support;
use catalogue::Wanted;
use std::io::Write;
use trial::Trial;

#[test]
fn shipped_profiles_open_their_applications() {
    if !support::has("apps") {
        return;
    }
    let wanted = Wanted::of_environment();
    // Held to the end, so that one user is made for all.
    let place = support::ordinary();
    let applications = catalogue::applications(&wanted, &place);
    let mut trials = Vec::new();
    for application in applications {
        let trial = trial::of(&application);
        tell(&report::line(&application, &trial));
        trials.push((application, trial));
    }
    if let Some(file) = std::env::var_os("PALISADE_APPS_REPORT") {
        report::renew(std::path::Path::new(&file), &trials);
    }
    let results: Vec<_> =
        trials.iter().map(|(application, trial)| (application.name, trial.worked())).collect();
    let mut failures: Vec<String> = trials
        .iter()
        .filter(|(_, trial)| !trial.worked())
        .map(|(application, trial)| format!("{}: {}", application.name, why(trial)))
        .collect();
    failures.extend(catalogue::check_tested(&wanted, &results).err());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Prints at once, whether the test fails or not: the harness keeps only what is printed by macros.
fn tell(line: &str) {
    let _nobody_reads = std::io::stdout().write_all(line.as_bytes());
}

/// Why an application didn't pass.
fn why(trial: &Trial) -> String {
    match (&trial.failure, &trial.refused) {
        (Some(failure), _) => failure.clone(),
        (None, Some(Err(open))) => open.clone(),
        (None, _) => "the ways out weren't tried".to_owned(),
    }
}
