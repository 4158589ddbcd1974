// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that `palisade-bench gate` finds increased costs. The test plants flaws into a copy of the measured program, in
//! front of its first instruction, so that every launch pays for them. No shipped program has a switch for that.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

#[cfg(target_arch = "x86_64")]
#[path = "planted/mod.rs"]
mod planted;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The palisade to test: the given one, else the one that was built with this program.
fn palisade() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_palisade-bench")).with_file_name("palisade");
    let given = std::env::var_os("PALISADE_BIN").map(PathBuf::from);
    let found = given.or(Some(beside)).filter(|path| path.is_file());
    if found.is_none() {
        eprintln!("not tried: there is no palisade; cargo build -p palisade-cli, or PALISADE_BIN=PATH");
    }
    found
}

/// A directory with a baseline.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A copy of `palisade` that runs `code` first. It keeps the name: palisade examines the name by which it was started.
    #[cfg(target_arch = "x86_64")]
    fn planted(&self, palisade: &Path, code: &[u8]) -> PathBuf {
        let planted = self.at("planted").join(palisade.file_name().unwrap());
        fs::create_dir(self.at("planted")).unwrap();
        planted::plant(palisade, &planted, code);
        planted
    }

    fn gate(&self, palisade: &Path, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-bench"));
        command.args(["gate", "--json", "--profile", "test", "--seed", "3", "--gap", "0", "--baseline"]);
        command.arg(self.at("gate.json")).arg("--binary").arg(palisade).args(more);
        command.stdin(Stdio::null()).output().unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The rows of the table with this title: what, now, baseline, more, allowed, verdict.
fn rows(output: &Output, title: &str) -> Vec<Vec<String>> {
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(output)));
    let sections = document["palisade"]["sections"].as_array().unwrap_or_else(|| panic!("{document}"));
    let section = sections.iter().find(|section| section["title"] == title).unwrap();
    serde_json::from_value(section["rows"].clone()).unwrap()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn one_more_stat_in_the_launch_is_caught() {
    let Some(palisade) = palisade() else { return };
    let place = Place::new();
    let renewed = place.gate(&palisade, &["--renew", "--skip-instructions"]);
    assert!(renewed.status.success(), "{}", text(&renewed));
    let again = place.gate(&palisade, &["--skip-instructions"]);
    assert!(again.status.success(), "the same is the same each time: {}", text(&again));
    let planted = place.planted(&palisade, &planted::stat());
    let caught = place.gate(&planted, &["--skip-instructions"]);
    assert_eq!(caught.status.code(), Some(1), "{}", text(&caught));
    let rows = rows(&caught, "counts beside the baseline");
    let row =
        |what: &str| rows.iter().find(|row| row[0].trim() == what).unwrap_or_else(|| panic!("{rows:?}"));
    assert_eq!(
        (row("system calls of a launch")[3].as_str(), row("stat")[3].as_str()),
        ("+1", "+1"),
        "{rows:?}"
    );
    assert_eq!(row("system calls of a launch")[5], "MORE");
}

/// The first process of a launch is stepped through twice: about 15 µs per instruction where each causes a virtual-machine
/// exit.
#[cfg(target_arch = "x86_64")]
#[test]
fn five_percent_more_instructions_in_the_launch_are_caught() {
    let Some(palisade) = palisade() else { return };
    let place = Place::new();
    let renewed = place.gate(&palisade, &["--renew"]);
    assert!(renewed.status.success(), "{}", text(&renewed));
    let counted = &rows(&renewed, "counts beside the baseline");
    let row = counted.iter().find(|row| row[0].starts_with("instructions")).unwrap();
    let instructions: u32 = row[1].parse().unwrap();
    assert!(instructions > 1000, "{row:?}");
    let planted = place.planted(&palisade, &planted::instructions(instructions / 20));
    let caught = place.gate(&planted, &[]);
    assert_eq!(caught.status.code(), Some(1), "{}", text(&caught));
    let rows = rows(&caught, "counts beside the baseline");
    let worse: Vec<&str> = rows.iter().filter(|row| row[5] == "MORE").map(|row| row[0].as_str()).collect();
    assert_eq!(worse, ["instructions of a launch, profile test"], "{rows:?}");
}

#[test]
fn what_was_counted_of_another_profile_is_refused() {
    let palisade = Path::new("/bin/true").canonicalize().unwrap();
    let place = Place::new();
    assert!(place.gate(&palisade, &["--renew", "--skip-instructions"]).status.success());
    // The baseline has no instruction counts for this profile.
    let refused = place.gate(&palisade, &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("can't be compared"), "{}", text(&refused));
}

#[test]
fn without_a_baseline_it_says_how_to_get_one() {
    let Some(palisade) = palisade() else { return };
    let place = Place::new();
    fs::write(place.at("gate.json"), r#"{"schema":1,"allocations_of_1000_keys":0,"launches":[]}"#).unwrap();
    let refused = place.gate(&palisade, &["--skip-instructions"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("gate --renew"), "{}", text(&refused));
}

/// First the earlier palisade is the same program. Then the present one is much slower.
#[cfg(target_arch = "x86_64")]
#[test]
fn times_are_compared_with_an_earlier_palisade() {
    let Some(palisade) = palisade() else { return };
    let place = Place::new();
    let earlier = palisade.to_str().unwrap();
    // Other programs on the machine must not make either of them slower.
    let options = ["--no-counts", "--runs", "20", "--allow", "10", "--earlier", earlier];
    let same = place.gate(&palisade, &options);
    assert!(same.status.success(), "{}", text(&same));
    let planted = place.planted(&palisade, &planted::instructions(1_000_000_000));
    let caught = place.gate(&planted, &options);
    assert_eq!(caught.status.code(), Some(1), "{}", text(&caught));
    assert_eq!(rows(&caught, "now / earlier, by the rounds' ratios")[0][3], "SLOWER");
    // A program that only pretends to launch isn't fast: it fails.
    let fake = place.gate(Path::new("/bin/true"), &options);
    assert_eq!(fake.status.code(), Some(1), "{}", text(&fake));
    assert!(text(&fake).contains("not that of the plain run"), "{}", text(&fake));
}
