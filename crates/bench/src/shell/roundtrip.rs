// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures from a key to its echo through a pseudo-terminal: bash alone and bash behind the proxy, in turns.

use super::terminal::{Home, Terminal};
use super::{ShellError, series};
use crate::bench::{Bench, BenchError};
use crate::goal::{Bound, Goal, Unit};
use crate::random::Random;
use crate::statistics::{Estimate, quantile};
use crate::summary::{Scale, Table};
use std::path::Path;
use std::time::{Duration, Instant};

/// The measurement's name.
pub(crate) const NAME: &str = "pty_roundtrip";
/// The number of keys in a round. At its end the line is deleted.
const KEYS: usize = 20;

impl Terminal {
    /// Types keys one after the other. Returns the median of their times in seconds.
    fn round(&mut self, all: &mut Vec<f64>) -> Result<f64, ShellError> {
        let mut times = Vec::with_capacity(KEYS);
        for _ in 0..KEYS {
            let begun = Instant::now();
            self.keys(b"q");
            self.until(b"q")?;
            times.push(begun.elapsed().as_secs_f64());
            self.drain(Duration::from_millis(4));
        }
        self.keys(b"\x15");
        self.drain(Duration::from_millis(20));
        let median = quantile(&times, 0.5).unwrap_or_default();
        all.append(&mut times);
        Ok(median)
    }
}

/// The table. `palisade` is the program.
pub(crate) fn measure(bench: &mut Bench, palisade: &Path, rounds: usize) -> Result<Table, BenchError> {
    let home = Home::prepare(palisade)?;
    let mut terminals = [
        home.alone("bash")?,
        home.alone("bash again (A/A)")?,
        home.proxied("palisade shell", true)?,
        home.relayed()?,
    ];
    let mut times = [const { Vec::new() }; 4];
    let mut walls = [const { Vec::new() }; 4];
    let mut order = [0, 1, 2, 3];
    for round in 0..=rounds {
        bench.random.shuffle(&mut order);
        for &index in &order {
            if bench.is_stopped() {
                let begun = summarise(&terminals, &walls, rounds, &mut bench.random);
                match bench.keep_begun(begun)? {}
            }
            let wall = terminals[index].round(&mut times[index])?;
            if round == 0 {
                times[index].clear();
            } else {
                walls[index].push(wall);
            }
        }
    }
    let mut table = summarise(&terminals, &walls, rounds, &mut bench.random);
    for (at, most) in [(0.5, 20e-6), (0.99, 60e-6)] {
        let of = |index: usize| times.get(index).and_then(|times: &Vec<f64>| quantile(times, at));
        for (index, wanted) in [(2, Some(most)), (3, None)] {
            let added = of(index).zip(of(0)).map(|(with, without)| with - without);
            table.goals.push(Goal {
                what: format!(
                    "{}: added at the {:.0}th percentile of all keys",
                    terminals[index].what,
                    at * 100.0
                ),
                unit: Unit::Microseconds,
                bound: Bound::AtMost,
                wanted,
                seen: added.map(Estimate::single),
                published: None,
            });
        }
    }
    Ok(table)
}

fn summarise(terminals: &[Terminal], walls: &[Vec<f64>], rounds: usize, random: &mut Random) -> Table {
    let rows = terminals.iter().zip(walls).map(|(terminal, walls)| series(&terminal.what, "q", walls));
    let table = Table::summarise(NAME, rounds, KEYS, rows.collect(), random);
    Table { scale: Scale::Microseconds, ..table }
}
