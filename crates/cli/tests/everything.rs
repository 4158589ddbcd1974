// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts how many programs of a host run with only the files that Palisade finds (`--view closure`), without a profile.
//! Only programs in `/usr/bin` count that answer `--version` or `--help` when they see the whole system.
//!
//! `./x test soak` tries every program; otherwise one of `EACH`.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, ordinary};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Without `PALISADE_SOAK_ATTEMPTS`.
const EACH: usize = 20;
/// How many of a hundred programs may fail, because they need more than can be found: plugins found by scanning, programs that
/// are started by computed names, Python packages in unusual places.
const MOST_MISSING: usize = 10;

/// Whether a program answers in this view.
fn answers(place: &Place, view: &str, program: &Path, option: &str) -> bool {
    let mut command = place.command("timeout");
    command.args(["-k", "1", "10"]).arg(place.binary()).args(["run", "--quiet", "--view", view, "--"]);
    command.arg(program).arg(option);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

#[test]
fn most_programs_run_with_what_they_are_seen_to_need() {
    let place = ordinary();
    let all = std::env::var_os("PALISADE_SOAK_ATTEMPTS").is_some();
    let mut programs: Vec<_> = std::fs::read_dir("/usr/bin")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
        .filter(|path| path.to_str().is_some())
        .collect();
    programs.sort();
    if !all {
        programs = programs.into_iter().step_by(EACH).collect();
    }
    let next = AtomicUsize::new(0);
    let answered = Mutex::new((0, Vec::new()));
    let work = || {
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(option) =
                ["--version", "--help"].into_iter().find(|option| answers(&place, "system", program, option))
            else {
                continue;
            };
            let inside = answers(&place, "closure", program, option);
            let mut answered = answered.lock().unwrap();
            answered.0 += 1;
            if !inside {
                answered.1.push(program);
            }
        }
    };
    std::thread::scope(|scope| {
        for _thread in 0..2 {
            scope.spawn(work);
        }
    });
    let (tried, missing) = answered.into_inner().unwrap();
    println!(
        "{} programs, {tried} answer with the system in sight, {} of them with their closure",
        programs.len(),
        tried - missing.len()
    );
    println!("not: {missing:?}");
    assert!(tried >= programs.len() / 4, "{tried} of {}", programs.len());
    // Of a sample a few more may be missing by chance.
    let allowed = tried * MOST_MISSING / 100 + if all { 0 } else { 4 };
    assert!(missing.len() <= allowed, "{} of {tried}: {missing:?}", missing.len());
}
