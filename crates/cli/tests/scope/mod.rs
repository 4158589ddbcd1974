// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scopes with a daemon that runs: each line of `scopes.list`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod depths;
mod profiles;
mod surroundings;
mod users;
mod verdicts;
pub(crate) mod world;

use depths::*;
use palisade_acceptance::case::data_directory;
use palisade_acceptance::feature::Features;
use profiles::*;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Instant;
use surroundings::*;
use users::*;
use verdicts::*;

macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as fn())),*] };
}

const TESTS: &[(&str, fn())] = tests![
    one_level_and_ancestry,
    ancestry_and_inheritance,
    control_group,
    daemons_stay_marked,
    up,
    killed_before_the_first_instruction,
    refused_or_killed,
    warned,
    event_with_its_parent,
    chains,
    rare_calls,
    prompt_and_audit,
    session,
    strict,
    denied_name_elsewhere,
    switching,
    reload,
    users_apart,
    root_only,
    bad_marks,
    no_way_out,
    outlives,
    killed_and_started,
    cleared,
    without_rights,
    without_pins,
    clients,
    slow_readers,
    many_at_once,
    too_many,
    full_buffer,
    exit_codes,
];

/// `PALISADE_LINE` in the environment selects by the test's name.
#[test]
fn every_line() {
    let features = Features::find(&data_directory()).unwrap_or_else(|error| panic!("{error}"));
    let lines: Vec<[&str; 3]> = include_str!("scopes.list")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            fields.try_into().unwrap_or_else(|_| panic!("not a line of the list: {line}"))
        })
        .collect();
    let named: BTreeSet<&str> = lines.iter().map(|line| line[1]).collect();
    assert_eq!(named, TESTS.iter().map(|test| test.0).collect(), "lines and tests must name each other");
    let only = std::env::var("PALISADE_LINE").unwrap_or_default();
    let left = Mutex::new(lines.iter().filter(|line| line[1].contains(&only)).collect::<Vec<_>>());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some([what, name, needs]) = left.lock().unwrap().pop() else { return };
                    if let Some(missing) = needs.split(',').find(|need| !features.has(need.trim())) {
                        println!("not tried  {what}: no {missing} here");
                        continue;
                    }
                    let began = Instant::now();
                    let test = TESTS.iter().find(|test| test.0 == *name).unwrap().1;
                    let shown = catch_unwind(AssertUnwindSafe(test)).is_ok();
                    println!(
                        "{:10} {what} ({name}, {} ms)",
                        if shown { "shown" } else { "NOT SHOWN" },
                        began.elapsed().as_millis()
                    );
                    if !shown {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
}
