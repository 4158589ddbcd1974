// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds static programs in Go.

use super::job;
use std::process::Command;

/// A program that knows nothing of the C library. The standard library is compiled for it, too, which takes two thirds as
/// long without optimisation and without the compiler's garbage collection.
pub fn built(source: &str) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let (file, made) = (place.path().join("main.go"), place.path().join("made"));
    std::fs::write(&file, source).unwrap();
    let path = format!("{}:/usr/local/go/bin", std::env::var("PATH").unwrap_or_default());
    let mut go = Command::new("go");
    go.args(["build", "-gcflags=all=-N -l", "-o"]).arg(&made).arg(&file).current_dir("/");
    go.env("PATH", path).env("CGO_ENABLED", "0").env("GO111MODULE", "off").env("GOTOOLCHAIN", "local");
    job::finish(go.env("GOGC", "off")).ok();
    std::fs::read(&made).unwrap()
}
