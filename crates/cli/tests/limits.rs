// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the limits of what a command can make Palisade record: a loop inside doesn't increase the memory used outside, and
//! the store stays small.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use crate::support::{Place, eventually, everybody, job, ordinary};
use std::process::Stdio;

/// A loop, in Python; `turns` times, with a mark when a third of it and all of it is done. Then it waits.
fn looping(body: &str, turns: u32) -> String {
    format!(
        "import os, time\nfor turn in range({turns}):\n    {body}\n    if turn == {turns} // 3: open('third', 'w')\n\
         open('all', 'w')\ntime.sleep(600)\n"
    )
}

/// How many kilobytes a process has in memory.
fn resident(process: u32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// By how much launcher and broker have grown in the last two thirds of a loop.
fn growth(place: &Place, body: &str, turns: u32) -> [i64; 2] {
    let mut palisade = place.palisade(&["--quiet"], &["/usr/bin/python3", "-ISc", &looping(body, turns)]);
    let mut child = palisade.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let look = |mark: &str| {
        // Longer than one wait lasts: the loop is long.
        assert!((0..20).any(|_| eventually(|| place.work.join(mark).exists())), "{body}");
        let broker = job::below(child.id(), "palisade-broker").unwrap();
        [child.id(), broker.as_raw_pid().cast_unsigned()].map(resident)
    };
    let (before, after) = (look("third"), look("all"));
    child.kill().unwrap();
    child.wait().unwrap();
    place.assert_all_dead();
    [after[0] - before[0], after[1] - before[1]]
}

/// A record of one turn takes more than sixty bytes, so keeping one for each turn would show.
#[test]
fn a_loop_takes_no_memory_outside() {
    const TURNS: u32 = 20_000;
    let [launcher, broker] = growth(&ordinary(), "os.mkdir('.git'); os.rmdir('.git')", TURNS);
    assert!(launcher < 400 && broker < 400, "launcher {launcher} kB, broker {broker} kB");
}

#[test]
fn a_loop_of_refusals_leaves_little_in_the_store() {
    const TURNS: usize = 20_000;
    let attack = format!(
        "import os\nfor turn in range({TURNS}):\n    try: os.mkdir('.vscode')\n    except PermissionError: continue\n    raise SystemExit(1)"
    );
    for place in everybody() {
        let begun = std::time::Instant::now();
        let run = place.run(&["--quiet"], &["/usr/bin/python3", "-ISc", &attack]);
        assert_eq!(run.code, 0, "{run:?}");
        let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
        let mut watch = place.command(place.binary());
        let rows = job::finish(watch.args(["watch", "--all", "--no-follow", "--json"])).out.lines().count();
        assert!((1..=2 * (seconds + 2)).contains(&rows), "{rows} rows in {seconds} s");
        let store = place.home.join(".local/state/palisade/events.sqlite");
        assert!(std::fs::metadata(&store).unwrap().len() < 1 << 20);
    }
}

#[test]
fn many_repositories_are_counted_and_some_named() {
    for place in everybody() {
        let made = place.run(
            &[],
            &[
                "/usr/bin/python3",
                "-ISc",
                "import os\nfor number in range(1100): os.makedirs(f'r{number}/.git')",
            ],
        );
        assert_eq!(
            (made.code, made.err.matches("a repository was made inside").count()),
            (0, 20),
            "{made:?}"
        );
        assert!(made.err.contains("and at least 980 more that git would use as repositories"), "{made:?}");
    }
}
