// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the eBPF programs with clang; the objects are embedded into the library.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The objects; each is `src/programs/NAME.bpf.c`.
const PROGRAMS: &[&str] = &["guard", "cost", "scope", "scope_refuse", "rivals", "learn"];

fn main() {
    println!("cargo::rerun-if-changed=src/programs");
    println!("cargo::rerun-if-env-changed=CLANG");
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(out), Some(headers)) = (variable("OUT_DIR"), variable("DEP_BPF_INCLUDE")) else {
        println!("cargo::error=libbpf-sys did not say where its headers are (DEP_BPF_INCLUDE)");
        return;
    };
    for program in PROGRAMS {
        // Print every line on its own: cargo takes only one line as a message.
        for line in compile(program, &out, &headers).err().iter().flat_map(|error| error.lines()) {
            println!("cargo::error={line}");
        }
    }
}

fn compile(program: &str, out: &Path, headers: &Path) -> Result<(), String> {
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let output = Command::new(&clang)
        .args(["-g", "-O2", "--target=bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Wno-unused-parameter"])
        // The objects contain the names of their sources, which would begin with the directory of this build.
        .args(renamed(headers, "libbpf"))
        .args(renamed(&std::env::current_dir().unwrap_or_default(), "bpf"))
        .arg("-I")
        .arg(headers)
        .arg("-c")
        .arg(format!("src/programs/{program}.bpf.c"))
        .arg("-o")
        .arg(out.join(format!("{program}.bpf.o")))
        .output()
        .map_err(|error| {
            format!(
                "start {}: {error}\nhint: the eBPF programs are compiled by clang, 14 or newer: apt-get install \
                 clang, or name one in CLANG",
                clang.display()
            )
        })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} could not compile {program}.bpf.c:\n{said}", clang.display()));
    }
    // Print warnings only: a build must not fail because its clang version reports something that ours doesn't.
    for line in said.lines() {
        println!("cargo::warning={line}");
    }
    Ok(())
}

/// The option that writes another name for a directory.
fn renamed(directory: &Path, name: &str) -> Option<OsString> {
    let option = |directory: &Path| {
        let mut option = OsString::from("-ffile-prefix-map=");
        option.push(directory);
        option.push("=");
        option.push(name);
        option
    };
    (!directory.as_os_str().is_empty()).then(|| option(directory))
}
