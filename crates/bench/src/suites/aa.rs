// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `aa`: is this machine quiet enough to measure on?

use crate::bench::{Bench, BenchError};
use crate::suite::Suite;
use crate::summary::Report;
use crate::workload;

/// The baseline against itself, nothing else.
#[derive(Debug)]
pub(crate) struct Control;

impl Suite for Control {
    fn name(&self) -> &'static str {
        "aa"
    }

    fn about(&self) -> &'static str {
        "The same command against itself: is this machine quiet enough? (exit code 1 if not)"
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let nothing =
            workload::nothing().map_err(|error| BenchError::NoWorkload { reasons: error.to_string() })?;
        let proven = bench.prove(super::baselines())?;
        let table = bench.measure(&nothing, &proven.iter().collect::<Vec<_>>())?;
        Ok(Report { suite: self.name(), tables: vec![table], missing: Vec::new(), notes: &[] })
    }
}
