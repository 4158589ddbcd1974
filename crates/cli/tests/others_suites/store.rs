// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The downloaded suites in `target/suites/NAME`.

use super::suite::{Suite, directory};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory of a suite.
pub(super) fn directory_of(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let suites = target.join("suites");
    std::fs::create_dir_all(&suites).unwrap_or_else(|error| panic!("{}: {error}", suites.display()));
    suites.canonicalize().unwrap().join(name)
}

/// The tree of a suite, which is obtained if it isn't there or was obtained by another text.
pub(crate) fn obtained(suite: &Suite) -> PathBuf {
    let store = directory_of(&suite.name);
    let (tree, stamp) = (store.join("tree"), store.join("obtained-by"));
    let functions = std::fs::read_to_string(directory().join("obtain.sh")).unwrap();
    let text = format!("set -eu\n{functions}\n{}", suite.obtain);
    if std::fs::read_to_string(&stamp).is_ok_and(|by| by == text) {
        return tree;
    }
    let _none_yet = std::fs::remove_dir_all(&store);
    std::fs::create_dir_all(&tree).unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &text]).current_dir(&store).env("LANG", "C.UTF-8").stdin(Stdio::null());
    // Cargo tells its children about the package that is tested.
    for (name, _value) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_") && name != "CARGO_HOME" || name.starts_with("RUSTC_") {
            shell.env_remove(name);
        }
    }
    let output = shell.output().unwrap();
    assert!(
        output.status.success(),
        "{} can't be obtained: {}{}\nhint: {}",
        suite.name,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        suite.hint
    );
    std::fs::write(&stamp, text).unwrap();
    tree
}
