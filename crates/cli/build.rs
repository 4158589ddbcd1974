// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the program is linked.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A static program that can lie anywhere relocates itself when it starts. As a bit map (RELR) the list of 37,000
    // places takes a fiftieth of 880 KB. musl reads it since 1.2.4, and Rust's has been newer since 1.93; a glibc of
    // the host's need not be new enough. A linker that doesn't know the option says so and goes on.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        // The index of the frame tables is for unwinding, and a panic ends the program: 120 KB less.
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        // It has the kernel make the pages of all these places present in one call (crate `sys`, `entry.rs`).
        if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|architecture| architecture == "x86_64") {
            println!("cargo::rustc-link-arg-bins=-Wl,-e,palisade_entry");
        }
    }
}
