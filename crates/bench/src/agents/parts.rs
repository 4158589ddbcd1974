// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the parts of a launch that Greywall's benchmarks name: the plan (their `WrapCommand`), and the cost of a command
//! in a sandbox that exists already ("per tool call").

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::rows::FILTERED;
use crate::bench::{Bench, BenchError};
use crate::goal::{Bound, Goal, Unit};
use crate::interleave::{Contender, Pace, Sample, Series, interleave};
use crate::launch::Invocation;
use crate::profiles::race::{Plans, Reading, Runner, race};
use crate::programs;
use crate::statistics::{Estimate, estimate};
use crate::suite::{gap, rounds};
use crate::summary::Table;
use crate::workload::Check;

/// The number of commands that a shell starts inside. A run with one command is subtracted, together with the launch.
const CALLS: usize = 100;
const PLAN: &str = "plan, as --timings says it";
/// From Greywall's document: the native time of `true` on its machine. The document gives this for calls inside, too.
const CALL_PUBLISHED: f64 = 0.0006;

/// What is needed to start the commands.
pub(crate) struct Parts<'a> {
    pub(crate) palisade: &'a Path,
    pub(crate) work: PathBuf,
}

impl Parts<'_> {
    fn plain(&self, words: &[&str]) -> Invocation {
        let argv = words.iter().map(OsString::from).collect();
        Invocation { argv, directory: self.work.clone(), variables: Vec::new() }
    }

    fn inside(&self, options: &[&str], words: &[&str]) -> Invocation {
        let palisade = self.palisade.to_string_lossy();
        let run = [palisade.as_ref(), "run", "--allow", "example.com"];
        self.plain(&[&run[..], options, &["--"], words].concat())
    }

    /// The part before any process is started.
    pub(crate) fn plan(&self, bench: &mut Bench, nothing: &str) -> Result<Table, BenchError> {
        let runner = |name: &str, invocation, reading| Runner {
            name: name.to_owned(),
            invocations: vec![invocation],
            plans: Plans::Unused,
            reading,
            peer: false,
        };
        let runners = [
            runner("plain", self.plain(&[nothing]), Reading::Wall),
            runner("plain again (A/A)", self.plain(&[nothing]), Reading::Wall),
            runner(PLAN, self.inside(&["--timings"], &[nothing]), Reading::Plan),
            runner("palisade run --dry-run", self.inside(&["--dry-run"], &[nothing]), Reading::Wall),
            runner(FILTERED, self.inside(&[], &[nothing]), Reading::Wall),
        ];
        let pace = pace(bench, 1);
        bench.say(&format!("plan: {} rounds of {} rows", pace.rounds, runners.len()));
        let mut table = race(bench, "plan of a filtered network, hot", &runners, &pace)?;
        let figures = |name: &str| table.rows.iter().find(|row| row.series.name == name)?.figures.as_ref();
        let goal = |what: &str, seen| Goal {
            what: what.to_owned(),
            unit: Unit::Seconds,
            bound: Bound::AtMost,
            wanted: None,
            seen,
            published: None,
        };
        table.goals = vec![
            goal("plan", figures(PLAN).map(|figures| figures.wall)),
            goal("cold launch, added", figures(FILTERED).and_then(|figures| figures.added)),
        ];
        Ok(table)
    }

    /// A shell inside that starts a hundred commands, minus a shell that starts one, minus the same outside.
    pub(crate) fn calls(&self, bench: &mut Bench, nothing: &str) -> Result<Table, BenchError> {
        let shell = programs::of_the_system("sh")
            .ok_or_else(|| BenchError::NoWorkload { reasons: "there is no sh".to_owned() })?;
        let shell = shell.to_string_lossy();
        let contender = |name: &str, calls: usize, inside: bool| {
            let script = format!("i=0; while [ $i -lt {calls} ]; do {nothing}; i=$((i+1)); done; echo $i");
            let words = [shell.as_ref(), "-c", &script];
            Contender {
                name: name.to_owned(),
                invocation: if inside { self.inside(&[], &words) } else { self.plain(&words) },
                check: Check::Output(format!("{calls}\n").into_bytes()),
                isolation: Vec::new(),
                peer: false,
            }
        };
        let contenders = [
            contender("101 × true, plain", CALLS + 1, false),
            contender("101 × true, plain again (A/A)", CALLS + 1, false),
            contender("1 × true, plain", 1, false),
            contender("101 × true, palisade", CALLS + 1, true),
            contender("1 × true, palisade", 1, true),
        ];
        let pace = pace(bench, 5);
        bench.say(&format!("calls: {} rounds of {} rows", pace.rounds, contenders.len()));
        let title = "a hundred calls in a live sandbox";
        let raced = interleave(bench, title, &contenders, &pace)?;
        if raced.stopped {
            let begun = Table::summarise(title, pace.rounds, 1, raced.series, &mut bench.random);
            match bench.keep_begun(begun)? {}
        }
        let series = raced.series;
        let calls = calls(&series);
        let mut seen = |f: fn(Call) -> f64| -> Option<Estimate> {
            estimate(&calls.iter().copied().map(f).collect::<Vec<_>>(), &mut bench.random)
        };
        let goal = |what: &str, unit, seen, wanted, published| Goal {
            what: what.to_owned(),
            unit,
            bound: Bound::AtMost,
            wanted,
            seen,
            published,
        };
        let goals = vec![
            goal("one call outside", Unit::Microseconds, seen(|call| call.outside), None, None),
            goal(
                "one call in a live sandbox",
                Unit::Microseconds,
                seen(|call| call.inside),
                None,
                Some(CALL_PUBLISHED),
            ),
            goal(
                "added to one call",
                Unit::Microseconds,
                seen(|call| call.inside - call.outside),
                None,
                None,
            ),
            goal(
                "one call inside / outside",
                Unit::Ratio,
                seen(|call| call.inside / call.outside),
                Some(1.08),
                None,
            ),
        ];
        let mut table = Table::summarise(title, pace.rounds, 1, series, &mut bench.random);
        table.goals = goals;
        Ok(table)
    }
}

fn pace(bench: &Bench, divisor: usize) -> Pace {
    Pace {
        rounds: rounds(bench.options.rounds(), divisor),
        warm_up: 3,
        gap: gap(bench.options.gap),
        burst: 1,
    }
}

/// The cost of one call, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Call {
    outside: f64,
    inside: f64,
}

/// From the rounds that all rows completed; none if a row failed.
fn calls(series: &[Series]) -> Vec<Call> {
    let [many_plain, _, one_plain, many_inside, one_inside] = series else { return Vec::new() };
    if !series.iter().all(Series::valid) {
        return Vec::new();
    }
    let of = |series: &Series, round| {
        series.samples.iter().find(|sample: &&Sample| sample.round == round).map(|sample| sample.wall)
    };
    let calls = CALLS as f64;
    many_plain
        .samples
        .iter()
        .filter_map(|sample| {
            let round = sample.round;
            Some(Call {
                outside: (sample.wall - of(one_plain, round)?) / calls,
                inside: (of(many_inside, round)? - of(one_inside, round)?) / calls,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::series;

    #[test]
    fn a_call_is_what_a_hundred_add() {
        let all = [
            series("many", &[0.101, 0.201]),
            series("again", &[0.101, 0.201]),
            series("one", &[0.001, 0.001]),
            series("many inside", &[0.115, 0.225]),
            series("one inside", &[0.005, 0.005]),
        ];
        let calls = calls(&all);
        assert_eq!(calls.len(), 2);
        assert!((calls[0].outside - 0.001).abs() < 1e-12 && (calls[0].inside - 0.0011).abs() < 1e-12);
    }

    #[test]
    fn a_failed_row_leaves_no_figure() {
        let mut all: Vec<Series> = (0..5).map(|_| series("x", &[0.1])).collect();
        all[4].failed.push(crate::workload::Failure::TimedOut);
        assert!(calls(&all).is_empty());
    }
}
