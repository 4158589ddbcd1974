// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what a guard costs for building and installing in a watched home.

use super::bed::{Bed, Counts};
use super::daemon::Guard;
use super::goals;
use super::home::{Home, Job, Size};
use super::policy::{Policy, Rules};
use super::race::{Contender, Placement, Reading, Scenario, WARM_UP, WORK, Work, race};
use super::scenarios::{Entry, FAPOLICYD, OFF, OFF_AGAIN, PALISADE, enter, forget};
use crate::bench::{Bench, BenchError};
use crate::entry::Missing;
use crate::goal::{Bound, Goal, Unit};
use crate::statistics::Estimate;
use crate::suite::rounds;
use crate::suites::guard::Daemons;
use crate::summary::Scale;

pub(crate) const BUILD: &str = "cargo build in a home";
pub(crate) const INSTALL: &str = "npm ci in a home";
const BUILD_WORK: &str = "cargo build in a home, processor time";
const INSTALL_WORK: &str = "npm ci in a home, processor time";

const WHOLE: Size = Size { crates: 12, packages: 120 };
const QUICK: Size = Size { crates: 3, packages: 20 };
/// Fewer rounds, because a build takes seconds.
const QUICK_ROUNDS: usize = 3;

/// A build uses all processors.
const ANYWHERE: Placement = Placement { name: "all cores", load: None, daemon: None };

/// The titles of the table of times and of the table of processor time.
fn titles(job: Job) -> [&'static str; 2] {
    match job {
        Job::Build => [BUILD, BUILD_WORK],
        Job::Install => [INSTALL, INSTALL_WORK],
    }
}

/// Two tables for each job that is possible here.
pub(crate) fn all(
    bench: &mut Bench,
    daemons: &Daemons,
    missing: &mut Vec<Missing>,
) -> Result<(), BenchError> {
    let field = [
        (OFF, None, Rules::AllowAll),
        (OFF_AGAIN, None, Rules::AllowAll),
        (PALISADE, daemons.palisaded.as_ref(), Rules::Own),
        (FAPOLICYD, daemons.fapolicyd.as_ref(), Rules::KnownLibs),
    ];
    let accepts = |job: Job, name: &str| titles(job).iter().any(|title| bench.filter.accepts(title, name));
    let mut jobs = Job::ALL.to_vec();
    jobs.retain(|&job| field.iter().any(|(name, ..)| accepts(job, name)));
    let among = |jobs: &[Job], name: &str| jobs.iter().any(|&job| accepts(job, name));
    let mut names: Vec<&str> = field.iter().map(|(name, ..)| *name).collect();
    names.retain(|name| *name == OFF || *name == OFF_AGAIN || among(&jobs, name));
    if jobs.is_empty() {
        return Ok(());
    }
    let size = if bench.options.quick { QUICK } else { WHOLE };
    let home = Home::prepare(bench.session.scratch(), size)?;
    for (job, why) in home.missing.iter().filter(|(job, _)| jobs.contains(job)) {
        missing.push(Missing { name: titles(*job)[0].to_owned(), how: format!("not tried: {why}") });
    }
    jobs.retain(|job| home.missing.iter().all(|(other, _)| other != job));
    if jobs.is_empty() {
        return Ok(());
    }
    let counts = Counts { clocks: 0, dynamic: 0, texts: 0, home: true };
    let equip = |bed: &Bed| home.equip(bed);
    let mut entries: Vec<Entry> = Vec::new();
    for (name, program, rules) in field.into_iter().filter(|(name, ..)| names.contains(name)) {
        if program.is_none() && name != OFF && name != OFF_AGAIN {
            continue;
        }
        forget(bench, name)?;
        entries.extend(enter(bench, name, program, &Policy::plain(rules), counts, &equip, missing)?);
    }
    let asked = bench.options.rounds();
    let rounds = if bench.options.quick { asked.min(QUICK_ROUNDS) } else { rounds(asked, 20) };
    let guard = entries.iter().find(|entry| entry.name == PALISADE).and_then(|entry| entry.guard.as_ref());
    let contenders: Vec<Contender<'_>> = entries.iter().map(Entry::contender).collect();
    for job in jobs {
        let [whole, work] = titles(job);
        let figures = [("each", whole), (WORK, work)];
        let scenario = Scenario { work: Work::Job(job), reading: Reading::Said(&figures), rounds };
        let before = guard.map(Guard::asked);
        for mut table in race(bench, &contenders, &scenario, &ANYWHERE)? {
            table.scale = Scale::Milliseconds;
            table.goals = goals::of(&table, &mut bench.random);
            if table.workload == whole {
                let each = guard.zip(before).map(|(guard, before)| {
                    guard.asked().saturating_sub(before) as f64 / (rounds + WARM_UP) as f64
                });
                table.goals.extend(each.map(questions));
            }
            bench.keep(table)?;
        }
    }
    Ok(())
}

fn questions(each: f64) -> Goal {
    Goal {
        what: format!("{PALISADE}: questions in one run"),
        unit: Unit::Count,
        bound: Bound::AtMost,
        wanted: None,
        seen: Some(Estimate { median: each, low: each, high: each, single: true }),
        published: None,
    }
}
