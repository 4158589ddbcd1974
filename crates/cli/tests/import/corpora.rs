// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that Antimony and firejail ship, where it is at hand.

use crate::world::World;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Files of a directory with one ending.
fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == ending));
    files.sort();
    files
}

#[test]
fn all_that_others_ship_is_imported() {
    let world = World::new();
    let mut corpora: Vec<(&str, PathBuf, &str, &[&str])> = Vec::new();
    if let Some(directory) = std::env::var_os("PALISADE_TEST_ANTIMONY").map(PathBuf::from) {
        corpora.push(("antimony", directory.join("profiles"), "toml", &[]));
        corpora.push(("antimony", directory.join("features"), "toml", &["--feature"]));
    }
    if let Some(directory) = std::env::var_os("PALISADE_TEST_FIREJAIL").map(PathBuf::from) {
        corpora.push(("firejail", directory, "profile", &[]));
    }
    if corpora.is_empty() {
        eprintln!("not tried: neither PALISADE_TEST_ANTIMONY nor PALISADE_TEST_FIREJAIL is set");
    }
    for (from, directory, ending, more) in corpora {
        let (mut taken, mut approximated, mut left_out, mut not_kept) = (0, 0, 0, 0);
        let files = files(&directory, ending);
        let mut refused = Vec::new();
        for file in &files {
            let answer = world.import(from, file.to_str().unwrap(), &[more, &["--json"]].concat());
            let report: Value = serde_json::from_str(&answer.out).unwrap();
            if answer.code != 0 {
                refused.push(answer.err);
                continue;
            }
            taken += report["taken"].as_u64().unwrap();
            approximated += report["approximated"].as_array().unwrap().len();
            let findings = report["left_out"].as_array().unwrap();
            not_kept += findings.iter().filter(|finding| finding["restricts"] == true).count();
            left_out += findings.iter().filter(|finding| finding["restricts"] == false).count();
            let checked = world.write("foreign/checked.toml", report["text"].as_str().unwrap());
            let feature: &[&str] = if more.is_empty() { &[] } else { &["--feature"] };
            let check = world.run(&[&["check", "--layer", "user", &checked], feature].concat());
            assert_eq!(check.code, 0, "{}: {check:?}", file.display());
        }
        println!(
            "{from} {}: {} files, {} refused; {taken} taken over, {approximated} approximated, {left_out} left out, {not_kept} not kept",
            directory.display(),
            files.len(),
            refused.len()
        );
        // Only what names files that aren't there.
        assert!(refused.iter().all(|error| error.contains("can't import what")), "{refused:?}");
        assert!(refused.len() * 50 <= files.len(), "{refused:?}");
    }
}
