// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the rounds of a measurement: in each round, every contender has one turn, in a new random order.

use std::thread::sleep;

use crate::bench::{Bench, BenchError};
use crate::interleave::{Pace, Raced, Sample, Series};
use crate::random::Random;
use crate::summary::Table;
use crate::workload::Failure;

/// After this many failures a contender isn't run any more: its row is invalid anyway, and each failure may cost a full time
/// limit.
const GIVE_UP_AFTER: usize = 5;

/// The result of a contender's turn.
#[derive(Debug)]
pub(crate) enum Turn<S = Sample> {
    /// It was measured, or it failed.
    Ended(Result<S, Failure>),
    /// A signal ended the measurement.
    Stopped,
}

/// Gives all contenders their turns in all rounds. `turn` runs the contender with this index; its round is `None` during the
/// warm-up. `summarise` makes the table of the counted rounds.
pub(crate) fn run(
    bench: &mut Bench,
    pace: &Pace,
    series: Vec<Series>,
    summarise: impl Fn(usize, Vec<Series>, &mut Random) -> Table,
    mut turn: impl FnMut(&mut Bench, usize, Option<usize>) -> Result<Turn, BenchError>,
) -> Result<Raced, BenchError> {
    let single = |series: Vec<Vec<Series>>| series.into_iter().flatten().collect();
    let raced = run_figures(
        bench,
        pace,
        series.into_iter().map(|series| vec![series]).collect(),
        |rounds, series, random| vec![summarise(rounds, single(series), random)],
        |bench, index, round| {
            Ok(match turn(bench, index, round)? {
                Turn::Ended(sample) => Turn::Ended(sample.map(|sample| vec![sample])),
                Turn::Stopped => Turn::Stopped,
            })
        },
    )?;
    Ok(Raced { series: single(raced.series), stopped: raced.stopped })
}

/// As [`run`], for turns that give several figures. `series` has one for each figure of each contender, and `summarise` makes
/// one table for each figure.
pub(crate) fn run_figures(
    bench: &mut Bench,
    pace: &Pace,
    mut series: Vec<Vec<Series>>,
    summarise: impl Fn(usize, Vec<Vec<Series>>, &mut Random) -> Vec<Table>,
    mut turn: impl FnMut(&mut Bench, usize, Option<usize>) -> Result<Turn<Vec<Sample>>, BenchError>,
) -> Result<Raced<Vec<Series>>, BenchError> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    for round in 0..pace.warm_up + pace.rounds {
        bench.random.shuffle(&mut order);
        let counted = round.checked_sub(pace.warm_up);
        bench.between_rounds(|random| summarise(counted.unwrap_or(0), series.clone(), random))?;
        for &index in &order {
            let has_failed = |series: &Series| series.failed_at_start || series.failed.len() >= GIVE_UP_AFTER;
            if series[index].iter().any(has_failed) {
                continue;
            }
            let Turn::Ended(samples) = turn(bench, index, counted)? else {
                return Ok(Raced { series, stopped: true });
            };
            let series = &mut series[index];
            sleep(pace.gap);
            match (counted, samples) {
                (None, Ok(_)) => {}
                (Some(round), Ok(samples)) => {
                    for (series, sample) in series.iter_mut().zip(samples) {
                        series.samples.push(Sample { round, ..sample });
                    }
                }
                (_, Err(failure)) => {
                    for series in series {
                        series.failed.push(failure.clone());
                        series.failed_at_start |= counted.is_none();
                    }
                }
            }
        }
    }
    Ok(Raced { series, stopped: false })
}
