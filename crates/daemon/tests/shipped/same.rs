// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two builds have the same bytes: packages of the same binaries, and the binaries of two checkouts.

use super::made::{Binaries, VERSION, checkout};
use crate::support::has;
use crate::support::lines::tell;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn packages_of_the_same_binaries_have_the_same_bytes() {
    let binaries = Binaries::new();
    for (form, tools) in [("deb", "dpkg-deb"), ("rpm", "rpm"), ("tar", "python3")] {
        if !has(tools) {
            continue;
        }
        let one = binaries.pack(form, VERSION, &[]).files();
        // Another time zone, language, umask, home, terminal and order of work.
        let wrap = [
            "env",
            "TZ=Asia/Tokyo",
            "LC_ALL=de_DE.UTF-8",
            "HOME=/nonexistent",
            "COLUMNS=40",
            "LANGUAGE=de",
            "sh",
            "-c",
            "umask 077; CARGO_HOME=${CARGO_HOME:-~root/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-~root/.rustup} exec \"$@\"",
            "sh",
        ];
        let two = binaries.pack(form, VERSION, &wrap).files();
        let names =
            |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&one), names(&two));
        assert_eq!(one.len(), 2, "{:?}", names(&one));
        for ((name, first), (_, second)) in one.iter().zip(&two) {
            assert!(first == second, "{name} differs");
        }
        let other = binaries.pack(form, "99.0.0", &[]).files();
        assert!(one.iter().zip(&other).any(|((_, first), (_, second))| first != second));
    }
}

/// Copies the files of the checkout that git tracks.
fn copy_checkout(to: &Path) {
    let script = "git ls-files -z | tar --null -T - -cf - | tar xf - -C \"$0\"";
    let copied = Command::new("sh").current_dir(checkout()).args(["-c", script]).arg(to).status();
    assert!(copied.unwrap().success());
}

/// Builds the release binaries of a checkout. Returns their paths.
fn built(checkout: &Path, target: &Path) -> Vec<String> {
    let mut build = Command::new(checkout.join("x"));
    build.args(["build", "palisade", "palisaded"]).env("CARGO_TARGET_DIR", target);
    for variable in
        ["RUSTFLAGS", "CARGO_INCREMENTAL", "RUSTC_WORKSPACE_WRAPPER", "CARGO_PROFILE_DEV_CODEGEN_UNITS"]
    {
        build.env_remove(variable);
    }
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Two release builds from nothing take longest of all tests, so only the long run has them.
#[test]
fn binaries_of_two_checkouts_have_the_same_bytes() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    // Paths of different lengths, and a target directory within the checkout and outside of it.
    let checkouts = [places[0].path().join("a"), places[1].path().join("another/checkout")];
    let targets = [checkouts[0].join("target"), places[1].path().join("products")];
    let mut all = Vec::new();
    for (checkout, target) in checkouts.iter().zip(&targets) {
        fs::create_dir_all(checkout).unwrap();
        copy_checkout(checkout);
        let binaries = built(checkout, target);
        assert_eq!(binaries.len(), 2, "{binaries:?}");
        all.push(binaries.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>());
    }
    for (number, name) in ["palisade", "palisaded"].iter().enumerate() {
        let (one, two) = (&all[0][number], &all[1][number]);
        let differ = one.iter().zip(two).filter(|(one, two)| one != two).count();
        assert!(one == two, "{name}: {} and {} bytes, {differ} of them differ", one.len(), two.len());
        let named = places.iter().any(|place| {
            let path = place.path().to_str().unwrap().as_bytes();
            one.windows(path.len()).any(|window| window == path)
        });
        assert!(!named, "{name} names the directory in which it was built");
        tell(&format!("{name}: {} bytes in both", one.len()));
    }
}
