// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what rules and trusted files add: to a decision, to the start, and to the daemon's memory.

use std::ffi::OsString;

use super::GuardError;
use super::bed::{Bed, Counts, Kind, Sort};
use super::daemon::{Guard, Program};
use super::goals::row;
use super::policy::{Policy, Rules};
use super::race::{Contender, Reading, Scenario, Work, race};
use super::scenarios::{ASK_ALWAYS, Entry, FAPOLICYD, OFF, OFF_AGAIN, PALISADE, enter, forget, placements};
use crate::bench::{Bench, BenchError};
use crate::entry::Missing;
use crate::goal::{Bound, Goal, Unit};
use crate::interleave::{Sample, Series};
use crate::launch::{Invocation, Launched};
use crate::statistics::estimate;
use crate::suite::rounds;
use crate::suites::guard::Daemons;
use crate::summary::Table;
use crate::workload::Failure;

const RULES: [usize; 4] = [10, 100, 1000, 10_000];
const TRUSTED: [usize; 4] = [1000, 10_000, 100_000, 1_000_000];
/// Quick runs use only the first ones.
const FEW: usize = 2;

const COUNTS: Counts = Counts { clocks: 10, dynamic: 0, texts: 1000, home: false };
const AGAIN: usize = 100;
const STARTS: usize = 5;

/// The targets: seconds, bytes, files per second.
const DECISION: f64 = 1e-6;
const START: f64 = 0.1;
const MEMORY: f64 = 15e6;
const IMPORT: f64 = 50_000.0;
const OF_MEMORY: usize = 100_000;

fn upto(bench: &Bench, all: &'static [usize]) -> &'static [usize] {
    if bench.options.quick { &all[..FEW] } else { all }
}

/// Both daemons, and palisaded in the mode in which the kernel never answers by itself: those that one of the tables needs.
fn programs(bench: &Bench, daemons: &Daemons, titles: &[&str]) -> Vec<(&'static str, Program)> {
    [
        (PALISADE, daemons.palisaded.clone()),
        (ASK_ALWAYS, daemons.asked_always()),
        (FAPOLICYD, daemons.fapolicyd.clone()),
    ]
    .into_iter()
    .filter_map(|(name, program)| Some((name, program?)))
    .filter(|(name, _)| titles.iter().any(|title| bench.filter.accepts(title, name)))
    .collect()
}

/// Opens and execs with this many rules before the one that decides.
pub(crate) fn rules(
    bench: &mut Bench,
    daemons: &Daemons,
    missing: &mut Vec<Missing>,
) -> Result<(), BenchError> {
    let points = upto(bench, &RULES);
    let policy = |others| Policy { others, ..Policy::plain(Rules::KnownLibs) };
    decisions(bench, daemons, points, "rules", policy, missing)
}

/// The same with this many trusted files; and how long daemons take to start with them.
pub(crate) fn trusted(
    bench: &mut Bench,
    daemons: &Daemons,
    missing: &mut Vec<Missing>,
) -> Result<(), BenchError> {
    let points = upto(bench, &TRUSTED);
    let policy = |trusted| Policy { trusted, ..Policy::plain(Rules::KnownLibs) };
    decisions(bench, daemons, points, "trusted files", policy, missing)?;
    starts(bench, daemons, points, missing)
}

fn title(what: &str, of: &str) -> String {
    format!("{what}, by the number of {of}")
}

fn decisions(
    bench: &mut Bench,
    daemons: &Daemons,
    points: &[usize],
    what: &str,
    policy: impl Fn(usize) -> Policy,
    missing: &mut Vec<Missing>,
) -> Result<(), BenchError> {
    let (execs, opens) = (title("one program, call", what), title("open+close, steady", what));
    let programs = programs(bench, daemons, &[&execs, &opens]);
    if programs.is_empty() {
        return Ok(());
    }
    let name = |daemon: &str, point: usize| format!("{daemon}, {point} {what}");
    let mut entries: Vec<Entry> = Vec::new();
    for name in [OFF, OFF_AGAIN] {
        entries.extend(enter(bench, name, None, &policy(0), COUNTS, &|_| Ok(()), missing)?);
    }
    for (daemon, program) in programs {
        for &point in points {
            entries.extend(enter(
                bench,
                &name(daemon, point),
                Some(&program),
                &policy(point),
                COUNTS,
                &|_| Ok(()),
                missing,
            )?);
        }
    }
    let contenders: Vec<Contender<'_>> = entries.iter().map(Entry::contender).collect();
    let rounds = rounds(bench.options.rounds(), 10);
    let one = Work::Same { sort: Sort::Clocks, number: 0, count: AGAIN };
    let begin = bench.kept();
    for (work, figure) in [
        (one, ("call", execs.as_str())),
        (Work::Open { sort: Sort::Texts, count: COUNTS.texts }, ("each", opens.as_str())),
    ] {
        let figures = [figure];
        let scenario = Scenario { work, reading: Reading::Said(&figures), rounds };
        for table in race(bench, &contenders, &scenario, &placements()[0])? {
            bench.keep(Table { category: None, ..table })?;
        }
    }
    let [Some(&least), Some(&most)] = [points.first(), points.last()] else { return Ok(()) };
    for mut table in bench.take_from(begin) {
        for daemon in [ASK_ALWAYS, FAPOLICYD] {
            let pair = [most, least]
                .map(|point| row(&table, &name(daemon, point)).filter(|row| row.figures.is_some()));
            let [Some(above), Some(below)] = pair else { continue };
            let added = above.series.paired(&below.series, |above, below| above - below);
            table.goals.push(Goal {
                what: format!("{daemon}: {most} {what}, less with {least}"),
                unit: Unit::Microseconds,
                bound: Bound::AtMost,
                wanted: (daemon == ASK_ALWAYS).then_some(DECISION),
                seen: estimate(&added, &mut bench.random),
                published: None,
            });
        }
        bench.keep(table)?;
    }
    Ok(())
}

/// Starts: with lists of files that are read for the first time, and with a database from an earlier start.
fn starts(
    bench: &mut Bench,
    daemons: &Daemons,
    points: &[usize],
    missing: &mut Vec<Missing>,
) -> Result<(), BenchError> {
    let (first, known) =
        ("start, lists of trusted files read for the first time", "start, trusted files known");
    let programs = programs(bench, daemons, &[first, known]);
    if programs.is_empty() {
        return Ok(());
    }
    let beds = bench.session.scratch().join("beds");
    let bed = Bed::create(&beds, "start", Kind::Tmpfs, COUNTS)?;
    bench.say(&format!("{first}; {known}: {STARTS} rounds"));
    let nothing = nothing(bench)?;
    let (mut at_first, mut afterwards): (Vec<Series>, Vec<Series>) = (Vec::new(), Vec::new());
    for name in [OFF, OFF_AGAIN] {
        let mut series = Series::begun(name, nothing.display());
        for round in 0..STARTS {
            if let Launched::Ended(run) = bench.launcher.run(&nothing)? {
                let (wall, max_rss) = (run.wall.as_secs_f64(), run.usage.max_rss);
                series.samples.push(Sample {
                    round,
                    wall,
                    user: 0.0,
                    system: 0.0,
                    max_rss,
                    exit_code: run.code(),
                });
            }
        }
        at_first
            .push(Series { samples: series.samples.clone(), ..Series::begun(name, series.command.clone()) });
        afterwards.push(series);
    }
    for (daemon, program) in programs.into_iter().filter(|(daemon, _)| *daemon != ASK_ALWAYS) {
        for &point in points {
            let name = format!("{daemon}, {point} files");
            let policy = Policy { trusted: point, ..Policy::plain(Rules::KnownLibs) };
            let mut rows = [(); 2].map(|()| {
                Series::begun(&name, program.path().display().to_string())
                    .of_peer(daemon.starts_with(FAPOLICYD))
            });
            for round in 0..STARTS {
                let own = bench.session.scratch().join("daemons/start");
                for (number, series) in rows.iter_mut().enumerate() {
                    let stop = bench.session.stop();
                    let started = if number == 0 {
                        forget(bench, "start")?;
                        Guard::start(&program, &own, &bed, &policy, stop)?
                    } else {
                        Guard::again(&program, &own, &bed, stop)?
                    };
                    match started {
                        Ok(guard) => series.samples.push(of_start(&guard, round)),
                        Err(why) => series.failed.push(Failure::NotStarted { why: why.to_string() }),
                    }
                }
                if rows.iter().any(|series| !series.failed.is_empty()) {
                    missing.extend(
                        rows.iter()
                            .flat_map(|series| &series.failed)
                            .take(1)
                            .map(|why| Missing { name: name.clone(), how: why.to_string() }),
                    );
                    break;
                }
            }
            let [one, other] = rows;
            at_first.push(one);
            afterwards.push(other);
        }
    }
    let mut tables: Vec<Table> = [(first, at_first), (known, afterwards)]
        .into_iter()
        .map(|(title, series)| {
            let table = Table::summarise(title, STARTS, 1, series, &mut bench.random);
            Table { waited: false, ..table }
        })
        .collect();
    start_goals(bench, &mut tables, points);
    for table in tables {
        bench.keep(table)?;
    }
    Ok(())
}

fn start_goals(bench: &mut Bench, tables: &mut [Table], points: &[usize]) {
    let [first, known] = tables else { return };
    let Some(&most) = points.last() else { return };
    let name = |point: usize| format!("{PALISADE}, {point} files");
    if row(first, &name(most)).is_none() {
        return;
    }
    let samples = |table: &Table, point: usize, figure: &dyn Fn(&Sample) -> f64| -> Vec<f64> {
        let row = row(table, &name(point)).filter(|row| row.figures.is_some());
        row.map(|row| row.series.samples.iter().map(figure).collect()).unwrap_or_default()
    };
    let mut goal = |what: String, unit, bound, wanted, values: Vec<f64>| Goal {
        what,
        unit,
        bound,
        wanted: Some(wanted),
        seen: estimate(&values, &mut bench.random),
        published: None,
    };
    #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2⁵³ files, and bytes")]
    let (rates, memory) = (
        samples(first, most, &|sample| most as f64 / sample.wall),
        [&*first, &*known].map(|table| samples(table, OF_MEMORY.min(most), &|sample| sample.max_rss as f64)),
    );
    first.goals.push(goal(
        format!("{}: files read a second", name(most)),
        Unit::Count,
        Bound::AtLeast,
        IMPORT,
        rates,
    ));
    let walls = samples(known, most, &|sample| sample.wall);
    known.goals.push(goal(format!("{}: start", name(most)), Unit::Seconds, Bound::AtMost, START, walls));
    // Also directly after the lists were read: the memory for reading isn't returned by itself.
    for (table, memory) in [first, known].into_iter().zip(memory) {
        let what = format!("{}: memory", name(OF_MEMORY.min(most)));
        table.goals.push(goal(what, Unit::Mebibytes, Bound::AtMost, MEMORY, memory));
    }
}

fn of_start(guard: &Guard, round: usize) -> Sample {
    let used = guard.used();
    Sample { round, wall: guard.ready, user: used.work, system: 0.0, max_rss: used.memory, exit_code: 0 }
}

/// The baseline for a start.
fn nothing(bench: &Bench) -> Result<Invocation, GuardError> {
    let own = std::env::current_exe().map_err(GuardError::prepare("find", "palisade-bench"))?;
    let argv: Vec<OsString> =
        [own.into_os_string(), "load".into(), "tether".into(), "--".into(), "/bin/true".into()].into();
    Ok(Invocation { argv, directory: bench.session.work(), variables: Vec::new() })
}
