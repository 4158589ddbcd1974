// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens real applications with the shipped profiles: they do their job, and reach nothing else of the host.
//!
//! `PALISADE_APPS` selects them: `ci` (if it isn't set), `all`, or names; `apps.list` defines these groups. They
//! must be installed: `./x test` and `./x test apps` do that. `PALISADE_APPS_REPORT=FILE` updates the table in that file
//! (`docs/applications.md`), `PALISADE_APPS_TESTED=write` updates the list of tested applications, and
//! `PALISADE_APPS_PICTURES=DIRECTORY` saves pictures of the screens.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod catalogue;
pub(crate) mod display;
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
    // Kept until the end, so that all trials share one user.
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
