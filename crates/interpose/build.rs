// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the code that is mapped into programs: a flat image without a C library, linked for a fixed address.
#![expect(clippy::unwrap_used, reason = "a build that lacks what cargo gives it can't go on")]

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Links a flat image as `blob/blob.ld` says.
const LINKER: [&str; 8] = [
    "-nostdlib",
    "-static",
    "--no-pie",
    "-Tblob/blob.ld",
    "--oformat=binary",
    "--build-id=none",
    "--no-eh-frame-hdr",
    "--defsym=rust_eh_personality=0",
];

fn main() {
    for input in ["blob", "src/layout.rs", "src/site.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let image = out.join("blob.bin");
    if env::var("CARGO_CFG_TARGET_ARCH").unwrap() != "x86_64" {
        fs::write(&image, []).unwrap();
        return;
    }
    let status = Command::new(env::var_os("RUSTC").unwrap())
        .args(["blob/main.rs", "--crate-name", "blob", "--crate-type", "bin", "--edition", "2024"])
        .args(["--target", &env::var("TARGET").unwrap(), "-o"])
        .arg(&image)
        // The image has no unwind tables, no relocations and no calls outside the image. The core library's unwinder
        // isn't linked.
        .args(["-C", "panic=abort", "-C", "opt-level=2", "-C", "debuginfo=0", "-C", "codegen-units=1"])
        .args(["-C", "lto=fat", "-C", "relocation-model=static", "-C", "default-linker-libraries=no"])
        .args(["-C", "link-self-contained=no", "-C", "linker=rust-lld", "-C", "linker-flavor=ld.lld"])
        .args(LINKER.map(|argument| format!("-Clink-arg={argument}")))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .unwrap();
    assert!(status.success(), "the image can't be built");
}
