// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `files`: what programs that create files pay for each way of protecting names.

use crate::bench::{Bench, BenchError};
use crate::entry::{Entry, Missing};
use crate::files;
use crate::peers::{self, PEERS};
use crate::suite::Suite;
use crate::summary::Report;

/// Programs that create and open many files.
#[derive(Debug)]
pub(crate) struct Files;

impl Suite for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn about(&self) -> &'static str {
        "Wall time of programs that make or open many files, by what keeps protected names"
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let mut missing: Vec<Missing> = Vec::new();
        let mut others: Vec<Entry> = Vec::new();
        let bubblewrap = PEERS.iter().filter(|peer| peer.name == "bubblewrap").map(peers::Peer::look);
        for row in peers::palisade_protecting(bench.options.binary.as_deref()).into_iter().chain(bubblewrap) {
            match row {
                Ok(entry) => others.push(entry),
                Err(absent) => missing.push(absent),
            }
        }
        let wanted = |workload: &str| {
            let mut names = super::baselines().into_iter().map(|entry| entry.name);
            names.any(|name| bench.filter.accepts(workload, &name))
                || others.iter().any(|entry| bench.filter.accepts(workload, &entry.name))
        };
        let (workloads, unprepared) = files::workloads(&bench.session.work(), wanted)?;
        missing.extend(unprepared);
        let plain = bench.prove(super::baselines())?;
        let proven = bench.prove(others)?;
        for workload in &workloads {
            let rows: Vec<_> = plain
                .iter()
                .chain(proven.iter().filter(|row| bench.filter.accepts(workload.name, &row.entry.name)))
                .collect();
            let table = bench.measure(workload, &rows)?;
            bench.keep(table)?;
        }
        bench.report(missing, &[])
    }
}
