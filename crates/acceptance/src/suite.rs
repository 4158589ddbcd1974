// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs all cases for one user: the control of each case once, then each tool.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};

use crate::case::{Case, Who};
use crate::feature::Features;
use crate::patience::crowd;
use crate::person::Person;
use crate::report::{Entry, Report};
use crate::selection::Selection;
use crate::shared::Shared;
use crate::tool::Tool;
use crate::trial::{Outcome, Stage, try_case};

/// Workers for each core: most cases start processes and wait for them, some wait for the clock.
const WORKERS_PER_CORE: usize = 2;

/// Locked while cases run: shared by cases that may run together, exclusive by one that must be alone. It is a directory that
/// runs in other mount namespaces have, too. A lock file of our own would stay behind.
const LOCK: &str = "/";

/// Which half of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Those that may run at the same time as others.
    Together,
    /// Those that must be the only ones on the machine.
    Alone,
}

/// Runs every selected case of one user and one half: its control once, and then each of `tools` that it is meant for.
///
/// # Errors
/// What kept it from running at all, in words.
pub fn run_person(
    cases: &[Case],
    features: &Features,
    data: &Path,
    tools: &[Tool],
    who: Who,
    company: Company,
    selection: &Selection,
) -> Result<Report, String> {
    let label = match (who, company) {
        (Who::Root, Company::Together) => "r",
        (Who::Root, Company::Alone) => "ra",
        (_, Company::Together) => "u",
        (_, Company::Alone) => "ua",
    };
    let concerns = |case: &&Case| {
        case.who.covers(who)
            && case.alone == (company == Company::Alone)
            && case.tools.iter().any(|name| tools.iter().any(|tool| tool.name() == name))
            && selection.has(case)
    };
    let mine: Vec<&Case> = cases.iter().filter(concerns).collect();
    if mine.is_empty() {
        return Ok(Report::new(who, company, tools, Vec::new()));
    }
    let person = match who {
        Who::Root => Person::root(label),
        _ if features.has("root") => Person::ordinary(label),
        _ => Person::myself(label),
    }
    .map_err(|error| format!("{error:?}"))?;
    let place = Shared::new(data, tools, label)?;
    let read = |name: &str| {
        std::fs::read_to_string(place.data.join(name)).map_err(|error| format!("read {name}: {error}"))
    };
    let (python, shell) = (read("prelude.py")?, read("prelude.sh")?);
    let stage = Stage { person: &person, data: &place.data, python: &python, shell: &shell };
    let one = |case: &Case| -> Vec<Entry> {
        let mut tools: Vec<&Tool> = place.tools.iter().collect();
        tools.retain(|tool| case.tools.iter().any(|name| name == tool.name()));
        let began = Instant::now();
        let all = |outcome: Outcome| vec![outcome; tools.len()];
        let outcomes = match features.lacks(&case.needs) {
            Ok(None) if !features.has("root") && case.is_prepared_by_root() => {
                all(Outcome::NotTried("root".into()))
            }
            Ok(None) => try_case(case, &stage, &tools),
            Ok(Some(feature)) => all(Outcome::NotTried(feature.to_owned())),
            Err(error) => all(Outcome::NoResult(error.to_string())),
        };
        let took = began.elapsed();
        let entry = |(tool, outcome): (&&Tool, Outcome)| Entry {
            case: case.name.clone(),
            tool: tool.name(),
            outcome,
            first: None,
            took,
        };
        tools.iter().zip(outcomes).map(entry).collect()
    };

    let lock_file = File::open(LOCK).map_err(|error| format!("open {LOCK}: {error}"))?;
    let lock = |operation: FlockOperation| {
        flock(&lock_file, operation).map_err(|error| format!("lock {LOCK}: {error}"))
    };
    let mut entries = match company {
        Company::Together => {
            lock(FlockOperation::LockShared)?;
            at_once(&mine, &one)
        }
        Company::Alone => {
            lock(FlockOperation::LockExclusive)?;
            mine.iter().flat_map(|case| one(case)).collect()
        }
    };
    if entries.iter().any(|entry| entry.outcome.says_nothing()) {
        lock(FlockOperation::LockExclusive)?;
        repeat_alone(&mut entries, &mine, &one);
    }
    let seen = |case: &&&Case| entries.iter().any(|entry| entry.case == case.name);
    if mine.iter().filter(seen).count() != mine.len() {
        return Err(format!("{} cases were selected, not all have a result", mine.len()));
    }
    entries.sort_by(|left, right| (&left.case, left.tool).cmp(&(&right.case, right.tool)));
    Ok(Report::new(who, company, tools, entries))
}

/// Several cases at a time.
fn at_once(cases: &[&Case], one: &(impl Fn(&Case) -> Vec<Entry> + Sync)) -> Vec<Entry> {
    let workers = WORKERS_PER_CORE * std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // The longest first: none of them is left for a single worker at the end.
    let mut sorted = cases.to_vec();
    sorted.sort_by_key(|case| std::cmp::Reverse(case.limit));
    let queue = Mutex::new(VecDeque::from(sorted));
    let entries = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(case) = next else { break };
                    let more = one(case);
                    entries.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
                }
            });
        }
    });
    entries.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Repeats the cases without a result, one after another: the machine may have been too busy for them.
fn repeat_alone(entries: &mut [Entry], cases: &[&Case], one: &impl Fn(&Case) -> Vec<Entry>) {
    for case in cases {
        if !entries.iter().any(|entry| entry.case == case.name && entry.outcome.says_nothing()) {
            continue;
        }
        let busy = crowd();
        for mut again in one(case) {
            let old = entries.iter_mut().find(|old| old.case == again.case && old.tool == again.tool);
            if let Some(old) = old
                && old.outcome.says_nothing()
            {
                again.first =
                    Some(format!("{}; repeated beside {busy:.1} processes a core", old.outcome.words()));
                *old = again;
            }
        }
    }
}
