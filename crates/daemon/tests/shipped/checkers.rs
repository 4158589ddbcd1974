// SPDX-License-Identifier: Apache-2.0 OR MIT
//! lintian and rpmlint find nothing in the packages.

use super::made::{Binaries, VERSION, checkout};
use crate::support::has;
use crate::support::lines::tell;
use std::process::Command;

#[test]
fn lintian_finds_nothing() {
    if !["dpkg-deb", "lintian"].into_iter().all(has) {
        return;
    }
    let binaries = Binaries::new();
    if !binaries.are_static() {
        tell("not tried: this palisade isn't static, as the one of the package is");
        return;
    }
    let made = binaries.pack("deb", VERSION, &[]);
    for (name, _) in made.files() {
        let output = Command::new("lintian")
            .args(["--allow-root", "--no-cfg", "--fail-on", "error,warning"])
            .arg(made.directory().join(&name))
            .output()
            .unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{name}: {output:#?}");
    }
}

#[test]
fn rpmlint_finds_nothing() {
    if !["rpm", "rpmlint"].into_iter().all(has) {
        return;
    }
    let made = Binaries::new().pack("rpm", VERSION, &[]);
    let output = Command::new("rpmlint")
        .arg("--config")
        .arg(checkout().join("packaging/rpm/rpmlint.toml"))
        .args(made.files().iter().map(|(name, _)| made.directory().join(name)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("0 errors, 0 warnings"), "{said}");
}
