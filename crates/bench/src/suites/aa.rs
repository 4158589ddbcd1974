// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `aa`: is this machine quiet enough for measurements, and does the bench report differences where there are none?

use crate::bench::{Bench, BenchError};
use crate::suite::{More, Suite};
use crate::summary::{Control as Pair, Report, Section, Table};
use crate::workload;

/// One in this many comparisons of the same command may show a difference: 5%.
const ONE_IN: usize = 20;

/// Compares the baseline with itself, and nothing else.
#[derive(Debug)]
pub(crate) struct Control;

impl Suite for Control {
    fn name(&self) -> &'static str {
        "aa"
    }

    fn about(&self) -> &'static str {
        "The same command against itself: is this machine quiet enough? (exit code 1 if not)"
    }

    fn more(&self) -> More {
        More::Again
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let nothing =
            workload::nothing().map_err(|error| BenchError::NoWorkload { reasons: error.to_string() })?;
        let proven = bench.prove(super::baselines())?;
        let rows: Vec<_> = proven.iter().collect();
        let Some(times) = bench.options.again.times else {
            let table = bench.measure(&nothing, &rows)?;
            let quiet = table.control.as_ref().is_some_and(|pair| pair.noisy.is_none());
            bench.keep(table)?;
            return Ok(Report { answer: Some(quiet), ..bench.report(Vec::new(), &[])? });
        };
        for number in 1..=times {
            let table = bench.measure(&nothing, &rows)?;
            bench.keep(Table { workload: format!("{}, {number} of {times}", table.workload), ..table })?;
        }
        let mut report = bench.report(Vec::new(), &[])?;
        let pairs: Vec<Option<&Pair>> = report.tables.iter().map(|table| table.control.as_ref()).collect();
        let judgement = Judgement::of(&pairs);
        if let Some(last) = report.tables.last_mut() {
            last.sections.push(judgement.section());
        }
        Ok(Report { answer: Some(judgement.holds()), ..report })
    }
}

/// The result of many comparisons of the same command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judgement {
    times: usize,
    different: usize,
    /// The comparisons without a result, because the command failed.
    failed: usize,
}

impl Judgement {
    fn of(pairs: &[Option<&Pair>]) -> Self {
        Self {
            times: pairs.len(),
            different: pairs.iter().flatten().filter(|pair| pair.differs).count(),
            failed: pairs.iter().filter(|pair| pair.is_none()).count(),
        }
    }

    /// At most one in twenty comparisons may show a false difference.
    fn holds(self) -> bool {
        self.failed == 0 && self.different <= self.times / ONE_IN
    }

    fn section(self) -> Section {
        Section {
            title: "differences that were claimed between a command and itself".to_owned(),
            columns: ["comparisons", "false differences", "at most", "holds"].map(str::to_owned).into(),
            rows: vec![vec![
                self.times.to_string(),
                self.different.to_string(),
                (self.times / ONE_IN).to_string(),
                if self.holds() { "yes" } else { "NO" }.to_owned(),
            ]],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::statistics::{differs, estimate};
    use crate::summary::tests::series;

    /// A number between 0 and 1, excluding both.
    fn uniform(random: &mut Random) -> f64 {
        (random.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30)
    }

    /// A realistic machine: launches of 1 ms with a tail. There are two speeds, each lasting for many rounds. The machine
    /// gets slower as it warms up, and sometimes a launch takes ten times as long.
    struct Machine {
        random: Random,
        slow: bool,
        launches: f64,
    }

    impl Machine {
        fn launch(&mut self) -> f64 {
            self.launches += 1.0;
            if self.random.below(40) == 0 {
                self.slow = !self.slow;
            }
            let speed = if self.slow { 1.3 } else { 1.0 };
            let held = if self.random.below(50) == 0 { 10.0 } else { 1.0 };
            let tail = -uniform(&mut self.random).ln() * 0.15;
            1e-3 * (speed + tail) * held * (1.0 + self.launches * 1e-5)
        }

        /// A table of a command and itself, or of a command that takes `times` as long, in rounds of random order.
        fn table(&mut self, rounds: usize, times: f64) -> Table {
            let mut walls = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                let mut order = [0, 1];
                self.random.shuffle(&mut order);
                for index in order {
                    let wall = self.launch();
                    walls[index].push(if index == 1 { wall * times } else { wall });
                }
            }
            let rows = vec![series("plain", &walls[0]), series("plain again (A/A)", &walls[1])];
            Table::summarise("true", rounds, 1, rows, &mut self.random)
        }
    }

    fn forty(seed: u64, rounds: usize, times: f64) -> usize {
        let mut machine = Machine { random: Random::new(seed), slow: false, launches: 0.0 };
        (0..40).filter(|_| machine.table(rounds, times).control.unwrap().differs).count()
    }

    /// Forty comparisons, repeated thirty times, with few rounds and with many: never more than two false differences in
    /// forty.
    #[test]
    fn at_most_one_in_twenty_comparisons_of_the_same_shows_a_difference() {
        let found: Vec<usize> =
            (0..30).map(|seed| forty(seed, [10, 30, 60][usize::try_from(seed % 3).unwrap()], 1.0)).collect();
        assert!(found.iter().all(|&different| different <= 2), "{found:?}");
        let all: usize = found.iter().sum();
        // Of 1200 at 99%, 12 are expected; fewer occur because values are discrete.
        assert!(all <= 18, "{found:?}");
    }

    /// The ends of the 95% interval would not be enough: they claim a false difference more than twice in forty.
    #[test]
    fn the_shown_interval_would_claim_too_much() {
        let mut machine = Machine { random: Random::new(7), slow: false, launches: 0.0 };
        let outside = (0..400)
            .filter(|_| {
                let table = machine.table(10, 1.0);
                let ratios = table.rows[1].series.paired(&table.rows[0].series, |own, other| own / other);
                assert!(!differs(&ratios, 1.0) || estimate(&ratios, &mut Random::new(1)).is_some());
                !table.control.unwrap().ratio.contains(1.0)
            })
            .count();
        assert!(outside > 20, "{outside} of 400");
    }

    #[test]
    fn a_difference_that_there_is_is_found() {
        assert!(forty(1, 200, 1.10) >= 38, "{}", forty(1, 200, 1.10));
    }

    #[test]
    fn forty_comparisons_are_judged() {
        let pair = |differs| Pair {
            ratio: estimate(&[1.0, 1.0], &mut Random::new(1)).unwrap(),
            differs,
            noisy: Some("wide".to_owned()),
        };
        let (same, different) = (pair(false), pair(true));
        let of = |count: usize, failed: usize| {
            let mut pairs = vec![Some(&same); 40 - count - failed];
            pairs.extend(vec![Some(&different); count]);
            pairs.extend(vec![None; failed]);
            Judgement::of(&pairs).holds()
        };
        assert!(of(0, 0) && of(2, 0) && !of(3, 0) && !of(0, 1));
    }
}
