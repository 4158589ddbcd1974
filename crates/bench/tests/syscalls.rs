// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the suite `syscalls` as a user runs it. No time is asserted, only that each mechanism did what its row says.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use serde_json::Value;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-bench"));
    command.args(["syscalls", "--gap", "0", "--seed", "3", "--binary", "/no/such/palisade"]);
    command.args(["--runs", "1"]).args(arguments).output().unwrap()
}

#[test]
fn mechanisms_do_what_their_rows_say() {
    let output =
        bench(&["--json", "--filter", "seed's test|mechanisms by themselves|own process|compile and load"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let missing = document["palisade"]["not_measured"].to_string();
    assert!(missing.contains("palisade"), "{missing}");
    let rows: Vec<&Value> =
        document["results"].as_array().unwrap().iter().map(|result| &result["palisade"]).collect();
    let no_rulers = missing.contains("mechanisms by themselves");
    for name in [
        "filtered",
        "through a trap",
        "filter, 300 numbers in a row, an argument",
        "trap, answered",
        "dispatch, answered",
        "dispatch, from the range that it allows",
        "LD_PRELOAD, answered",
        "LD_PRELOAD, passed on",
        "notification",
        "notification, one processor",
        "ptrace, PTRACE_SYSEMU",
        "ptrace, PTRACE_SYSCALL",
        "notification, ADDFD that sends",
        "notification, ADDFD and then sent",
        "compiled before (as in a plan)",
        "compiled before, two answers among them",
    ] {
        let row = rows.iter().find(|row| row["name"] == name);
        assert!(row.is_some() || no_rulers, "{name}: {missing}");
        assert!(row.is_none_or(|row| row["valid"] == true), "{row:?}");
    }
}

#[test]
fn a_server_is_put_under_load() {
    let output = bench(&["--json", "--filter", "server under load"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if !["redis-server", "redis-benchmark", "redis-cli"].iter().all(|program| is_on_path(program)) {
        eprintln!("not tried: no redis here");
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &document["results"][0]["palisade"];
    assert_eq!((&row["name"], &row["valid"]), (&"native".into(), &true.into()), "{row}");
    // There are also rows by processor time. It is above zero and below the wall time.
    let results = document["results"].as_array().unwrap();
    let of_processor = |result: &&Value| {
        result["palisade"]["workload"].as_str().unwrap().ends_with("processor time")
            && result["palisade"]["name"] == "native"
    };
    let processor = results.iter().find(of_processor).unwrap();
    let (all, own) = (results[0]["median"].as_f64().unwrap(), processor["median"].as_f64().unwrap());
    assert!(own > 0.0 && own < all, "{own} of {all}");
    let parts = processor["user"].as_f64().unwrap() + processor["system"].as_f64().unwrap();
    assert!((parts - own).abs() < 1e-9, "{processor}");
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}

#[test]
fn the_text_says_what_was_wanted_and_whether_it_is_reached() {
    let output = bench(&["--filter", "mechanisms by themselves .open and close./Landlock"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    if text.contains("no C compiler") {
        return;
    }
    assert!(text.contains("Landlock / native") && text.contains("\u{2264} 1.25"), "{text}");
    assert!(text.contains("load "), "{text}");
}
