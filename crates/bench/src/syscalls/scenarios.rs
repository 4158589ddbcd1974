// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures all tables, with the goals of each.

use super::race::{self, Contender, race};
use super::stage::Stage;
use super::tables::{Against, By, NATIVE, PEERS, SCENARIOS, Scenario, Who};
use crate::bench::{Bench, BenchError};
use crate::entry::Missing;
use crate::goal::{Bound, Goal, Unit};
use crate::programs;
use crate::suite::rounds;
use crate::summary::Table;

/// Measures all tables.
pub(crate) fn all(bench: &mut Bench, missing: &mut Vec<Missing>) -> Result<(), BenchError> {
    let stage = Stage::prepare(bench, missing)?;
    for peer in &PEERS {
        if let By::Peer(program, _) = peer.by
            && programs::on_path(program).is_none()
        {
            let how = format!("`{program}` is not on PATH");
            missing.push(Missing { name: peer.name.to_owned(), how });
        }
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    for scenario in &SCENARIOS {
        let native = [NATIVE, "native again (A/A)"].map(|name| Who { name, seen: None, by: scenario.base });
        let wanted = |who: &&Who| bench.filter.accepts(scenario.title, who.name);
        let peers = PEERS.iter().filter(|_peer| scenario.peers);
        let others: Vec<&Who> = scenario.who.iter().chain(peers).filter(wanted).collect();
        if others.is_empty() && !native.iter().any(|who| wanted(&who)) {
            continue;
        }
        let contenders: Vec<Contender> = native
            .iter()
            .chain(others)
            .filter_map(|who| {
                let count = calls(scenario, bench.options.quick);
                let seen = match (who.seen, scenario.seen, scenario.kind) {
                    (Some(seen), ..) => seen.to_owned(),
                    (None, "", "machine") => release.clone(),
                    (None, "files", _) => format!("{count} files"),
                    (None, seen, _) => seen.to_owned(),
                };
                let (invocation, timed) = stage.invocation(scenario.kind, count, who.by)?;
                let peer = matches!(who.by, By::Peer(..) | By::Libseccomp);
                Some(Contender { name: who.name.to_owned(), invocation, seen, timed, peer })
            })
            .collect();
        if contenders.is_empty() {
            continue;
        }
        let count = rounds(bench.options.rounds(), 2);
        let mut table = race(bench, scenario.title, &contenders, count)?;
        table.goals = goals(&table, scenario, bench);
        let title = format!("{}: the server's own processor time", scenario.title);
        let processor = (scenario.kind == "server").then(|| race::processor(&table, &title, bench)).flatten();
        bench.keep(table)?;
        if let Some(mut table) = processor {
            table.goals = goals(&table, scenario, bench);
            bench.keep(table)?;
        }
    }
    Ok(())
}

/// The number of calls in a round. Each figure is a mean of thousands of calls; a quick run makes a fifth of them.
fn calls(scenario: &Scenario, quick: bool) -> u32 {
    if quick { scenario.count.div_ceil(5) } else { scenario.count }
}

fn goals(table: &Table, scenario: &Scenario, bench: &mut Bench) -> Vec<Goal> {
    let row = |name: &str| table.rows.iter().find(|row| row.series.name == name);
    let mut goals = Vec::new();
    for aim in scenario.goals {
        let Some(own) = row(aim.row) else { continue };
        let (base, how): (_, fn(f64, f64) -> f64) = match aim.against {
            Against::Nothing => (None, |own, _| own),
            Against::Times(base) => (Some(base), |own, base| own / base),
            Against::More(base) => (Some(base), |own, base| own - base),
        };
        let seen = match base {
            None => own.figures.as_ref().map(|figures| figures.wall),
            Some(base) => {
                let Some(base) = row(base) else { continue };
                let valid = own.figures.is_some() && base.figures.is_some();
                let pairs = own.series.paired(&base.series, how);
                valid.then(|| crate::statistics::estimate(&pairs, &mut bench.random)).flatten()
            }
        };
        let (what, unit) = match aim.against {
            Against::Nothing => (format!("{}: a call", aim.row), Unit::Microseconds),
            Against::Times(base) => (format!("{} / {base}", aim.row), Unit::Ratio),
            Against::More(base) => (format!("{} - {base}", aim.row), Unit::Microseconds),
        };
        let (wanted, published) = (aim.most, aim.published);
        goals.push(Goal { what, unit, bound: Bound::AtMost, wanted, seen, published });
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_of_rows_that_there_are() {
        for scenario in &SCENARIOS {
            let there = |name: &str| name == NATIVE || scenario.who.iter().any(|who| who.name == name);
            for aim in scenario.goals {
                let base = match aim.against {
                    Against::Times(base) | Against::More(base) => base,
                    Against::Nothing => NATIVE,
                };
                assert!(there(aim.row) && there(base), "{} / {base}", aim.row);
            }
        }
    }
}
