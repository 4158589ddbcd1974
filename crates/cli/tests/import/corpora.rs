// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports all profiles that Antimony and firejail ship, if they are installed.

use super::world::World;
use crate::support::has;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What became of the statements of many files.
#[derive(Debug, Default)]
struct Tally {
    files: usize,
    taken: u64,
    approximated: usize,
    left_out: usize,
    not_kept: usize,
    /// The messages about files that can't be imported.
    refused: Vec<String>,
}

/// Imports every file of a directory with a given extension, and has `palisade check` read the results.
fn import_all(from: &str, directory: &Path, ending: &str, feature: bool) -> Tally {
    let option: &[&str] = if feature { &["--feature"] } else { &[] };
    let read_as: &[&str] = if feature { &["--as-feature"] } else { &[] };
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == ending));
    files.sort();
    // A debug build takes a quarter of a second for one of firejail's: then a tenth of its 1200 has to do.
    if files.len() > 1000 && std::env::var_os("PALISADE_BIN").is_none() {
        files = files.into_iter().step_by(10).collect();
    }
    let tally = Mutex::new(Tally { files: files.len(), ..Tally::default() });
    let sum = &tally;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for part in files.chunks(files.len().div_ceil(threads).max(1)) {
            scope.spawn(move || {
                let world = World::new();
                for file in part {
                    let answer = world.import(from, file.to_str().unwrap(), &[option, &["--json"]].concat());
                    if answer.code != 0 {
                        sum.lock().unwrap().refused.push(answer.err);
                        continue;
                    }
                    let report: Value = serde_json::from_str(&answer.out).unwrap();
                    let checked = world.write("foreign/checked.toml", report["text"].as_str().unwrap());
                    let check = world.run(&[&["check", "--layer", "user", &checked], read_as].concat());
                    assert_eq!(check.code, 0, "{}: {check:?}", file.display());
                    let (restricting, other): (Vec<&Value>, _) =
                        report["left_out"].as_array().unwrap().iter().partition(|f| f["restricts"] == true);
                    let mut tally = sum.lock().unwrap();
                    tally.taken += report["taken"].as_u64().unwrap();
                    tally.approximated += report["approximated"].as_array().unwrap().len();
                    tally.left_out += other.len();
                    tally.not_kept += restricting.len();
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    println!("{from} {}: {tally:?}", directory.display());
    assert!(tally.files > 50, "{} is no corpus", directory.display());
    tally
}

#[test]
fn what_firejail_ships_is_imported() {
    if !has("firejail") {
        return;
    }
    let tally = import_all("firejail", Path::new("/etc/firejail"), "profile", false);
    // Only what names files that aren't there.
    assert!(tally.refused.iter().all(|error| error.contains("can't import what")), "{:?}", tally.refused);
    assert!(tally.refused.len() * 50 <= tally.files, "{:?}", tally.refused);
    assert!(tally.not_kept * 50 < usize::try_from(tally.taken).unwrap(), "{tally:?}");
}

#[test]
fn what_antimony_ships_is_imported() {
    if !has("antimony") {
        return;
    }
    let directory = PathBuf::from(std::env::var_os("PALISADE_TEST_ANTIMONY").unwrap());
    for (below, feature) in [("profiles", false), ("features", true)] {
        let tally = import_all("antimony", &directory.join(below), "toml", feature);
        assert_eq!(tally.refused, [""; 0]);
        assert!((tally.left_out + tally.not_kept) * 20 < usize::try_from(tally.taken).unwrap(), "{tally:?}");
    }
}
