// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the eBPF programs with clang; the objects are embedded into the library.
#![expect(clippy::panic, reason = "a build script has no other way to say what is missing")]

use std::path::PathBuf;
use std::process::Command;

/// The objects; each is `src/programs/NAME.bpf.c`.
const PROGRAMS: &[&str] = &["guard", "cost"];

fn main() {
    println!("cargo::rerun-if-changed=src/programs");
    println!("cargo::rerun-if-env-changed=CLANG");
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(out), Some(headers)) = (variable("OUT_DIR"), variable("DEP_BPF_INCLUDE")) else {
        panic!("cargo did not say where libbpf-sys put its headers (DEP_BPF_INCLUDE)");
    };
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    for program in PROGRAMS {
        let source = PathBuf::from(format!("src/programs/{program}.bpf.c"));
        let output = Command::new(&clang)
            .args([
                "-g",
                "-O2",
                "-target",
                "bpf",
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-unused-parameter",
            ])
            .arg("-I")
            .arg(&headers)
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(out.join(format!("{program}.bpf.o")))
            .output();
        match output {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                panic!(
                    "clang could not compile {}:\n{}",
                    source.display(),
                    String::from_utf8_lossy(&output.stderr)
                )
            }
            Err(error) => panic!(
                "{} could not be started: {error}\nhint: the eBPF programs need clang 14 or newer: \
                 apt-get install clang (or name one in CLANG)",
                clang.display()
            ),
        }
    }
}
