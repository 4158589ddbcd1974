// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the suite `agents` as a user runs it. No time is asserted.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the suite with the peers in `peers` and the system's programs.
fn bench(peers: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_palisade-bench"))
        .args(["agents", "--gap", "0", "--seed", "3", "--json"])
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", peers.display()))
        .output()
        .unwrap()
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(document: &Value) -> Vec<&Value> {
    document["results"].as_array().unwrap().iter().map(|result| &result["palisade"]).collect()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn peers_are_run_if_they_are_here_and_named_if_not() {
    let (base, peers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let greywall = peers.path().join("greywall");
    // A fake peer that runs everything and isolates nothing.
    fs::write(&greywall, "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n").unwrap();
    fs::set_permissions(&greywall, fs::Permissions::from_mode(0o755)).unwrap();
    let directory = base.path().to_str().unwrap();
    let output = bench(
        peers.path(),
        &[
            "--runs",
            "2",
            "--directory",
            directory,
            "--binary",
            "/no/such/palisade",
            "--filter",
            "^(Spawn-only/true|Network .local./curl)/",
        ],
    );
    let document = document(&output);
    let rows = rows(&document);
    for workload in ["true", "curl"] {
        let found: Vec<_> = rows.iter().filter(|row| row["workload"] == workload).collect();
        if workload == "curl" && found.is_empty() {
            // The peer isn't installed.
            continue;
        }
        for row in &found {
            let name = row["name"].as_str().unwrap();
            assert_eq!(row["valid"], name.starts_with("plain"), "{row}");
            if name.starts_with("greywall") {
                assert!(row["failures"][0].as_str().unwrap().contains("does not isolate"), "{row}");
            }
        }
        assert!(found.iter().any(|row| row["name"] == "greywall -m"), "{found:?}");
    }
    let missing: Vec<&str> = document["palisade"]["not_measured"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    for name in ["fence", "sandbox-runtime", "palisade --net none", "warm launch"] {
        assert!(missing.contains(&name), "{missing:?}");
    }
    assert!(is_empty(base.path()));
}

/// Uses the palisade of `PALISADE_BIN`; without it the test does nothing.
#[test]
fn workloads_parts_and_the_network_are_measured() {
    let Some(palisade) = std::env::var_os("PALISADE_BIN").map(PathBuf::from).filter(|path| path.is_file())
    else {
        return;
    };
    // Not in /tmp, which some sandboxes replace by an empty directory, and not in a repository, because sandboxes show all of
    // it.
    let base = tempfile::tempdir_in("/var/tmp").unwrap();
    let peers = tempfile::tempdir().unwrap();
    let output = bench(
        peers.path(),
        &[
            "--runs",
            "2",
            "--connections",
            "20",
            "--directory",
            base.path().to_str().unwrap(),
            "--binary",
            palisade.to_str().unwrap(),
        ],
    );
    let document = document(&output);
    let rows = rows(&document);
    for row in &rows {
        assert_eq!(row["valid"], true, "{row}");
    }
    let categories: Vec<&str> = rows.iter().filter_map(|row| row["category"].as_str()).collect();
    for category in ["Spawn-only", "FS-heavy"] {
        assert!(categories.contains(&category), "{categories:?}");
    }
    let goals = document["palisade"]["goals"].as_array().unwrap();
    for (what, unit) in [
        ("one call in a live sandbox", "microseconds"),
        ("palisade, by name: added", "microseconds"),
        ("palisade, by name: rate", "mebibytes-per-second"),
        ("palisade, by name: the sandbox's processor time a GiB", "work-per-gibibyte"),
        ("palisade, by name: memory a connection, outside kernel buffers", "bytes"),
        ("palisade, by name: less the same connection again inside", "seconds"),
    ] {
        let goal = goals.iter().find(|goal| goal["what"] == what).unwrap();
        assert!(goal["unit"] == unit && goal["seen"]["median"].is_number(), "{goal}");
    }
    assert!(is_empty(base.path()));
}
