// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the suite `shell` with a program that stands in for the proxy. No time is asserted.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn bench(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-bench"));
    command.args(["shell", "--seed", "3", "--runs", "3", "--directory"]).arg(directory).args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}

/// A fake proxy: it has the proxy's name, runs `first`, and then runs the shell alone.
fn proxy(directory: &Path, first: &str) -> PathBuf {
    let path = directory.join("palisade");
    std::fs::write(
        &path,
        format!("#!/bin/sh\n[ \"$2\" = init ] && exit\n{first}\nexec /bin/bash --norc -i\n"),
    )
    .unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn throughput_is_a_ratio_of_pairs() {
    let base = tempfile::tempdir().unwrap();
    let program = proxy(base.path(), "");
    let said = base.path().join("said");
    let output = bench(
        base.path(),
        &[
            "--filter",
            "pty_throughput",
            "--binary",
            program.to_str().unwrap(),
            "--json",
            "--output",
            said.to_str().unwrap(),
        ],
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows: Vec<&Value> =
        document["results"].as_array().unwrap().iter().map(|result| &result["palisade"]).collect();
    assert_eq!(rows.len(), 5, "{rows:?}");
    for row in rows {
        assert_eq!((&row["workload"], &row["valid"]), (&"pty_throughput".into(), &true.into()), "{row}");
        assert_eq!(row["rounds"].as_array().unwrap().len(), 3);
        assert!(row["wall"]["median"].as_f64().unwrap() > 0.0);
    }
    let goals = document["palisade"]["goals"].as_array().unwrap();
    let [whole, bare, relay, ruled, alone, with] = &goals[..] else { panic!("{goals:?}") };
    assert_eq!((&whole["wanted"], &whole["unit"]), (&0.95.into(), &"ratio".into()), "{whole}");
    assert!([bare, relay, ruled].iter().all(|goal| goal["wanted"] == Value::Null));
    for goal in [whole, bare, relay, ruled, alone, with] {
        let [low, median, high] = ["low", "median", "high"].map(|name| goal["seen"][name].as_f64().unwrap());
        assert!(0.0 < low && low <= median && median <= high, "{goal}");
    }
    // The text for people must have it, too.
    let text = std::fs::read_to_string(said).unwrap();
    assert!(text.contains("pty_throughput") && text.contains("throughput, of that without it"), "{text}");
    assert!(text.contains("≥ 0.95×") && !text.contains("dispatch_input"), "{text}");
}

#[test]
fn what_fails_or_is_cut_is_no_figure() {
    let base = tempfile::tempdir().unwrap();
    // In its terminal, cat fails or prints less than it should.
    for (first, wanted) in [
        ("mkdir bin; printf '#!/bin/sh\\nexit 3\\n' > bin/cat", "ended with code 3 in palisade shell"),
        ("mkdir bin; printf '#!/bin/sh\\nhead -c 999 text\\n' > bin/cat", "printed only"),
    ] {
        let put = format!("{first}\nchmod +x bin/cat\nPATH=$PWD/bin:$PATH");
        let program = proxy(base.path(), &put);
        let output = bench(
            base.path(),
            &["--filter", "pty_throughput", "--binary", program.to_str().unwrap(), "--json"],
        );
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains(wanted), "{words}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn without_the_program_it_is_said_how_to_build_it() {
    let base = tempfile::tempdir().unwrap();
    let output = bench(
        base.path(),
        &["--filter", "keymap_match|pty_throughput", "--binary", "/no/such/palisade", "--json"],
    );
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = document.to_string();
    assert!(
        all.contains("palisade shell in pty_throughput") && all.contains("cargo build --release"),
        "{all}"
    );
    assert_eq!(document["results"].as_array().unwrap().len(), 1, "{all}");
}
