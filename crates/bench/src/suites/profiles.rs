// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `profiles`: what opening an application by its profile costs, from a kept plan and without one.

use crate::bench::{Bench, BenchError};
use crate::entry::{Entry, Missing};
use crate::interleave::{Pace, Series};
use crate::launch::LaunchError;
use crate::profiles::bed::{self, Bed, Tools};
use crate::profiles::curves::Curves;
use crate::profiles::goals::Goals;
use crate::profiles::race::{Runner, race};
use crate::profiles::windows::{self, Display, Race};
use crate::profiles::{ProfilesError, Unready};
use crate::programs;
use crate::suite::{More, Suite, gap, rounds};
use crate::summary::{Report, Table};
use crate::workload::Failure;

/// The profiles from Antimony's tables and some common ones. They are measured unless others are named.
const USUAL: [&str; 8] = ["chromium", "okular", "syncthing", "sh", "vim", "python3", "git", "libreoffice"];
/// A cold round takes a thousand times as long as a hot one, because it runs `ldd` on every file.
const COLD_DIVISOR: usize = 20;

/// Applications by their profiles.
#[derive(Debug)]
pub(crate) struct Profiles;

impl Suite for Profiles {
    fn name(&self) -> &'static str {
        "profiles"
    }

    fn about(&self) -> &'static str {
        "What profiles cost: plans kept and made anew, launches, the same closure by ldd"
    }

    fn more(&self) -> More {
        More::Profiles
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        let tools = Tools::find(bench.options.binary.as_deref(), &bench.session)?;
        let palisade = tools.palisade.to_string_lossy().into_owned();
        let version = vec![palisade, "--version".to_owned()];
        bench.record_version(&Entry { version, ..Entry::plain("palisade") })?;
        let mut missing = Vec::new();
        if tools.antimony.is_none() {
            missing.push(Missing {
                name: "antimony".to_owned(),
                how: "not on PATH; the goals show its published figures, which its author measured on another machine"
                    .to_owned(),
            });
        }
        for name in names(&bench.options.profiles.names)? {
            bench.say(&format!("{name}: preparing"));
            match Bed::prepare(&name, &tools, bench.session.scratch(), &bench.launcher) {
                Ok(bed) => {
                    if let Some(remark) = &bed.remark {
                        missing.push(Missing { name: name.clone(), how: remark.clone() });
                    }
                    for measure in [hot, cold] {
                        let table = measure(bench, &bed, &tools)?;
                        bench.keep(table)?;
                    }
                    if bench.options.profiles.windows {
                        match windows(bench, &bed, &tools) {
                            Ok(table) => bench.keep(table)?,
                            Err(Unready::Profiles(error @ ProfilesError::Launch(_))) => {
                                return Err(error.into());
                            }
                            Err(error) => missing
                                .push(Missing { name: format!("{name}, window"), how: error.to_string() }),
                        }
                    }
                }
                Err(Unready::Profiles(error)) => return Err(error.into()),
                Err(error) => missing.push(Missing { name, how: error.to_string() }),
            }
        }
        if bench.options.profiles.curves {
            bench.say("curves: preparing");
            let scratch = bench.session.scratch();
            match Curves::prepare(&tools, scratch, &bench.launcher, &mut missing) {
                Ok(all) => curves(bench, &all, &tools)?,
                Err(Unready::Profiles(error)) => return Err(error.into()),
                Err(error) => missing.push(Missing { name: "curves".to_owned(), how: error.to_string() }),
            }
        }
        bench.report(missing, &[])
    }
}

fn names(named: &[String]) -> Result<Vec<String>, ProfilesError> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let here: Vec<String> =
        USUAL.iter().filter(|name| programs::on_path(name).is_some()).map(|&name| name.to_owned()).collect();
    if here.is_empty() { Err(ProfilesError::NoProfile) } else { Ok(here) }
}

fn hot(bench: &mut Bench, bed: &Bed, tools: &Tools) -> Result<Table, BenchError> {
    let mut table = measure(bench, &format!("{}, plan kept", bed.name), &bed.hot_rows(tools), 1, 3)?;
    let mut goals = Goals { profile: &bed.name, files: bed.shown, random: &mut bench.random };
    table.goals = goals.hot(series(&table, bed::HOT_PLAN), series(&table, bed::HOT_LAUNCH));
    Ok(table)
}

fn cold(bench: &mut Bench, bed: &Bed, tools: &Tools) -> Result<Table, BenchError> {
    let workload = format!("{}, no plan kept", bed.name);
    let mut table = measure(bench, &workload, &bed.cold_rows(tools), COLD_DIVISOR, 1)?;
    let mut goals = Goals { profile: &bed.name, files: bed.shown, random: &mut bench.random };
    let ldd = series(&table, bed::LDD).map(|series| (series, bed.files.len()));
    table.goals = goals.cold(series(&table, bed::COLD_PLAN), series(&table, bed::COLD_LAUNCH), ldd);
    Ok(table)
}

fn curves(bench: &mut Bench, curves: &Curves, tools: &Tools) -> Result<(), BenchError> {
    let rows = curves.hot_rows(tools);
    let mut hot = measure(bench, "launch to exit by files listed, plan kept", &rows, 1, 1)?;
    let all: Vec<&Series> = hot.rows.iter().map(|row| &row.series).collect();
    hot.goals = curves.slope(&all, &mut bench.random).into_iter().collect();
    bench.keep(hot)?;
    let rows = curves.cold_rows(tools);
    let cold = measure(bench, "plan by files listed, no plan kept", &rows, COLD_DIVISOR, 1)?;
    let rows = curves.crowd_rows(tools);
    bench.keep(cold)?;
    let crowds = measure(bench, "launch to exit by profiles, plan kept", &rows, 1, 1)?;
    bench.keep(crowds)
}

/// Starts without arguments, outside and inside. The start outside is measured twice, as the control.
fn windows(bench: &mut Bench, bed: &Bed, tools: &Tools) -> Result<Table, Unready> {
    let show = tools.palisade(&bed.hot, &["profile", "show", &bed.name]);
    let shown = bed::done(&bench.launcher, &show, 0)?;
    let lacks = |why: &str| Unready::Failed {
        command: show.display(),
        failure: Failure::Proof { why: why.to_owned() },
    };
    let title = windows::window_of(&String::from_utf8_lossy(&shown.stdout))
        .ok_or_else(|| lacks("it names no window"))?;
    let program = bed.program.as_deref().ok_or_else(|| lacks("it has no program"))?;
    let display = Display::start()?;
    let native = bed.hot.invocation(&[program.as_ref()], &tools.work);
    let inside = tools.palisade(&bed.hot, &["open", "--quiet", &bed.name]);
    let starts = [
        ("plain".to_owned(), native.clone()),
        ("plain again (A/A)".to_owned(), native),
        ("inside".to_owned(), inside),
    ];
    let race = Race {
        display: &display,
        title: &title,
        limit: bench.options.limit(),
        scratch: bench.session.scratch(),
        stop: bench.session.stop(),
    };
    let workload = format!("{}, first window", bed.name);
    bench.say(&format!("{workload}: {} rounds of {} starts", windows::ROUNDS, starts.len()));
    let raced = race.run(&starts, &mut bench.random)?;
    let table = Table::summarise(&workload, windows::ROUNDS, 1, raced.series, &mut bench.random);
    if raced.stopped {
        match bench.keep_begun(table).map_err(|_stop| ProfilesError::Launch(LaunchError::Stopped))? {}
    }
    Ok(table)
}

fn series<'a>(table: &'a Table, name: &str) -> Option<&'a Series> {
    table.rows.iter().map(|row| &row.series).find(|series| series.name == name)
}

/// Measures a table; its first two rows are the baselines.
pub(crate) fn measure(
    bench: &mut Bench,
    workload: &str,
    rows: &[Runner<'_>],
    divisor: usize,
    warm_up: usize,
) -> Result<Table, BenchError> {
    let pace = Pace {
        rounds: rounds(bench.options.rounds(), divisor),
        warm_up,
        gap: gap(bench.options.gap),
        burst: 1,
    };
    bench.say(&format!("{workload}: {} rounds of {} rows", pace.rounds, rows.len()));
    race(bench, workload, rows, &pace)
}
