// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `scopes`: what marked subtrees cost each command of the host, compared with other projects.

use crate::bench::{Bench, BenchError};
use crate::entry::Missing;
use crate::launch::LaunchError;
use crate::scopes::tables::{ATTY, Measured, PRESSURE};
use crate::scopes::{ScopesError, measurer};
use crate::suite::{More, Suite};
use crate::summary::Report;

/// Notes for the reader.
const NOTES: [&str; 6] = [
    "ns of a program: the kernel's run-time statistics, divided by its runs; a command is one fork, one exec and, where there is a program for it, one exit; all cases in turns in each round",
    "`nothing` is an empty program: its figure is the statistics' own cost, which is in the figure of each of the others' programs as well",
    "unmarked: only another process is marked; marked: the load is marked, and its execs are judged; watched: marked, and each exec is reported to a reader",
    "atty, rebuilt: its three modes as its document has them, with an exec seen at the tracepoint as ours is; task storage: the least that can be done with it",
    "the load runs on one core before everything else there; programs see the rest of the host, too, whose runs count",
    "map_pressure: trees of some hundred or thousand processes and tables of 256 places: a larger table and a fork bomb, without the bomb; palisade stores in the task what has no room in the table",
];

/// One round here stands for this many rounds of the options: a round is thousands of commands for each case.
const ROUNDS: usize = 40;

/// Marked subtrees.
#[derive(Debug)]
pub(crate) struct Scopes;

impl Suite for Scopes {
    fn name(&self) -> &'static str {
        "scopes"
    }

    fn about(&self) -> &'static str {
        "What scopes cost each command, by the kernel's statistics, beside atty's depths (root only)"
    }

    fn more(&self) -> More {
        More::Scopes
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let options = bench.options.scopes.clone();
        let Some(path) = measurer::find(options.measurer.as_deref()) else {
            let how = "build it with `cargo build --release -p palisade-bpf --example scopes`, or name one with --measurer PATH";
            let missing =
                ["palisade", ATTY, PRESSURE].map(|name| Missing { name: name.into(), how: how.into() });
            return Ok(Report {
                missing: missing.into(),
                notes: &NOTES,
                ..Report::of(self.name(), Vec::new())
            });
        };
        if !rustix::process::geteuid().is_root() {
            return Err(ScopesError::NotRoot.into());
        }
        let quick = if bench.options.quick { 400 } else { 4000 };
        let commands = options.commands.unwrap_or(quick);
        let rounds = bench.options.rounds().div_ceil(ROUNDS);
        let names = measurer::names(&path)?;
        let chosen: Vec<String> = names.into_iter().filter(|name| wanted(bench, name)).collect();
        // The common baseline is always measured, and is no result by itself.
        if let (Some(pattern), true) = (&bench.options.filter, chosen.iter().all(|name| beside(name))) {
            return Err(BenchError::NothingMatches { pattern: pattern.clone() });
        }
        bench.say(&format!("scopes: {rounds} rounds of {commands} commands, {} cases", chosen.len()));
        let (lines, stopped) = measurer::measure(&path, commands, rounds, &chosen, bench.session.stop())?;
        for table in Measured::of(lines).tables(commands, &mut bench.random) {
            if stopped {
                bench.take_begun(table);
            } else {
                bench.keep(table)?;
            }
        }
        if stopped {
            Err(ScopesError::from(LaunchError::Stopped).into())
        } else {
            bench.report(Vec::new(), &NOTES)
        }
    }
}

/// Whether a case is part of the common baseline.
fn beside(name: &str) -> bool {
    name.starts_with("statistics") || !(name.contains(' ') || name == "pressure")
}

/// A case has the name of its row: `LOAD/WHO, DEPTH`.
fn wanted(bench: &Bench, name: &str) -> bool {
    if beside(name) {
        return true;
    }
    if name == "pressure" {
        return bench.filter.accepts(PRESSURE, PRESSURE);
    }
    let Some((rest, load)) = name.rsplit_once(' ') else { return false };
    let Some((who, depth)) = rest.rsplit_once(' ') else { return false };
    bench.filter.accepts(load, &format!("{who}, {depth}"))
}
