// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the command line of `palisade-bench`. No time is asserted.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_palisade-bench")).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn lists_suites_and_how_to_get_what_is_missing() {
    let output = bench(&["list"]);
    assert!(output.status.success());
    let text = stdout(&output);
    for part in ["launch", "aa", "bubblewrap", "palisade"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[test]
fn launchers_that_do_not_do_it_are_failed_rows_and_nothing_is_left_behind() {
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().to_str().unwrap();
    let output = bench(&[
        "launch",
        "--runs",
        "4",
        "--gap",
        "0",
        "--directory",
        directory,
        "--filter",
        "^true/(honest|fake|broken|absent)$",
        "--json",
        "--seed",
        "5",
        "--with",
        "honest=/usr/bin/env",
        "--with",
        "fake=/bin/true",
        "--with",
        "broken=/bin/sh -c 'echo out of order >&2; exit 4'",
        "--with",
        "absent=/no/such/launcher {}",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let row = |name: &str| -> Value {
        let results = document["results"].as_array().unwrap();
        results.iter().find(|result| result["palisade"]["name"] == name).unwrap().clone()
    };
    assert_eq!(row("honest")["times"].as_array().unwrap().len(), 4);
    assert_eq!(row("honest")["palisade"]["valid"], true);
    for (name, said) in
        [("fake", "was not run"), ("broken", "exit code 4: out of order"), ("absent", "not started")]
    {
        let row = row(name);
        assert!(row["median"].is_null() && row["times"].as_array().unwrap().is_empty(), "{row}");
        assert!(row["palisade"]["failures"][0].as_str().unwrap().contains(said), "{row}");
    }
    assert_eq!(document["palisade"]["seed"], 5);
    assert!(document["palisade"]["environment"]["kernel"].is_string());
    assert!(is_empty(base.path()));
}

#[test]
fn results_can_be_written_drawn_and_compared() {
    let base = tempfile::tempdir().unwrap();
    let path = |name: &str| base.path().join(name).to_str().unwrap().to_owned();
    for name in ["a.json", "b.json"] {
        let (output, svg) = (path(name), path("plot.svg"));
        let ran =
            bench(&["aa", "--runs", "3", "--directory", &path("work"), "--output", &output, "--svg", &svg]);
        assert!(matches!(ran.status.code(), Some(0 | 1)), "{ran:?}");
    }
    let svg = fs::read_to_string(path("plot.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let compared = bench(&["compare", &path("a.json"), &path("b.json")]);
    let text = stdout(&compared);
    assert!(
        compared.status.success() && text.contains("plain again (A/A)") && text.contains("caution:"),
        "{text}"
    );
}

#[test]
fn a_signal_ends_it_with_nothing_left_behind() {
    let base = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_palisade-bench"))
        .args(["aa", "--runs", "100000", "--directory"])
        .arg(base.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while is_empty(base.path()) {
        assert!(start.elapsed() < Duration::from_secs(30), "it never began");
        sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(is_empty(base.path()));
}

#[test]
fn a_filter_that_matches_nothing_is_an_error() {
    let output = bench(&["launch", "--filter", "no such row"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing matches `--filter no such row`"));
}
