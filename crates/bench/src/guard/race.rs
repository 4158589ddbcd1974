// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paired measurement, as in [`crate::interleave`], of loads on beds. One run of a load gives several figures, and each run
//! proves that it is guarded.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::GuardError;
use super::bed::{Bed, Sort};
use super::daemon::Guard;
use super::home::Job;
use super::scenarios::FAPOLICYD;
use super::trace::{Below, Tracepoints, strace};
use crate::bench::{Bench, BenchError};
use crate::interleave::{Pace, Sample, Series};
use crate::launch::{Invocation, LaunchError, Launched};
use crate::random::Random;
use crate::rounds::{self, Turn};
use crate::suite::gap;
use crate::summary::{Scale, Table};
use crate::workload::{Check, Failure};

/// A bed, and the daemon that watches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender<'g> {
    pub(crate) name: &'g str,
    pub(crate) bed: &'g Bed,
    pub(crate) guard: Option<&'g Guard>,
}

/// The cores of the load and of the daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) name: &'static str,
    /// `None`: any core.
    pub(crate) load: Option<usize>,
    pub(crate) daemon: Option<usize>,
}

/// The work of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Work {
    /// Executes the program with this number again and again.
    Same { sort: Sort, number: usize, count: usize },
    /// Executes this many other programs in each round, beginning with those of round `first`.
    Slice { sort: Sort, count: usize, first: usize },
    /// Opens this many files.
    Open { sort: Sort, count: usize },
    /// Opens this many other files in each round.
    OpenSlice { sort: Sort, count: usize, first: usize },
    /// Opens this many files again and again, for this many seconds.
    Window { count: usize, seconds: f64 },
    /// Does a user's job at home.
    Job(Job),
}

/// The source of the measured times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading<'t> {
    /// The load's own figures, each with the title of a table.
    Said(&'t [(&'t str, &'t str)]),
    Strace(&'t str),
    Tracepoints(&'t str, &'t Tracepoints),
}

/// A scenario to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario<'t> {
    pub(crate) work: Work,
    pub(crate) reading: Reading<'t>,
    /// The number of counted rounds; one round comes before.
    pub(crate) rounds: usize,
}

/// The name of the figure for processor time. The daemon's processor time is added to it.
pub(crate) const WORK: &str = "work";

/// Rounds that are run and verified but not counted.
pub(crate) const WARM_UP: usize = 1;

impl Scenario<'_> {
    fn titles(&self) -> Vec<&str> {
        match self.reading {
            Reading::Said(figures) => figures.iter().map(|(_, title)| *title).collect(),
            Reading::Strace(title) | Reading::Tracepoints(title, _) => vec![title],
        }
    }
}

/// Runs all contenders through all rounds. Returns a table for each figure.
pub(crate) fn race(
    bench: &mut Bench,
    contenders: &[Contender<'_>],
    scenario: &Scenario<'_>,
    placement: &Placement,
) -> Result<Vec<Table>, BenchError> {
    let titles = scenario.titles();
    bench.say(&format!(
        "{}, {}: {} rounds of {} contenders",
        placement.name,
        titles.join("; "),
        scenario.rounds,
        contenders.len()
    ));
    let begin = |contender: &Contender<'_>| {
        let command = invocation(bench, contender, scenario, placement, 0).map(|it| it.display());
        command.map(|command| {
            let peer = contender.name.starts_with(FAPOLICYD);
            titles.iter().map(|_| Series::begun(contender.name, command.clone()).of_peer(peer)).collect()
        })
    };
    let series: Vec<Vec<Series>> = contenders.iter().map(begin).collect::<Result<_, _>>()?;
    let pace = Pace { rounds: scenario.rounds, warm_up: WARM_UP, gap: gap(bench.options.gap), burst: 1 };
    let summarise = |_rounds: usize, series: Vec<Vec<Series>>, random: &mut Random| {
        tables(&titles, series, scenario.rounds, placement, random)
    };
    let raced = rounds::run_figures(bench, &pace, series, summarise, |bench, index, round| {
        // The warm-up has files of its own, too.
        let round = round.map_or(0, |round| WARM_UP + round);
        match sample(bench, &contenders[index], scenario, placement, round) {
            Err(GuardError::Launch(LaunchError::Stopped)) => Ok(Turn::Stopped),
            samples => Ok(Turn::Ended(samples?)),
        }
    })?;
    let tables = tables(&titles, raced.series, scenario.rounds, placement, &mut bench.random);
    if raced.stopped {
        tables.into_iter().for_each(|table| bench.take_begun(table));
        return Err(LaunchError::Stopped.into());
    }
    Ok(tables)
}

/// A table for each figure.
fn tables(
    titles: &[&str],
    mut series: Vec<Vec<Series>>,
    rounds: usize,
    placement: &Placement,
    random: &mut Random,
) -> Vec<Table> {
    let mut tables = Vec::with_capacity(titles.len());
    for title in titles {
        let of_title: Vec<Series> = series.iter_mut().map(|all| all.remove(0)).collect();
        let mut table = Table::summarise(title, rounds, 1, of_title, random);
        table.category = Some(placement.name);
        table.scale = Scale::Microseconds;
        table.waited = false;
        tables.push(table);
    }
    tables
}

fn load_words(work: Work, round: usize) -> Vec<String> {
    let words = |task: &str, from: usize, count: usize| {
        vec![task.to_owned(), "--from".to_owned(), from.to_string(), "--count".to_owned(), count.to_string()]
    };
    let sorted = |mut words: Vec<String>, sort: Sort| {
        let name = match sort {
            Sort::Clocks => "clocks",
            Sort::Dynamic => "dynamic",
            Sort::Texts => "texts",
            Sort::Users => "users",
        };
        words.extend(["--sort".to_owned(), name.to_owned()]);
        words
    };
    match work {
        Work::Same { sort, number, count } => {
            let mut words = sorted(words("exec", number, count), sort);
            words.push("--same".to_owned());
            words
        }
        Work::Slice { sort, count, first } => sorted(words("exec", (first + round) * count, count), sort),
        Work::Open { sort, count } => sorted(words("open", 0, count), sort),
        Work::OpenSlice { sort, count, first } => sorted(words("open", (first + round) * count, count), sort),
        Work::Window { count, seconds } => {
            let mut words = sorted(words("open", 0, count), Sort::Texts);
            words.extend(["--window".to_owned(), seconds.to_string()]);
            words
        }
        Work::Job(job) => ["home", "--job", job.word()].map(str::to_owned).to_vec(),
    }
}

fn invocation(
    bench: &Bench,
    contender: &Contender<'_>,
    scenario: &Scenario<'_>,
    placement: &Placement,
    round: usize,
) -> Result<Invocation, GuardError> {
    let own = std::env::current_exe().map_err(GuardError::prepare("find", "palisade-bench"))?;
    let mut argv: Vec<OsString> = Vec::new();
    if let Reading::Strace(_) = scenario.reading {
        argv.extend(["strace", "-f", "-T", "-s", "4096", "-e", "trace=execve", "-o"].map(OsString::from));
        argv.push(traced(bench).into());
    }
    argv.extend([own.into(), "load".into()]);
    argv.extend(load_words(scenario.work, round).into_iter().map(OsString::from));
    argv.extend(["--bed".into(), contender.bed.path.clone().into()]);
    if let Some(core) = placement.load {
        argv.extend(["--core".into(), core.to_string().into()]);
    }
    if let Some(guard) = contender.guard {
        if let Some(pid) = guard.view() {
            argv.extend(["--enter".into(), pid.to_string().into()]);
        }
        if guard.enforces() {
            argv.push("--enforced".into());
        }
    }
    Ok(Invocation { argv, directory: bench.session.work(), variables: Vec::new() })
}

fn traced(bench: &Bench) -> PathBuf {
    bench.session.scratch().join("strace")
}

/// Runs the load once. Returns a sample for each figure.
fn sample(
    bench: &Bench,
    contender: &Contender<'_>,
    scenario: &Scenario<'_>,
    placement: &Placement,
    round: usize,
) -> Result<Result<Vec<Sample>, Failure>, GuardError> {
    let failed = |why: String| Ok(Err(Failure::Proof { why }));
    let invocation = invocation(bench, contender, scenario, placement, round)?;
    let guard = contender.guard;
    let before = guard.map(|guard| {
        guard.pin(placement.daemon);
        (guard.evidence(), guard.used())
    });
    if let Reading::Tracepoints(_, tracer) = scenario.reading
        && let Err(error) = tracer.begin()
    {
        return failed(format!("the kernel's tracer can't be used: {error}"));
    }
    let run = match bench.launcher.run(&invocation)? {
        Launched::Ended(run) => run,
        Launched::NotStarted(why) => return Ok(Err(Failure::NotStarted { why })),
    };
    let count = match scenario.work {
        Work::Same { count, .. } | Work::Slice { count, .. } => count,
        _ => 0,
    };
    let figures = match scenario.reading {
        Reading::Said(figures) => {
            let said = String::from_utf8_lossy(&run.stdout);
            figures.iter().map(|(name, _)| figure(&said, name)).collect()
        }
        Reading::Strace(_) => {
            let text = fs::read(traced(bench)).unwrap_or_default();
            let seen = strace(&String::from_utf8_lossy(&text), Below(&contender.bed.path));
            seen.filter(|(_, seen)| *seen == count).map(|(mean, _)| vec![mean])
        }
        Reading::Tracepoints(_, tracer) => tracer.end(count).ok().flatten().map(|(mean, _)| vec![mean]),
    };
    if let Err(failure) = Check::Success.verify(&run) {
        return Ok(Err(failure));
    }
    let Some(figures) = figures else { return failed("the run reported no time".to_owned()) };
    let figures: Vec<f64> = figures;
    let (mut work, mut memory) = (0.0, run.usage.max_rss);
    if let (Some(guard), Some((denied, used))) = (guard, before) {
        if guard.evidence() <= denied {
            return failed("the daemon denied none of the files that the policy denies".to_owned());
        }
        let now = guard.used();
        work = now.work - used.work;
        memory = now.memory;
    }
    let is_work = |index: usize| match scenario.reading {
        Reading::Said(figures) => figures.get(index).is_some_and(|(name, _)| *name == WORK),
        _ => false,
    };
    let sample = |(index, figure): (usize, f64)| {
        let wall = if is_work(index) { figure + work } else { figure };
        Sample { round: 0, wall, user: work, system: 0.0, max_rss: memory, exit_code: run.code() }
    };
    Ok(Ok(figures.into_iter().enumerate().map(sample).collect()))
}

fn figure(said: &str, name: &str) -> Option<f64> {
    let value = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_takes_others() {
        let of = |work, round| load_words(work, round).join(" ");
        let slice = Work::Slice { sort: Sort::Clocks, count: 50, first: 3 };
        assert_eq!(of(slice, 0), "exec --from 150 --count 50 --sort clocks");
        assert_eq!(of(slice, 2), "exec --from 250 --count 50 --sort clocks");
        let same = Work::Same { sort: Sort::Dynamic, number: 7, count: 9 };
        assert_eq!(of(same, 5), "exec --from 7 --count 9 --sort dynamic --same");
        assert_eq!(
            of(Work::OpenSlice { sort: Sort::Users, count: 10, first: 1 }, 1),
            "open --from 20 --count 10 --sort users"
        );
        assert_eq!(
            of(Work::Window { count: 10, seconds: 0.5 }, 1),
            "open --from 0 --count 10 --sort texts --window 0.5"
        );
    }

    #[test]
    fn a_figure_is_a_positive_number() {
        assert_eq!(figure("each 0.5\ncall 0.25\n", "call"), Some(0.25));
        assert_eq!(figure("each 0\n", "each"), None);
        assert_eq!(figure("callers 3\n", "call"), None);
    }
}
