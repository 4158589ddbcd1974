// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `palisade setup` has installed: a copy of the program that only root can write, and profiles of AppArmor.

use super::installation::{Installation, Program, RELEASE, word};
use crate::setup::{Trace, traces};

/// Finds a program that is the copy.
pub(super) fn find(program: &Program<'_>) -> Option<Installation> {
    let trace = traces().into_iter().find(|trace| trace.copy.as_deref() == Some(program.path))?;
    Some(Installation::new(
        "setup",
        format!(
            "by palisade setup, as a copy that only root can write, with the profile {}",
            trace.profile.display()
        ),
        format!("FILE setup --yes   # FILE: the program of the newest archive, {RELEASE}"),
        undo(program),
    ))
}

/// The installation of another program, on a host where `palisade setup` has installed something: the program's own commands
/// neither renew the copy nor remove it or a profile.
pub(super) fn extended(mut installation: Installation, program: &Program<'_>) -> Installation {
    let traces = traces();
    let copy = traces.iter().find_map(|trace| trace.copy.as_ref());
    if let Some(copy) = copy.filter(|copy| *copy != program.path) {
        let path = word(program.path);
        installation.update.push(format!("{path} setup --yes   # renews the copy {}", word(copy)));
    }
    if !traces.is_empty() && copy.is_none_or(|copy| copy != program.path) {
        let what: Vec<String> = traces.iter().map(words).collect();
        installation.remove.insert(0, format!("{}   # removes {}", undo(program), what.join(", ")));
    }
    installation
}

fn undo(program: &Program<'_>) -> String {
    format!("{} setup --undo --yes", word(program.path))
}

fn words(trace: &Trace) -> String {
    let profile = word(&trace.profile);
    trace.copy.as_ref().map_or_else(|| profile.clone(), |copy| format!("{}, {profile}", word(copy)))
}
