// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the suite `guard` as root runs it. No time is asserted.
//!
//! `PALISADE_TEST_HAS` declares the machine's features. Where `fanotify` is declared, failing to measure is an error.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

fn bench(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-bench"));
    command.args(["guard", "--gap", "0", "--seed", "3", "--files", "60", "--window", "0.01", "--directory"]);
    command.arg(directory).args(arguments);
    command
}

/// Whether the suite can run here.
fn here() -> bool {
    let declared = std::env::var("PALISADE_TEST_HAS")
        .is_ok_and(|has| has.split(',').any(|feature| feature.trim() == "fanotify"));
    assert!(geteuid().is_root() || !declared, "fanotify is declared, and only root has it");
    geteuid().is_root() && cfg!(target_arch = "x86_64")
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn nothing_is_left(directory: &Path) {
    assert!(fs::read_dir(directory).unwrap().next().is_none());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&*directory.to_string_lossy()), "{mounts}");
}

#[test]
fn who_is_not_root_is_told_so() {
    let base = tempfile::tempdir().unwrap();
    let mut asked = bench(base.path(), &["--quick"]);
    if geteuid().is_root() {
        // In a user namespace that maps nobody, root is nobody, too.
        let mut as_nobody = Command::new("unshare");
        as_nobody.arg("--user").arg(asked.get_program()).args(asked.get_args());
        asked = as_nobody;
    }
    let output = asked.env_remove("PALISADE_TEST_HAS").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("measured by root only"), "{said}");
    nothing_is_left(base.path());
}

#[test]
fn scenarios_are_measured_and_what_is_missing_is_named() {
    if !here() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    // The last test covers work in a home.
    let filter = ["--filter", "^(one program|many programs|open.close)"];
    let output = bench(base.path(), &["--runs", "2", "--json", "--daemon", "/no/such/palisaded"])
        .args(filter)
        .output()
        .unwrap();
    let document = document(&output);
    let rows: Vec<&Value> =
        document["results"].as_array().unwrap().iter().map(|result| &result["palisade"]).collect();
    let of = |title: &str| -> Vec<&&Value> { rows.iter().filter(|row| row["workload"] == title).collect() };
    for title in [
        "one program, call",
        "one program, wall",
        "many programs, first pass, call",
        "many programs, second pass, call",
        "open+close, first touch",
        "open+close, steady",
        "open+close in a window",
        "one program, call, no daemon runs",
    ] {
        let rows = of(title);
        assert!(rows.len() >= 2, "{title}");
        for row in rows {
            assert_eq!(row["valid"], true, "{row}");
        }
    }
    let missing: Vec<&str> = document["palisade"]["not_measured"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert!(missing.contains(&"palisade"), "{missing:?}");
    let fapolicyd = Path::new("/usr/sbin/fapolicyd").exists();
    assert_eq!(of("one program, call").iter().any(|row| row["name"] == "fapolicyd"), fapolicyd);
    assert_eq!(missing.contains(&"fapolicyd"), !fapolicyd);
    let goals = document["palisade"]["goals"].as_array().unwrap();
    assert!(
        goals.iter().any(|goal| goal["what"] == "off: opens in 60 s" && goal["published"] == 29_973_669.0)
    );
    nothing_is_left(base.path());
}

/// Uses the palisaded of `PALISADED_BIN`; without it the test does nothing.
#[test]
fn palisaded_is_measured_enforcing() {
    let Some(daemon) = std::env::var("PALISADED_BIN").ok().filter(|_| here()) else { return };
    let base = tempfile::tempdir().unwrap();
    let filter = ["--filter", "^(one program, call|open.close, steady)/"];
    let output =
        bench(base.path(), &["--runs", "2", "--json", "--daemon", &daemon]).args(filter).output().unwrap();
    let document = document(&output);
    for name in ["palisade", "palisade, allow all first", "palisade --ask-always"] {
        let rows: Vec<&Value> = document["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|result| &result["palisade"])
            .filter(|row| row["name"] == name)
            .collect();
        assert!(rows.len() >= 2 && rows.iter().all(|row| row["valid"] == true), "{name}: {rows:?}");
    }
    nothing_is_left(base.path());
}

/// The built files must exist, or the report must say why nothing was tried.
#[test]
fn a_home_is_worked_in() {
    if !here() {
        return;
    }
    let daemon = std::env::var("PALISADED_BIN").unwrap_or_else(|_| "/no/such/palisaded".to_owned());
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    // At least one thing must be measured.
    let more = "in a home|^open.close, steady/off";
    for (base, filter, reachable) in [(open.path(), "in a home", true), (closed.path(), more, false)] {
        let arguments = ["--runs", "1", "--quick", "--json", "--filter", filter, "--daemon", &daemon];
        let document = document(&bench(base, &arguments).output().unwrap());
        for title in ["cargo build in a home", "npm ci in a home"] {
            let rows = document["results"].as_array().unwrap().iter().map(|result| &result["palisade"]);
            let rows: Vec<&Value> = rows.filter(|row| row["workload"] == title).collect();
            let mut missing = document["palisade"]["not_measured"].as_array().unwrap().iter();
            let missing = missing.find(|row| row["name"] == title).map(|row| row["how"].as_str().unwrap());
            match missing {
                Some(why) => assert!(rows.is_empty() && why.starts_with("not tried: "), "{title}: {why}"),
                None => assert!(
                    reachable && rows.len() >= 2 && rows.iter().all(|row| row["valid"] == true),
                    "{rows:?}"
                ),
            }
        }
        nothing_is_left(base);
    }
}

#[test]
fn a_signal_ends_it_with_nothing_left_behind() {
    if !here() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mut child = bench(base.path(), &["--runs", "100000"]).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while fs::read_dir(base.path())
        .unwrap()
        .flatten()
        .all(|session| !session.path().join("beds/off").exists())
    {
        assert!(start.elapsed() < Duration::from_secs(30), "it never began");
        sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    nothing_is_left(base.path());
}
