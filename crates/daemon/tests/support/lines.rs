// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of what is to be shown, a line each: `what | the test that shows it | what the machine must have`. A line
//! whose test isn't there or did not run fails, and so does a test that no line names.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A test and its name.
pub type Test = (&'static str, fn());

/// The tests of a file, by their names.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as fn())),*] };
}

/// Prints at once, whether the test fails or not.
pub fn tell(line: &str) {
    let _nobody_reads = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

/// Runs the test of each line, some at once. `PALISADE_LINE` in the environment selects by the test's name.
pub fn run(table: &'static str, tests: &[Test], at_once: usize) {
    let lines: Vec<[&str; 3]> = table
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            fields.try_into().unwrap_or_else(|_| panic!("not a line of the table: {line}"))
        })
        .collect();
    let named: BTreeSet<&str> = lines.iter().map(|line| line[1]).collect();
    let there: BTreeSet<&str> = tests.iter().map(|test| test.0).collect();
    assert_eq!(named, there, "lines and tests must name each other");
    let only = std::env::var("PALISADE_LINE").unwrap_or_default();
    let left = Mutex::new(tests.iter().filter(|test| test.0.contains(&only)).collect::<Vec<_>>());
    let results: Mutex<Vec<(&str, Result<Duration, ()>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    let Some((name, test)) = next else { return };
                    let began = Instant::now();
                    let needs =
                        lines.iter().filter(|line| line[1] == *name).flat_map(|line| line[2].split(','));
                    if let Some(missing) =
                        needs.map(str::trim).find(|need| !need.is_empty() && !super::has(need))
                    {
                        tell(&format!("not tried: {name}: no {missing} here"));
                        continue;
                    }
                    let result = catch_unwind(AssertUnwindSafe(test)).map(|()| began.elapsed()).map_err(drop);
                    let word = if result.is_ok() { "ok" } else { "FAILED" };
                    tell(&format!("{word}: {name}: {} ms", began.elapsed().as_millis()));
                    results.lock().unwrap().push((name, result));
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    for [what, name, needs] in &lines {
        let word = match results.iter().find(|(of, _)| of == name) {
            Some((_, Ok(_))) => "shown",
            Some((_, Err(()))) => "NOT SHOWN",
            None => "not tried",
        };
        tell(&format!(
            "{word:10} {what}{}",
            if needs.is_empty() { String::new() } else { format!(" ({needs})") }
        ));
    }
    let failed: Vec<&str> =
        results.iter().filter(|(_, result)| result.is_err()).map(|(name, _)| *name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
