// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paired measurement: in every round each contender runs once, in a new random order. So what the machine does meanwhile
//! (clock changes, other programs, the teardown of an earlier network namespace) affects all of them alike.

use std::time::Duration;

use crate::bench::{Bench, BenchError};
use crate::launch::{Invocation, LaunchError, Launched, Launcher};
use crate::rounds::{self, Turn};
use crate::summary::Table;
use crate::workload::{Check, Failure};

/// The settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) rounds: usize,
    pub(crate) warm_up: usize,
    /// The pause after each launch or burst: the kernel removes a network namespace after it has reported the exit.
    pub(crate) gap: Duration,
    /// Launches per sample, one directly after the other. Above 1, the sample is their mean: the back-to-back case.
    pub(crate) burst: usize,
}

/// A command that takes part.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) invocation: Invocation,
    pub(crate) check: Check,
    pub(crate) isolation: Vec<String>,
    /// It belongs to another project.
    pub(crate) peer: bool,
}

/// One sample: a launch, or the mean of a burst. Times in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) round: usize,
    pub(crate) wall: f64,
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// Bytes.
    pub(crate) max_rss: u64,
    pub(crate) exit_code: i32,
}

/// The results of a contender.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) isolation: Vec<String>,
    /// The samples of the rounds in which every launch was verified.
    pub(crate) samples: Vec<Sample>,
    /// The failures of the other rounds.
    pub(crate) failed: Vec<Failure>,
    /// It failed before anything was measured.
    pub(crate) failed_at_start: bool,
    /// It belongs to another project: its failure is a result, and no error of Palisade or of the bench.
    pub(crate) peer: bool,
}

/// The results, and whether a signal ended the measurement.
#[derive(Debug)]
pub(crate) struct Raced<S = Series> {
    pub(crate) series: Vec<S>,
    pub(crate) stopped: bool,
}

/// Runs all contenders through all rounds. The first is the baseline; its turns are in the random order like all others.
pub(crate) fn interleave(
    bench: &mut Bench,
    title: &str,
    contenders: &[Contender],
    pace: &Pace,
) -> Result<Raced, BenchError> {
    let series = contenders.iter().map(Series::of).collect();
    let summarise =
        |rounds, series, random: &mut _| Table::summarise(title, rounds, pace.burst, series, random);
    rounds::run(bench, pace, series, summarise, |bench, index, _round| {
        match burst(&contenders[index], pace.burst, &bench.launcher) {
            Err(LaunchError::Stopped) => Ok(Turn::Stopped),
            sample => Ok(Turn::Ended(sample?)),
        }
    })
}

fn burst(
    contender: &Contender,
    launches: usize,
    launcher: &Launcher,
) -> Result<Result<Sample, Failure>, LaunchError> {
    let mut sum = Sample { round: 0, wall: 0.0, user: 0.0, system: 0.0, max_rss: 0, exit_code: 0 };
    for _ in 0..launches {
        let run = match launcher.run(&contender.invocation)? {
            Launched::Ended(run) => run,
            Launched::NotStarted(why) => return Ok(Err(Failure::NotStarted { why })),
        };
        if let Err(failure) = contender.check.verify(&run) {
            return Ok(Err(failure));
        }
        sum.wall += run.wall.as_secs_f64();
        sum.user += run.usage.user.as_secs_f64();
        sum.system += run.usage.system.as_secs_f64();
        sum.max_rss = sum.max_rss.max(run.usage.max_rss);
        sum.exit_code = run.code();
    }
    let count = launches as f64;
    Ok(Ok(Sample { wall: sum.wall / count, user: sum.user / count, system: sum.system / count, ..sum }))
}

impl Series {
    fn of(contender: &Contender) -> Self {
        Self {
            isolation: contender.isolation.clone(),
            peer: contender.peer,
            ..Self::begun(&contender.name, contender.invocation.display())
        }
    }

    /// A series without samples.
    pub(crate) fn begun(name: &str, command: String) -> Self {
        Self {
            name: name.to_owned(),
            command,
            isolation: Vec::new(),
            samples: Vec::new(),
            failed: Vec::new(),
            failed_at_start: false,
            peer: false,
        }
    }

    /// The series of a contender that didn't pass its proof.
    pub(crate) fn refused(name: &str, command: String, failure: Failure) -> Self {
        Self {
            name: name.to_owned(),
            command,
            isolation: Vec::new(),
            samples: Vec::new(),
            failed: vec![failure],
            failed_at_start: true,
            peer: false,
        }
    }

    /// Sets whether it belongs to another project.
    pub(crate) fn of_peer(self, peer: bool) -> Self {
        Self { peer, ..self }
    }

    /// Whether this is the second run of the baseline, which tells noise from differences. Every suite names such rows so.
    pub(crate) fn is_again(&self) -> bool {
        self.name.contains("again")
    }

    pub(crate) fn valid(&self) -> bool {
        self.failed.is_empty() && !self.samples.is_empty()
    }

    pub(crate) fn walls(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.wall).collect()
    }

    /// `f(own, other)` for the rounds that both have completed.
    pub(crate) fn paired(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let mut theirs = other.samples.iter().peekable();
        let mut pairs = Vec::with_capacity(self.samples.len());
        // Both are sorted by round.
        for own in &self.samples {
            while theirs.next_if(|sample| sample.round < own.round).is_some() {}
            if let Some(sample) = theirs.next_if(|sample| sample.round == own.round) {
                pairs.push(f(own.wall, sample.wall));
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn contender(script: &str, check: Check) -> Contender {
        let argv = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
        Contender {
            name: script.into(),
            invocation: Invocation { argv, directory: "/".into(), variables: Vec::new() },
            check,
            isolation: Vec::new(),
            peer: false,
        }
    }

    fn race(contenders: &[Contender], pace: Pace) -> Vec<Series> {
        let scratch = tempfile::tempdir().unwrap();
        let mut bench = crate::bench::tests::bench(scratch.path());
        interleave(&mut bench, "x", contenders, &pace).unwrap().series
    }

    const PACE: Pace = Pace { rounds: 8, warm_up: 1, gap: Duration::ZERO, burst: 1 };

    #[test]
    fn every_round_has_every_contender() {
        let series = race(
            &[contender("echo a", Check::Output(b"a\n".to_vec())), contender(":", Check::Success)],
            PACE,
        );
        for series in &series {
            assert!(series.valid());
            let rounds: Vec<usize> = series.samples.iter().map(|sample| sample.round).collect();
            assert_eq!(rounds, (0..8).collect::<Vec<_>>());
        }
        assert_eq!(series[0].paired(&series[1], |own, other| own - other).len(), 8);
    }

    #[test]
    fn one_that_fails_from_the_start_is_not_measured() {
        let series = race(&[contender(":", Check::Success), contender("exit 1", Check::Success)], PACE);
        assert!(series[0].valid());
        assert!(series[1].failed_at_start && series[1].samples.is_empty() && !series[1].valid());
    }

    #[test]
    fn one_that_fails_now_and_then_is_counted_and_invalid() {
        let directory = tempfile::tempdir().unwrap();
        let counter = directory.path().join("counter");
        let script = format!("echo x >>{0}; test $(wc -l <{0}) -ne 4", counter.display());
        let series = race(&[contender(&script, Check::Success)], PACE);
        assert_eq!((series[0].samples.len(), series[0].failed.len()), (7, 1));
        assert!(!series[0].valid() && !series[0].failed_at_start);
        // The missing round has no pair.
        let other = race(&[contender(":", Check::Success)], PACE);
        assert_eq!(series[0].paired(&other[0], |own, _| own).len(), 7);
    }

    #[test]
    fn a_wrong_output_is_a_failure_however_fast() {
        let series = race(&[contender(":", Check::Output(b"100\n".to_vec()))], PACE);
        assert!(series[0].failed_at_start);
    }

    #[test]
    fn a_burst_is_many_launches() {
        let directory = tempfile::tempdir().unwrap();
        let counter = directory.path().join("counter");
        let script = format!("echo x >>{}", counter.display());
        race(&[contender(&script, Check::Success)], Pace { rounds: 3, burst: 5, ..PACE });
        assert_eq!(std::fs::read_to_string(counter).unwrap().lines().count(), 20);
    }
}
