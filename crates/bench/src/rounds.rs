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
pub(crate) const GIVE_UP_AFTER: usize = 5;

/// The result of a contender's turn.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It was measured, or it failed.
    Ended(Result<Sample, Failure>),
    /// A signal ended the measurement.
    Stopped,
}

/// Gives all contenders their turns in all rounds. `turn` runs the contender with this index; its round is `None` during the
/// warm-up. `summarise` makes the table of the counted rounds.
pub(crate) fn run(
    bench: &mut Bench,
    pace: &Pace,
    mut series: Vec<Series>,
    summarise: impl Fn(usize, Vec<Series>, &mut Random) -> Table,
    mut turn: impl FnMut(&mut Bench, usize, Option<usize>) -> Result<Turn, BenchError>,
) -> Result<Raced, BenchError> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    for round in 0..pace.warm_up + pace.rounds {
        bench.random.shuffle(&mut order);
        let counted = round.checked_sub(pace.warm_up);
        bench.between_rounds(|random| summarise(counted.unwrap_or(0), series.clone(), random))?;
        for &index in &order {
            if series[index].failed_at_start || series[index].failed.len() >= GIVE_UP_AFTER {
                continue;
            }
            let Turn::Ended(sample) = turn(bench, index, counted)? else {
                return Ok(Raced { series, stopped: true });
            };
            let series = &mut series[index];
            sleep(pace.gap);
            match (counted, sample) {
                (None, Ok(_)) => {}
                (Some(round), Ok(sample)) => series.samples.push(Sample { round, ..sample }),
                (_, Err(failure)) => {
                    series.failed.push(failure);
                    series.failed_at_start |= counted.is_none();
                }
            }
        }
    }
    Ok(Raced { series, stopped: false })
}
