// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `launch`: what it costs to start a command in a sandbox, for every installed launcher.

use crate::bench::{Bench, BenchError, Proven};
use crate::entry::{Entry, Missing};
use crate::peers::{self, PEERS};
use crate::suite::Suite;
use crate::summary::Report;
use crate::workload::{self, Workload};

/// Cold launches of four workloads.
#[derive(Debug)]
pub(crate) struct Launch;

impl Suite for Launch {
    fn name(&self) -> &'static str {
        "launch"
    }

    fn about(&self) -> &'static str {
        "Wall time of a command in Palisade and in every other launcher that is on PATH"
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let (workloads, mut missing) = workloads(bench)?;
        let baselines = super::baselines();
        let mut others: Vec<Entry> = Vec::new();
        let known = peers::palisade(bench.options.binary.as_deref())
            .into_iter()
            .chain(PEERS.iter().map(peers::Peer::look));
        for row in known {
            match row {
                Ok(entry) => others.push(entry),
                Err(absent) => missing.push(absent),
            }
        }
        others.extend(bench.options.with.iter().map(|(name, template)| Entry {
            name: name.clone(),
            template: template.clone(),
            // For a launcher of the user's own it isn't known what it should isolate. What it is observed to isolate is
            // printed.
            claims: Vec::new(),
            version: Vec::new(),
            peer: true,
        }));
        let wanted = |bench: &Bench, name: &str| {
            workloads.iter().any(|workload| bench.filter.accepts(workload.name, name))
        };
        others.retain(|entry| wanted(bench, &entry.name));
        let unfiltered = bench.options.filter.is_none();
        missing.retain(|absent| unfiltered || wanted(bench, &absent.name));
        let plain = bench.prove(baselines)?;
        let proven = bench.prove(others)?;
        for workload in &workloads {
            let rows = rows(bench, workload, &plain, &proven);
            if !rows.is_empty() {
                let table = bench.measure(workload, &rows)?;
                bench.keep(table)?;
            }
        }
        bench.report(missing, &[])
    }
}

/// The baselines are in every table that has rows: without them, no comparison is possible.
fn rows<'a>(
    bench: &Bench,
    workload: &Workload,
    plain: &'a [Proven],
    others: &'a [Proven],
) -> Vec<&'a Proven> {
    let accepted = |proven: &&Proven| bench.filter.accepts(workload.name, &proven.entry.name);
    let chosen: Vec<&Proven> = others.iter().filter(accepted).collect();
    if chosen.is_empty() && !plain.iter().any(|proven| accepted(&proven)) {
        return Vec::new();
    }
    plain.iter().chain(chosen).collect()
}

fn workloads(bench: &Bench) -> Result<(Vec<Workload>, Vec<Missing>), BenchError> {
    let work = bench.session.work();
    let all = [
        ("true", workload::nothing()),
        ("python3 -c pass", workload::python()),
        ("git status", workload::git_status(&work)),
        ("100 × true", workload::hundred()),
    ];
    let mut workloads = Vec::new();
    let mut missing = Vec::new();
    for (name, prepared) in all {
        match prepared {
            Ok(workload) => workloads.push(workload),
            Err(error) => {
                missing.push(Missing { name: format!("workload {name}"), how: with_causes(&error) })
            }
        }
    }
    if workloads.is_empty() {
        let reasons = missing.iter().map(|missing| missing.how.as_str()).collect::<Vec<_>>().join("; ");
        return Err(BenchError::NoWorkload { reasons });
    }
    Ok((workloads, missing))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
