// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the program for aarch64 in an emulated machine whose pages have 16 KB: `aarch64/guest.py` boots it, and
//! `aarch64/init` has the cases. Each wall is tried in a pair: what succeeds outside fails inside.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-musl";

/// Where cargo builds.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

/// What the script prints, which must succeed.
fn guest(argument: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aarch64/guest.py");
    let done = Command::new("/usr/bin/python3")
        .arg(script)
        .arg(target().join("guest/aarch64"))
        .arg(argument)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).replace('\r', "");
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    said
}

/// The program, built from the sources of this test.
fn program() -> PathBuf {
    let compiler = guest(Path::new("--compiler"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--profile", "quick", "-p", "palisade-cli", "--target", TARGET])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        // The tests are built by clippy, with flags for this machine.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        // rustup's `rustc` would obey the file `rust-toolchain.toml` that some crates have in their directories.
        .env("RUSTC", Path::new(env!("CARGO")).with_file_name("rustc"))
        .env("CARGO_TARGET_DIR", target())
        .env("CC_aarch64_unknown_linux_musl", compiler.trim())
        .env("AR_aarch64_unknown_linux_musl", "aarch64-linux-gnu-ar")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "aarch64-linux-gnu-gcc");
    assert!(cargo.status().unwrap().success(), "hint: rustup target add {TARGET}");
    target().join(TARGET).join("quick/palisade")
}

#[test]
fn its_walls_hold_in_an_emulated_machine() {
    if !support::has("aarch64") {
        return;
    }
    let said = guest(&program());
    let failed: Vec<&str> = said.lines().filter(|line| line.starts_with("FAILED ")).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let passed = said.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(said.lines().any(|line| line == "end") && passed > 80, "{passed} cases:\n{said}");
    assert!(said.contains("16 kB"), "{said}");
}
