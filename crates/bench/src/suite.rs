// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Defines a suite, and the registry of suites.

use std::time::Duration;

use crate::bench::{Bench, BenchError};
use crate::suites;
use crate::summary::Report;

/// Options that only some suites have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Nothing,
    Profiles,
    Agents,
    Guard,
    Scopes,
    Again,
    Gate,
}

/// A group of measurements with a name on the command line.
///
/// A suite gets a prepared [`Bench`] (working directory, launcher, generator, options) and returns its tables. Printing,
/// files, plots and comparisons are not its task.
pub(crate) trait Suite: Sync {
    /// The verb on the command line.
    fn name(&self) -> &'static str;

    /// One line for the help.
    fn about(&self) -> &'static str;

    /// The suite's options in addition to those of all suites.
    fn more(&self) -> More {
        More::Nothing
    }

    /// Measures.
    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError>;
}

/// All suites, in the order of the help.
pub(crate) const SUITES: &[&dyn Suite] = &[
    &suites::launch::Launch,
    &suites::files::Files,
    &suites::profiles::Profiles,
    &suites::agents::Agents,
    &suites::bwrap::Bwrap,
    &suites::guard::Guard,
    &suites::scopes::Scopes,
    &suites::syscalls::Syscalls,
    &suites::shell::Shell,
    &suites::aa::Control,
    &suites::gate::Gate,
];

/// The number of rounds for a workload that runs only every `divisor` rounds. At least ten, unless fewer were requested: an
/// interval from fewer values shows nothing.
pub(crate) fn rounds(asked: usize, divisor: usize) -> usize {
    (asked / divisor).max(asked.min(10))
}

/// The pause after a launch.
pub(crate) fn gap(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_workloads_take_fewer_rounds() {
        assert_eq!((rounds(200, 1), rounds(200, 5), rounds(30, 5), rounds(3, 5)), (200, 40, 10, 3));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = SUITES.iter().map(|suite| suite.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SUITES.len());
    }
}
