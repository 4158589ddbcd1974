// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what the bench must not hide: failures of its own rows, peers that do nothing, and the results until an
//! interruption.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-bench"));
    command.arg(arguments[0]).args(["--gap", "0", "--seed", "3"]).args(&arguments[1..]).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn script(path: &Path, text: &str) -> PathBuf {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    path.to_owned()
}

fn row<'d>(document: &'d Value, name: &str) -> &'d Value {
    let results = document["results"].as_array().unwrap();
    let found = results.iter().find(|result| result["palisade"]["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {document}"))
}

#[test]
fn a_row_of_ours_that_fails_makes_the_run_fail() {
    let base = tempfile::tempdir().unwrap();
    // A fake Palisade that runs the command without any wall.
    let open =
        script(&base.path().join("palisade"), "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"");
    let run = |suite: &str, filter: &str| {
        let directory = base.path().join("work");
        bench(&[
            suite,
            "--runs",
            "2",
            "--json",
            "--filter",
            filter,
            "--directory",
            directory.to_str().unwrap(),
        ])
        .args(["--binary", open.to_str().unwrap()])
        .output()
        .unwrap()
    };
    let output = run("launch", "^true/palisade$");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("failed: ") && said.contains("does not isolate"), "{said}");
    // The call doesn't return the answer that Palisade was asked to give.
    let output = run("syscalls", "answered from outside .getpriority./palisade, answered$");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("palisade, answered: the call returned"), "{}", text(&output));
}

/// The peers are found on PATH, like real ones.
#[test]
fn broken_peers_are_reported_as_failed_and_fail_the_run_only_if_that_is_asked_for() {
    let base = tempfile::tempdir().unwrap();
    let programs = base.path().join("bin");
    fs::create_dir(&programs).unwrap();
    for (name, does) in
        [("bwrap", "exit 0"), ("unshare", "echo no >&2; exit 1"), ("nsjail", "exec sleep 1000")]
    {
        script(&programs.join(name), does);
    }
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let run = |more: &[&str]| {
        bench(&["launch", "--runs", "2", "--limit", "1", "--json", "--binary", "/no/such/palisade"])
            .args(["--filter", "^true/(bubblewrap|unshare|nsjail|honest)$", "--directory"])
            .arg(base.path().join("work"))
            .args(more)
            .env("PATH", &path)
            .output()
            .unwrap()
    };
    let output = run(&[]);
    assert!(output.status.success(), "{}", text(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, said) in
        [("bubblewrap", "was not run"), ("unshare", "exit code 1: no"), ("nsjail", "took too long")]
    {
        let row = row(&document, name);
        assert!(row["median"].is_null() && row["palisade"]["valid"] == false, "{row}");
        assert!(row["palisade"]["failures"][0].as_str().unwrap().contains(said), "{row}");
    }
    let required = run(&["--need-peers"]);
    assert_eq!(required.status.code(), Some(1), "{}", text(&required));
    assert!(text(&required).contains("compared with no peer"));
    let compared = run(&["--need-peers", "--with", "honest=/usr/bin/env"]);
    assert!(compared.status.success(), "{}", text(&compared));
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_measured_survives_a_signal() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let base = tempfile::tempdir().unwrap();
        let (work, results) = (base.path().join("work"), base.path().join("results.json"));
        let counter = base.path().join("counter");
        let honest =
            script(&base.path().join("honest"), &format!("echo x >>{}; exec \"$@\"", counter.display()));
        let mut command = bench(&["launch", "--runs", "100000", "--filter", "^true/honest$"]);
        command.args(["--binary", "/no/such/palisade", "--with", &format!("honest={}", honest.display())]);
        command.arg("--output").arg(&results).arg("--directory").arg(&work);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let launches = || fs::read_to_string(&counter).map_or(0, |text| text.lines().count());
        wait_until("it never measured", || launches() >= 20);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains("INTERRUPTED"), "{}", text(&output));
        let document: Value = serde_json::from_slice(&fs::read(&results).unwrap()).unwrap();
        assert_eq!(document["palisade"]["interrupted"], true);
        let row = row(&document, "honest");
        assert!(row["times"].as_array().unwrap().len() >= 10, "{row}");
        assert!(row["median"].is_f64() && row["palisade"]["valid"] == true, "{row}");
        assert_eq!(fs::read_dir(&work).unwrap().count(), 0, "nothing is left behind");
    }
}

#[test]
fn who_is_killed_leaves_the_tables_that_were_complete() {
    let base = tempfile::tempdir().unwrap();
    let (work, results) = (base.path().join("work"), base.path().join("results.json"));
    // The second table is in the file when the third one begins.
    let child = bench(&["aa", "--times", "100000", "--runs", "2", "--output"])
        .arg(&results)
        .arg("--directory")
        .arg(&work)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let read = || -> Option<Value> { serde_json::from_slice(&fs::read(&results).ok()?).ok() };
    let tables = |document: Value| document["results"].as_array().map_or(0, Vec::len) / 2;
    wait_until("it never wrote", || read().map_or(0, tables) >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let document = read().unwrap();
    assert_eq!(document["palisade"]["interrupted"], true);
    assert!(row(&document, "plain")["median"].is_f64());
}

#[test]
fn a_run_that_ends_by_itself_is_not_marked() {
    let base = tempfile::tempdir().unwrap();
    let results = base.path().join("results.json");
    bench(&["aa", "--runs", "2", "--output"])
        .arg(&results)
        .arg("--directory")
        .arg(base.path())
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&fs::read(&results).unwrap()).unwrap();
    assert_eq!(document["palisade"]["interrupted"], false);
}

#[test]
fn one_round_has_no_interval_and_percentiles_are_said() {
    let base = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let output =
            bench(&["aa", "--quick"]).args(more).arg("--directory").arg(base.path()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let one = run(&["--runs", "1"]);
    let plain = one.lines().find(|line| line.starts_with("plain ")).unwrap();
    assert!(one.contains(", 1 rounds") && !plain.contains('['), "{one}");
    let many = run(&["--runs", "9"]);
    let plain = many.lines().find(|line| line.starts_with("plain ")).unwrap();
    assert!(many.contains(", 9 rounds") && plain.contains('['), "{many}");
    assert!(many.contains("p95, p99 ms"), "{many}");
    let document: Value = serde_json::from_str(&run(&["--runs", "9", "--json"])).unwrap();
    let details = &row(&document, "plain")["palisade"];
    let [p90, p95, p99] = ["p90", "p95", "p99"].map(|name| details[name].as_f64().unwrap());
    assert!(p90 <= p95 && p95 <= p99, "{details}");
    let document: Value = serde_json::from_str(&run(&["--runs", "1", "--json"])).unwrap();
    let wall = &row(&document, "plain")["palisade"]["wall"];
    assert!(wall["median"].is_f64() && wall["low"].is_null() && wall["high"].is_null(), "{wall}");
}

#[test]
fn no_plain_command_is_said_to_have_failed_where_there_is_none() {
    let base = tempfile::tempdir().unwrap();
    let output = bench(&["shell", "--runs", "2", "--filter", "keymap_match", "--directory"])
        .arg(base.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        !text(&output).contains("plain command") && !text(&output).contains("NOISY"),
        "{}",
        text(&output)
    );
}

/// Forty comparisons of a command with itself, on the real machine.
#[test]
fn at_most_one_in_twenty_real_comparisons_of_the_same_shows_a_difference() {
    let base = tempfile::tempdir().unwrap();
    let output = bench(&["aa", "--times", "40", "--runs", "20", "--json", "--directory"])
        .arg(base.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let controls = document["palisade"]["controls"].as_array().unwrap();
    assert_eq!(controls.len(), 40);
    let different = controls.iter().filter(|control| control["control"]["differs"] == true).count();
    assert!(different <= 2, "{different} of 40");
}
