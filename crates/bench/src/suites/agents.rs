// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `agents`: Greywall's workloads in Palisade and in other sandboxes for agents, the parts of a launch, and the filtered network.

use crate::agents::parts::Parts;
use crate::agents::rows::{self, FILTERED};
use crate::agents::server::Servers;
use crate::agents::tasks::{self, Task};
use crate::agents::traffic::Traffic;
use crate::agents::{AgentsError, client};
use crate::bench::{Bench, BenchError, Proven};
use crate::entry::{Entry, Missing};
use crate::goal::{Bound, Goal, Unit};
use crate::programs;
use crate::suite::{More, Suite};
use crate::summary::{Report, Table};

/// The target for `true` with the network proxy on: the added time, in seconds.
const COLD: f64 = 0.0028;
/// Greywall's published times of one command on Linux: cold, in seconds.
const PUBLISHED: [(&str, f64); 3] =
    [("true", 0.215), ("python3 -c pass", 0.124), ("git status --porcelain", 0.114)];

/// The measurements other than the workloads, by their names in `--filter`.
const PLAN: &str = "plan";
const CALLS: &str = "calls";
const INITIALISE: &str = "initialise";
const CONNECT: &str = "connect";
const TRANSFER: &str = "transfer";
const HELD: &str = "held";
/// The number of open files that Palisade's server reserves, in addition to two per connection.
const OTHERS: u64 = 256;

/// Commands of agents.
#[derive(Debug)]
pub(crate) struct Agents;

impl Suite for Agents {
    fn name(&self) -> &'static str {
        "agents"
    }

    fn about(&self) -> &'static str {
        "Commands of agents: Greywall's workloads, the parts of a launch, the filtered network"
    }

    fn more(&self) -> More {
        More::Agents
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let servers = Servers::start(bench.random.next()).map_err(|source| AgentsError::Serve { source })?;
        client::more_descriptors();
        let mut missing = workloads(bench, &servers)?;
        if let Some(palisade) = programs::palisade(bench.options.binary.as_deref()) {
            let nothing = crate::workload::installed("true")
                .map_err(|error| BenchError::NoWorkload { reasons: error.to_string() })?;
            let parts = Parts { palisade: &palisade, work: bench.session.work() };
            if wanted(bench, PLAN) {
                let table = parts.plan(bench, &nothing)?;
                bench.keep(table)?;
            }
            if wanted(bench, CALLS) {
                let table = parts.calls(bench, &nothing)?;
                bench.keep(table)?;
            }
            let traffic = Traffic::prepare(&palisade, &servers, bench.session.work())?;
            type Measure<'t> = fn(&Traffic<'t>, &mut Bench) -> Result<Table, BenchError>;
            let measures: [(&str, Measure<'_>); 4] = [
                (INITIALISE, Traffic::initialise),
                (CONNECT, Traffic::connect),
                (TRANSFER, Traffic::bulk),
                (HELD, Traffic::held),
            ];
            for (name, measure) in measures {
                if !wanted(bench, name) {
                    continue;
                }
                let refused = (name == HELD)
                    .then(|| too_many(bench.options.agents.connections, client::descriptors()))
                    .flatten();
                if let Some(how) = refused {
                    missing.push(Missing { name: HELD.to_owned(), how });
                } else {
                    let table = measure(&traffic, bench)?;
                    bench.keep(table)?;
                }
            }
        }
        missing.push(Missing {
            name: "warm launch".to_owned(),
            how: "not built yet: there is no pool of prepared sandboxes".to_owned(),
        });
        bench.report(missing, &rows::NOTES)
    }
}

/// Why this many connections can't be held with this limit of open files. A connection that waits for a free descriptor would
/// look as if it hung.
fn too_many(connections: usize, descriptors: u64) -> Option<String> {
    let needed = (connections as u64).saturating_mul(2).saturating_add(OTHERS);
    (needed > descriptors).then(|| {
        format!(
            "{connections} connections take {needed} open files, and `ulimit -Hn` is {descriptors}: raise it, or ask for fewer by --connections"
        )
    })
}

fn wanted(bench: &Bench, part: &str) -> bool {
    bench.filter.accepts(part, "palisade")
}

/// A table for each workload.
fn workloads(bench: &mut Bench, servers: &Servers) -> Result<Vec<Missing>, BenchError> {
    let binary = bench.options.binary.clone();
    let mut missing = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    for row in rows::all(binary.as_deref()) {
        match row {
            Ok(entry) => entries.push(entry),
            Err(absent) => missing.push(absent),
        }
    }
    entries.extend(bench.options.with.iter().map(|(name, template)| Entry {
        name: name.clone(),
        template: template.clone(),
        claims: Vec::new(),
        version: Vec::new(),
        peer: true,
    }));
    let (mut reaching, incomparable) = rows::reaching(binary.as_deref(), servers.http);
    missing.extend(incomparable);
    let (mut tasks, unprepared) = tasks::all(&bench.session.work(), servers);
    missing.extend(unprepared);
    let accepts = |bench: &Bench, task: &Task, name: &str| {
        bench.filter.accepts(&format!("{}/{}", task.category, task.workload.name), name)
    };
    tasks.retain(|task| {
        let plain = super::baselines();
        let mut all = plain.iter().chain(if task.network { &reaching } else { &entries });
        all.any(|entry| accepts(bench, task, &entry.name))
    });
    entries.retain(|entry| tasks.iter().any(|task| !task.network && accepts(bench, task, &entry.name)));
    reaching.retain(|entry| tasks.iter().any(|task| task.network && accepts(bench, task, &entry.name)));
    if tasks.is_empty() {
        return Ok(missing);
    }
    let plain = bench.prove(super::baselines())?;
    let (entries, reaching) = (bench.prove(entries)?, bench.prove(reaching)?);
    for task in &tasks {
        let others = if task.network { &reaching } else { &entries };
        let rows: Vec<&Proven> =
            plain.iter().chain(others.iter().filter(|row| accepts(bench, task, &row.entry.name))).collect();
        let mut table = bench.measure(&task.workload, &rows)?;
        table.category = Some(task.category);
        table.goals = goal(&table).into_iter().collect();
        bench.keep(table)?;
    }
    Ok(missing)
}

/// The goal with the proxy on, beside Greywall's published total time.
fn goal(table: &Table) -> Option<Goal> {
    let published =
        PUBLISHED.iter().find(|(name, _)| *name == table.workload).map(|(_, seconds)| *seconds)?;
    let row = table.rows.iter().find(|row| row.series.name == FILTERED)?;
    let figures = row.figures.as_ref();
    let added = table.workload == "true";
    Some(Goal {
        what: format!("{FILTERED}: {}", if added { "added" } else { "in all" }),
        unit: Unit::Seconds,
        bound: Bound::AtMost,
        wanted: added.then_some(COLD),
        seen: figures.and_then(|figures| if added { figures.added } else { Some(figures.wall) }),
        published: Some(published),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::summary::tests::series;

    fn table(workload: &str) -> Table {
        let all = vec![
            series("plain", &[0.001; 9]),
            series("plain again (A/A)", &[0.001; 9]),
            series(FILTERED, &[0.003; 9]),
        ];
        Table::summarise(workload, 9, 1, all, &mut Random::new(1))
    }

    #[test]
    fn more_connections_than_files_are_refused_with_the_limit() {
        assert_eq!(too_many(1000, 4096), None);
        let why = too_many(10_000, 20_000).unwrap();
        assert!(why.contains("20256") && why.contains("is 20000"), "{why}");
    }

    #[test]
    fn only_what_was_published_has_a_goal() {
        let goal = goal(&table("true")).unwrap();
        assert_eq!((goal.reached(), goal.published), (Some(true), Some(0.215)));
        assert!((goal.seen.unwrap().median - 0.002).abs() < 1e-9);
        let whole = super::goal(&table("git status --porcelain")).unwrap();
        assert!((whole.seen.unwrap().median - 0.003).abs() < 1e-9 && whole.wanted.is_none());
        assert!(super::goal(&table("echo")).is_none());
    }
}
