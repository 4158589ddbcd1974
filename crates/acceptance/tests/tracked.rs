// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the files that git tracks: sources and texts of moderate size. A download that a test leaves in the checkout
//! would otherwise be committed with the rest, and stay in the history for ever.

use std::path::Path;
use std::process::Command;

/// The largest text is a corpus of lines for the shell.
const LARGEST: usize = 400_000;

#[test]
fn tracked_files_are_texts_of_moderate_size() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join(".git").exists() {
        // An archive of the sources: what it has was tracked somewhere else.
        return;
    }
    let output = Command::new("git").current_dir(&root).args(["ls-files", "-z"]).output().expect("git runs");
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8(output.stdout).expect("names are text");
    let names: Vec<&str> = listed.split_terminator('\0').collect();
    assert!(names.contains(&"crates/acceptance/tests/tracked.rs") || names.len() > 1000, "{}", names.len());
    let wrong: Vec<&&str> = names
        .iter()
        .filter(|name| {
            // A file that was removed and isn't committed yet.
            let Ok(bytes) = std::fs::read(root.join(name)) else { return false };
            bytes.len() > LARGEST || std::str::from_utf8(&bytes).is_err() || bytes.contains(&0)
        })
        .collect();
    assert!(wrong.is_empty(), "neither source nor text, or larger than {LARGEST} bytes: {wrong:?}");
}
