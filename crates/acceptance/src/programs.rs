// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the other programs of this project that a test uses.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The daemon that was built beside a program, or is now; `PALISADED_BIN` is another.
///
/// # Panics
/// When it can't be built.
#[must_use]
pub fn palisaded(beside: &Path) -> PathBuf {
    built(beside, "palisaded", "palisade-daemon", "PALISADED_BIN")
}

/// The command line that was built beside a program, or is now; `PALISADE_BIN` is another.
///
/// # Panics
/// When it can't be built.
#[must_use]
pub fn palisade(beside: &Path) -> PathBuf {
    built(beside, "palisade", "palisade-cli", "PALISADE_BIN")
}

fn built(beside: &Path, name: &str, package: &str, variable: &str) -> PathBuf {
    if let Some(given) = std::env::var_os(variable) {
        return given.into();
    }
    let path = beside.with_file_name(name);
    if !path.exists() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--offline", "-q", "-p", package, "--bin", name]);
        if path.parent().is_some_and(|directory| directory.ends_with("release")) {
            build.arg("--release");
        }
        assert!(build.status().is_ok_and(|status| status.success()), "{name} isn't built");
    }
    path
}
