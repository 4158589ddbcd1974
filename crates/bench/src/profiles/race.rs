// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paired measurement, as in [`crate::interleave`], with or without kept plans. Before a cold run the kept plans are removed,
//! outside the measured time. A hot run must have used the existing plan.

use serde::Deserialize;

use super::ProfilesError;
use super::home::Home;
use crate::bench::{Bench, BenchError};
use crate::environment;
use crate::interleave::{Pace, Sample, Series};
use crate::launch::{Invocation, LaunchError, Launched, Launcher, Run};
use crate::rounds::{self, Turn};
use crate::summary::Table;
use crate::workload::{Check, Failure};

/// What a run must do with kept plans.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plans<'a> {
    /// Kept plans don't matter.
    Unused,
    /// There is no plan before the run, and none after it.
    None(&'a Home),
    /// There is no plan before the run, and one after it.
    Made(&'a Home),
    /// The run uses the existing plan.
    Used(&'a Home),
}

/// The source of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The time from the start to the exit.
    Wall,
    /// The plan's time in the output of `--timings`.
    Plan,
    /// The time in the output of `profile refresh --json`.
    Refresh,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    pub(crate) name: String,
    /// These run one after the other, and their figures are added.
    pub(crate) invocations: Vec<Invocation>,
    pub(crate) plans: Plans<'a>,
    pub(crate) reading: Reading,
    /// It belongs to another project.
    pub(crate) peer: bool,
}

/// Runs all runners through all rounds.
pub(crate) fn race(
    bench: &mut Bench,
    title: &str,
    runners: &[Runner<'_>],
    pace: &Pace,
) -> Result<Table, BenchError> {
    let series = runners.iter().map(Runner::begin).collect();
    let summarise =
        |rounds, series, random: &mut _| Table::summarise(title, rounds, pace.burst, series, random);
    let raced = rounds::run(bench, pace, series, summarise, |bench, index, _round| {
        match runners[index].sample(&bench.launcher) {
            Err(ProfilesError::Launch(LaunchError::Stopped)) => Ok(Turn::Stopped),
            sample => Ok(Turn::Ended(sample?)),
        }
    })?;
    let table = summarise(pace.rounds, raced.series, &mut bench.random);
    if raced.stopped {
        match bench.keep_begun(table)? {}
    }
    bench.environment.memory_floor_byte = environment::own_peak();
    Ok(table)
}

impl Runner<'_> {
    fn begin(&self) -> Series {
        let command = match self.invocations.as_slice() {
            [first, _, ..] => format!("{} and {} more", first.display(), self.invocations.len() - 1),
            other => other.first().map(Invocation::display).unwrap_or_default(),
        };
        Series::begun(&self.name, command).of_peer(self.peer)
    }

    fn sample(&self, launcher: &Launcher) -> Result<Result<Sample, Failure>, ProfilesError> {
        let failed = |why: &str| Ok(Err(Failure::Proof { why: why.to_owned() }));
        let mut before = Vec::new();
        match self.plans {
            Plans::Unused => {}
            Plans::None(home) | Plans::Made(home) => home.forget()?,
            Plans::Used(home) => before = home.kept()?,
        }
        let mut sum = Sample { round: 0, wall: 0.0, user: 0.0, system: 0.0, max_rss: 0, exit_code: 0 };
        for invocation in &self.invocations {
            let run = match launcher.run(invocation)? {
                Launched::Ended(run) => run,
                Launched::NotStarted(why) => return Ok(Err(Failure::NotStarted { why })),
            };
            if let Err(failure) = Check::Success.verify(&run) {
                return Ok(Err(failure));
            }
            let Some(figure) = self.reading.of(&run) else {
                return failed("the run didn't report the time of planning");
            };
            sum.wall += figure;
            sum.user += run.usage.user.as_secs_f64();
            sum.system += run.usage.system.as_secs_f64();
            sum.max_rss = sum.max_rss.max(run.usage.max_rss);
        }
        match self.plans {
            Plans::None(home) if !home.kept()?.is_empty() => failed("it kept a plan"),
            Plans::Made(home) if home.kept()?.is_empty() => failed("it kept no plan"),
            Plans::Used(_) if before.is_empty() => failed("no plan was kept"),
            Plans::Used(home) if home.kept()? != before => failed("the plan was made anew"),
            _ => Ok(Ok(sum)),
        }
    }
}

impl Reading {
    /// The figure in seconds.
    fn of(self, run: &Run) -> Option<f64> {
        match self {
            Self::Wall => Some(run.wall.as_secs_f64()),
            Self::Plan => plan_of_timings(&String::from_utf8_lossy(&run.stderr)),
            Self::Refresh => refreshed(&run.stdout),
        }
    }
}

/// The plan's time in the line `palisade: launch  plan 0.247 ms  namespaces …`, in seconds.
fn plan_of_timings(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("palisade: launch "))?;
    let (figure, _rest) = line.trim_start().strip_prefix("plan ")?.split_once(" ms")?;
    figure.parse().ok().filter(|figure: &f64| figure.is_finite()).map(|figure: f64| figure / 1e3)
}

#[derive(Deserialize)]
struct Refreshed {
    profiles: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    milliseconds: f64,
    steps: usize,
}

/// The time of the only profile that was planned, in seconds.
fn refreshed(bytes: &[u8]) -> Option<f64> {
    let answer: Refreshed = serde_json::from_slice(bytes).ok()?;
    match answer.profiles.as_slice() {
        [one] if one.steps > 0 => Some(one.milliseconds / 1e3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn the_plans_time_is_read() {
        let text =
            "palisade: note: x\npalisade: launch  plan 0.247 ms  namespaces 1.187 ms  in all 8.725 ms\n";
        assert_eq!(plan_of_timings(text), Some(0.000_247));
        for text in ["", "palisade: launch", "palisade: launch  plan x ms", "palisade: launch  mounts 1 ms"] {
            assert_eq!(plan_of_timings(text), None, "{text}");
        }
    }

    #[test]
    fn the_time_of_refreshing_is_read() {
        let text = r#"{"schema":1,"profiles":[{"name":"sh","milliseconds":37.5,"steps":223,"kept":false}]}"#;
        assert_eq!(refreshed(text.as_bytes()), Some(0.0375));
        assert_eq!(refreshed(text.replace("223", "0").as_bytes()), None);
        assert_eq!(refreshed(br#"{"profiles":[]}"#), None);
    }

    #[test]
    fn a_run_that_says_hot_and_is_not_is_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::create(directory.path().join("home"), None).unwrap();
        let launcher = Launcher::new(directory.path(), Duration::from_secs(60), &Arc::default()).unwrap();
        let script = "mkdir -p $XDG_CACHE_HOME/palisade/plans; echo x >$XDG_CACHE_HOME/palisade/plans/new; \
                      mv $XDG_CACHE_HOME/palisade/plans/new $XDG_CACHE_HOME/palisade/plans/a.plan";
        let runner = |script: &str, plans| Runner {
            name: "x".into(),
            invocations: vec![home.invocation(&["/bin/sh", "-c", script].map(OsStr::new), Path::new("/"))],
            plans,
            reading: Reading::Wall,
            peer: false,
        };
        let why = |runner: Runner<'_>| match runner.sample(&launcher).unwrap() {
            Ok(_) => String::new(),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(why(runner(":", Plans::Used(&home))), "no plan was kept");
        assert_eq!(why(runner(":", Plans::Made(&home))), "it kept no plan");
        assert_eq!(why(runner(script, Plans::None(&home))), "it kept a plan");
        assert_eq!(why(runner(script, Plans::Made(&home))), "");
        assert_eq!(why(runner(script, Plans::Used(&home))), "the plan was made anew");
        assert_eq!(why(runner(":", Plans::Used(&home))), "");
        assert_eq!(why(runner("exit 3", Plans::Unused)), "exit code 3");
    }

    #[test]
    fn many_commands_are_one_sample() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::create(directory.path().join("home"), None).unwrap();
        let one = home.invocation(&["/bin/sh", "-c", "echo x >>count"].map(OsStr::new), directory.path());
        let runner = Runner {
            name: "x".into(),
            invocations: vec![one; 3],
            plans: Plans::Unused,
            reading: Reading::Wall,
            peer: false,
        };
        let pace = Pace { rounds: 2, warm_up: 1, gap: Duration::ZERO, burst: 1 };
        let mut bench = crate::bench::tests::bench(directory.path());
        let table = race(&mut bench, "x", &[runner], &pace).unwrap();
        assert_eq!((table.rows.len(), table.rows[0].series.samples.len()), (1, 2));
        assert_eq!(std::fs::read_to_string(directory.path().join("count")).unwrap().len(), 18);
    }
}
