// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paired measurement, as in [`crate::interleave`], of callers that measure themselves. The compared time is that of a call,
//! not of a launch. The calls' results are checked in every round.

use super::stage::Timed;
use crate::bench::{Bench, BenchError};
use crate::interleave::{Pace, Sample, Series};
use crate::launch::{Invocation, LaunchError, Launched, Run};
use crate::random::Random;
use crate::rounds::{self, Turn};
use crate::suite::gap;
use crate::summary::{Scale, Table};
use crate::workload::{Check, Failure};

/// A caller, and the expected result of its calls.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) invocation: Invocation,
    /// The expected result of the call.
    pub(crate) seen: String,
    /// Which of its times counts.
    pub(super) timed: Timed,
    /// It belongs to another project.
    pub(super) peer: bool,
}

/// Rounds that are run and verified but not counted.
const WARM_UP: usize = 1;

/// Runs all contenders through all rounds. The first two are the baselines.
pub(crate) fn race(
    bench: &mut Bench,
    title: &str,
    contenders: &[Contender],
    rounds: usize,
) -> Result<Table, BenchError> {
    bench.say(&format!("{title}: {rounds} rounds of {} callers", contenders.len()));
    let begun = |one: &Contender| Series::begun(&one.name, one.invocation.display()).of_peer(one.peer);
    let series = contenders.iter().map(begun).collect();
    let pace = Pace { rounds, warm_up: WARM_UP, gap: gap(bench.options.gap), burst: 1 };
    let summarise = |rounds, series, random: &mut _| summarise(title, rounds, series, random);
    let raced = rounds::run(bench, &pace, series, summarise, |bench, index, _round| {
        let contender = &contenders[index];
        match bench.launcher.run(&contender.invocation) {
            Ok(Launched::Ended(run)) => Ok(Turn::Ended(read(&run, contender))),
            Ok(Launched::NotStarted(why)) => Ok(Turn::Ended(Err(Failure::NotStarted { why }))),
            Err(LaunchError::Stopped) => Ok(Turn::Stopped),
            Err(error) => Err(error.into()),
        }
    })?;
    let table = summarise(rounds, raced.series, &mut bench.random);
    if raced.stopped {
        match bench.keep_begun(table)? {}
    }
    Ok(table)
}

fn summarise(title: &str, rounds: usize, series: Vec<Series>, random: &mut Random) -> Table {
    let mut table = Table::summarise(title, rounds, 1, series, random);
    table.scale = Scale::Microseconds;
    table
}

/// The same rounds by processor time, as the contenders report it. Other programs hardly affect it. `None` if they didn't
/// report it.
pub(super) fn processor(table: &Table, title: &str, bench: &mut Bench) -> Option<Table> {
    let of = |sample: &Sample| Sample { wall: sample.user + sample.system, ..sample.clone() };
    let series: Vec<Series> = table
        .rows
        .iter()
        .map(|row| Series { samples: row.series.samples.iter().map(of).collect(), ..row.series.clone() })
        .collect();
    if series.iter().flat_map(|series| &series.samples).any(|sample| sample.wall <= 0.0) {
        return None;
    }
    let mut table = Table::summarise(title, table.rounds, table.burst, series, &mut bench.random);
    table.scale = Scale::Microseconds;
    Some(table)
}

/// Parses `SECONDS SEEN`, unless the whole run is timed. An optional second line is `USER SYSTEM`.
fn read(run: &Run, contender: &Contender) -> Result<Sample, Failure> {
    Check::Success.verify(run)?;
    let (mut user, mut system) = (run.usage.user.as_secs_f64(), run.usage.system.as_secs_f64());
    let no_time = |_no_number| Failure::Proof { why: "the run reported no time".to_owned() };
    let wall = match contender.timed {
        Timed::Run => run.wall.as_secs_f64(),
        Timed::Itself => {
            let text = String::from_utf8_lossy(&run.stdout);
            let (text, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
            if let Some((own_user, own_system)) = rest.split_once(' ') {
                user = own_user.parse().map_err(no_time)?;
                system = own_system.parse().map_err(no_time)?;
            }
            let (seconds, seen) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
            if seen != contender.seen {
                let why = format!("the call returned {seen:?} and not {:?}", contender.seen);
                return Err(Failure::Proof { why });
            }
            seconds.parse().map_err(no_time)?
        }
    };
    Ok(Sample { round: 0, wall, user, system, max_rss: run.usage.max_rss, exit_code: run.code() })
}
