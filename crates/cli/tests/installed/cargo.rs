// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo install`: cargo itself makes the record, for a small package of the same name in whose place the program is put.
//! The whole package is installed where there is time for its build (`installs_the_package_itself`).

use super::{commands, described, root, shell};
use crate::support::{Place, job, ordinary};
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = "[package]\nname = \"palisade-cli\"\nversion = \"VERSION\"\nedition = \"2021\"\n\n[[bin]]\nname = \"palisade\"\npath = \"main.rs\"\n";

/// A place with a small package, and cargo's home and root in it.
fn with_package() -> (Place, String) {
    let place = ordinary();
    place.write("package/main.rs", "fn main() {}\n");
    manifest(&place, "1.0.0");
    // A user's toolchain may be in a home that others can't reach. The test's own user runs cargo there.
    let toolchain = PathBuf::from(env!("CARGO")).parent().unwrap().display().to_string();
    let variables = format!(
        "PATH={toolchain}:$PATH CARGO_HOME={} CARGO_NET_OFFLINE=true",
        place.home.join(".cargo").display()
    );
    (place, variables)
}

fn manifest(place: &Place, version: &str) {
    place.write("package/Cargo.toml", MANIFEST.replace("VERSION", version));
}

/// A line of shell as the user who runs the tests, who has cargo.
fn cargo(place: &Place, variables: &str, line: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("export {variables}; {line}")]).current_dir(&place.work);
    for variable in ["CARGO_TARGET_DIR", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    let run = job::finish(&mut command);
    assert_eq!(run.code, 0, "{line}: {run:?}");
    crate::support::give(place, &place.home);
}

#[test]
fn cargo_lists_it_in_its_home_or_in_a_root() {
    for (option, directory) in [("", ".cargo"), (" --root ~/a/root", "a/root")] {
        let (place, variables) = with_package();
        let option = option.replace('~', &place.home.display().to_string());
        manifest(&place, "1.0.0");
        let package = place.home.join("package").display().to_string();
        cargo(&place, &variables, &format!("cargo install --quiet --path {package}{option}"));
        let program = place.home.join(directory).join("bin/palisade");
        std::fs::copy(place.binary(), &program).unwrap();
        let answer = described(&place, &program);
        assert_eq!(answer["installed_by"], "cargo");
        assert_eq!(
            answer["update"],
            serde_json::json!([format!("cargo install --locked{} --path {package}{option}", target())])
        );
        manifest(&place, "2.0.0");
        for command in commands(&answer, "update") {
            cargo(&place, &variables, &command.replace("--locked", "--quiet"));
        }
        assert!(place.read(&format!("{directory}/.crates.toml")).contains("palisade-cli 2.0.0"));
        for command in commands(&answer, "remove") {
            cargo(&place, &variables, &command);
        }
        assert!(!program.exists());
    }
}

/// The tested program is static, and its update is to be so, too.
fn target() -> String {
    format!(" --target {}-unknown-linux-musl", std::env::consts::ARCH)
}

/// The sources that cargo's record can name.
#[test]
fn each_source_has_its_command() {
    let url = env!("CARGO_PKG_REPOSITORY");
    let sources = [
        (
            "registry+https://github.com/rust-lang/crates.io-index".to_owned(),
            format!("cargo install --locked{} palisade-cli", target()),
        ),
        (
            format!("git+{url}?branch=main#0123456789abcdef"),
            format!("cargo install --locked{} --git {url} palisade-cli", target()),
        ),
        (
            "path+file:///srv/a b/crates/cli".to_owned(),
            format!("cargo install --locked{} --path '/srv/a b/crates/cli'", target()),
        ),
    ];
    for (source, command) in sources {
        let place = ordinary();
        let program = place.write(".cargo/bin/palisade", std::fs::read(place.binary()).unwrap());
        place.write(
            ".cargo/.crates.toml",
            format!("[v1]\n\"palisade-cli 0.1.0 ({source})\" = [\"palisade\"]\n"),
        );
        shell(&place, "chmod 755 ~/.cargo/bin/palisade").ok();
        assert_eq!(described(&place, &program)["update"], serde_json::json!([command]));
        place.write(
            ".cargo/binstall/crates-v1.json",
            format!("{{\"name\":\"palisade-cli\",\"source\":\"{url}\"}}\n"),
        );
        let answer = described(&place, &program);
        assert_eq!(answer["update"], serde_json::json!(["cargo binstall --locked palisade-cli"]));
        assert_eq!(answer["remove"], serde_json::json!(["cargo uninstall palisade-cli"]));
    }
}

/// What binstall reads: where the archive of a release is, and where the program is in it.
#[test]
fn binstall_finds_the_program_in_the_archive() {
    let manifest: toml::Table =
        toml::from_str(&std::fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap()).unwrap();
    let about = &manifest["package"]["metadata"]["binstall"];
    let stated = |key: &str| about[key].as_str().unwrap().to_owned();
    let filled = |text: String| {
        let pairs = [
            ("{ repo }", "REPO"),
            ("{ version }", "0.1.0"),
            ("{ target-arch }", "x86_64"),
            ("{ bin }", "palisade"),
            ("{ binary-ext }", ""),
        ];
        let filled = pairs.iter().fold(text, |text, (name, value)| text.replace(name, value));
        assert!(!filled.contains('{'), "{filled}");
        filled
    };
    assert_eq!(stated("pkg-fmt"), "tgz");
    assert_eq!(filled(stated("pkg-url")), "REPO/releases/download/v0.1.0/palisade-0.1.0-x86_64-linux.tar.gz");
    assert_eq!(filled(stated("bin-dir")), "palisade-0.1.0-x86_64-linux/bin/palisade");
}

/// The build takes minutes, so only the long run has it.
#[test]
fn installs_the_package_itself() {
    let place = ordinary();
    let mut command = Command::new(env!("CARGO"));
    // Without optimisation: the test is whether the package can be installed, not how fast it is.
    command
        .args(["install", "--debug", "--locked", "--quiet", "--target"])
        .arg(format!("{}-unknown-linux-musl", std::env::consts::ARCH))
        .arg("--path")
        .arg(root().join("crates/cli"))
        .arg("--root")
        .arg(place.home.join("root"))
        .env("CARGO_TARGET_DIR", place.home.join("target"))
        // It would ask the index whether a crate has been withdrawn. The crates are those of the tested program, so they
        // are here.
        .env("CARGO_NET_OFFLINE", "true")
        // rustup's `rustc` would obey the file `rust-toolchain.toml` that some crates have in their directories.
        .env("RUSTC", Path::new(env!("CARGO")).with_file_name("rustc"));
    for variable in ["RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    crate::support::give(&place, &place.home.join("root"));
    let answer = described(&place, &place.home.join("root/bin/palisade"));
    assert_eq!(answer["installed_by"], "cargo");
}
