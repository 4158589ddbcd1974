// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our own programs beside the one that a test is about.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The daemon that was built beside a program, or is now; `PALISADED_BIN` is another.
///
/// # Panics
/// When it can't be built.
#[must_use]
pub fn palisaded(beside: &Path) -> PathBuf {
    if let Some(given) = std::env::var_os("PALISADED_BIN") {
        return given.into();
    }
    let path = beside.with_file_name("palisaded");
    if !path.exists() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--offline", "-q", "-p", "palisade-daemon", "--bin", "palisaded"]);
        if path.parent().is_some_and(|directory| directory.ends_with("release")) {
            build.arg("--release");
        }
        assert!(build.status().is_ok_and(|status| status.success()), "palisaded isn't built");
    }
    path
}
