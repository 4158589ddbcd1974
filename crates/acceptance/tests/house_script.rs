// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what `./x test` adds to a machine before it builds. Its tools are scripts here, so nothing is installed.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use palisade_acceptance::process;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-musl";

/// A directory with tools that stand in for a machine's, and the calls of rustup.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Machine {
        let directory = std::env::temp_dir().join(format!("palisade-{name}-{}", std::process::id()));
        fs::create_dir_all(directory.join("libraries")).unwrap();
        fs::create_dir_all(directory.join("bin")).unwrap();
        let machine = Machine(directory);
        machine.tool("cargo", "[ \"$1\" != --version ] || { echo cargo 1.95.0; exit; }\nexit 9");
        machine.tool("rustc", "for target; do :; done\necho \"$HERE/libraries/$target\"");
        machine.tool(
            "rustup",
            "echo \"$@\" >>\"$HERE/calls\"; [ ! -e \"$HERE/offline\" ] && mkdir \"$HERE/libraries/$3\"",
        );
        // Whatever this machine lacks isn't installed for a test.
        machine.tool("sudo", "exit 1");
        machine.tool("apt-get", "exit 1");
        machine.tool("id", "echo 1000");
        machine
    }

    fn tool(&self, name: &str, script: &str) {
        let path = self.0.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\nHERE={}\n{script}\n", self.0.display())).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What `./x test` says until its build fails, and the calls of rustup.
    fn test(&self) -> (String, String) {
        let _none_before = fs::remove_file(self.0.join("calls"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../x");
        let output = Command::new(script)
            .args(["test", "no-such-test"])
            .env("PATH", format!("{}:{}", self.0.join("bin").display(), process::SYSTEM_PATH))
            .env("CARGO_TARGET_DIR", self.0.join("target"))
            .env("PALISADE_BIN", "/bin/true")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("x: error: the build failed"), "{said}");
        (said, fs::read_to_string(self.0.join("calls")).unwrap_or_default())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_target_of_the_emulated_machine_is_added_where_the_rest_of_it_is() {
    let machine = Machine::new("targets");
    machine.tool("qemu-system-aarch64", "");
    machine.tool("aarch64-linux-gnu-gcc", "");
    fs::write(machine.0.join("offline"), "").unwrap();
    let (said, calls) = machine.test();
    assert_eq!(calls, format!("target add {TARGET}\n"));
    assert!(said.contains(&format!("continuing without the Rust target {TARGET}")), "{said}");
    fs::remove_file(machine.0.join("offline")).unwrap();
    let (said, calls) = machine.test();
    assert_eq!(calls, format!("target add {TARGET}\n"));
    assert!(!said.contains("Rust target"), "{said}");
    let (_said, calls) = machine.test();
    assert_eq!(calls, "", "the target is there");
}
