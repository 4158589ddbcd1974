// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the suite `scopes` as root runs it, with the program that measures. No time is asserted.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

/// The program that measures. It is built beside the suite.
fn measurer() -> PathBuf {
    let suite = Path::new(env!("CARGO_BIN_EXE_palisade-bench"));
    let mut build = Command::new(env!("CARGO"));
    // Use the options of the tests' build, so that what is built already is used.
    build.args(["build", "--offline", "-q", "--workspace", "--all-features", "--example", "scopes"]);
    if suite.parent().is_some_and(|directory| directory.ends_with("release")) {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success());
    let found = suite.with_file_name("examples").join("scopes");
    // If the suite is built for another target, the measuring program is in another directory: it must use this machine's C
    // library.
    if found.exists() { found } else { suite.ancestors().nth(3).unwrap().join("debug/examples/scopes") }
}

fn bench(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-bench"));
    command.args(["scopes", "--seed", "3", "--commands", "20", "--directory"]).arg(directory).args(arguments);
    command.stdin(Stdio::null());
    command
}

/// Whether the suite can run here: `PALISADE_TEST_HAS` declares the machine's features.
fn here() -> bool {
    let declared = std::env::var("PALISADE_TEST_HAS")
        .is_ok_and(|has| has.split(',').any(|feature| feature.trim() == "scopes"));
    let can = geteuid().is_root() && Path::new("/sys/kernel/btf/vmlinux").exists();
    assert!(can || !declared, "scopes are declared, and can't be measured");
    can
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn depths_are_measured_and_decided_about() {
    if !here() {
        return;
    }
    let (base, measurer) = (tempfile::tempdir().unwrap(), measurer());
    let options = [
        "--runs",
        "80",
        "--json",
        "--filter",
        "^(un)?marked|^watched",
        "--measurer",
        measurer.to_str().unwrap(),
    ];
    let document = document(&bench(base.path(), &options).output().unwrap());
    let rows: Vec<&Value> =
        document["results"].as_array().unwrap().iter().map(|result| &result["palisade"]).collect();
    for (load, count) in [("unmarked", 10), ("marked", 10), ("watched", 9)] {
        let title = format!("{load}, 20 fork+exec a round");
        let of: Vec<_> = rows.iter().filter(|row| row["workload"] == title.as_str()).collect();
        assert_eq!(of.len(), count, "{load}: {of:?}");
        assert!(of.iter().all(|row| row["valid"] == true && row["rounds"].as_array().unwrap().len() == 2));
        assert!(of.iter().all(|row| row["wall"]["median"].as_f64().unwrap() > 0.0), "{of:?}");
    }
    let goals = document["palisade"]["goals"].as_array().unwrap();
    let wanted: Vec<&Value> = goals.iter().filter(|goal| !goal["wanted"].is_null()).collect();
    assert_eq!(wanted.len(), 4, "{wanted:?}");
    assert!(wanted.iter().all(|goal| goal["seen"]["median"].as_f64().unwrap() > 0.0), "{wanted:?}");
    let sections = document["palisade"]["sections"].as_array().unwrap();
    let last = sections.last().unwrap();
    assert_eq!(last["rows"].as_array().unwrap().len(), 3, "{last}");
    assert!(fs::read_dir(base.path()).unwrap().next().is_none());
}

#[test]
fn without_the_measurer_it_says_what_is_missing() {
    let base = tempfile::tempdir().unwrap();
    let output = bench(base.path(), &["--json", "--measurer", "/no/such/program"]).output().unwrap();
    let document = document(&output);
    let missing = document["palisade"]["not_measured"].as_array().unwrap();
    assert_eq!(missing.len(), 3);
    assert!(missing.iter().all(|row| row["how"].as_str().unwrap().contains("cargo build")));
}

#[test]
fn a_measurer_that_fails_or_talks_nonsense_is_an_error() {
    if !geteuid().is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    for (measurer, said) in [("/bin/false", "ended with"), ("/bin/echo", "can't understand a line")] {
        let output = bench(base.path(), &["--measurer", measurer]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && errors.contains(said), "{measurer}: {errors}");
    }
    assert!(fs::read_dir(base.path()).unwrap().next().is_none());
}

#[test]
fn a_signal_ends_it() {
    if !here() {
        return;
    }
    let (base, measurer) = (tempfile::tempdir().unwrap(), measurer());
    let options = ["--runs", "1000000", "--measurer", measurer.to_str().unwrap()];
    let mut child = bench(base.path(), &options).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    // This is its only child while it measures: listing the cases is over soon.
    let measuring = loop {
        let found = fs::read_to_string(&children).unwrap_or_default();
        let pid = found.split_whitespace().next().unwrap_or("none");
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if words.windows(8).any(|words| words == b"--rounds") {
            break pid.to_owned();
        }
        assert!(start.elapsed() < Duration::from_secs(120), "it never began");
        sleep(Duration::from_millis(10));
    };
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!Path::new("/proc").join(measuring).exists(), "the measurer has ended, too");
    assert!(fs::read_dir(base.path()).unwrap().next().is_none());
}
