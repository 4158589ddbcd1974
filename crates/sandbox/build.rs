// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the plan cache an identity of this program: a plan that was made by another version, or by a patched build of
//! this one, must not be used.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The crates that decide how plans look, or how they are applied.
const SOURCES: [&str; 5] = ["host", "policy", "sandbox", "sys", "syscall"];

fn files(directory: &Path, found: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files(&entry.path(), found)?;
        } else {
            found.insert(entry.path());
        }
    }
    Ok(())
}

/// Writes a table of all definitions in a directory of `src`, by name.
fn embed(directory: &str) -> io::Result<()> {
    let mut found = BTreeSet::new();
    let from = Path::new("src/data").join(directory);
    if from.is_dir() {
        files(&from, &mut found)?;
    }
    let definitions = found.iter().filter(|file| file.extension().is_some_and(|kind| kind == "toml"));
    let mut text = String::from("/// All of them, by name.\npub const EMBEDDED: &[Embedded] = &[\n");
    for file in definitions {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = std::path::absolute(file)?;
        text.push_str(&format!(
            "    Embedded {{ name: {name:?}, text: include_str!({path:?}), file: \"built-in:{name}.toml\" }},\n"
        ));
    }
    text.push_str("];\n");
    let to = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join(format!("{directory}.rs"));
    std::fs::write(to, text)
}

fn main() -> io::Result<()> {
    // FNV-1a distinguishes versions, and needs no library.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for name in SOURCES {
        let directory = Path::new("..").join(name).join("src");
        println!("cargo::rerun-if-changed={}", directory.display());
        let mut found = BTreeSet::new();
        files(&directory, &mut found)?;
        for file in found {
            for byte in std::fs::read(&file)? {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    for directory in ["profiles", "features"] {
        embed(directory)?;
    }
    println!("cargo::rustc-env=PALISADE_PLAN_VERSION={}-{hash:016x}", env!("CARGO_PKG_VERSION"));
    Ok(())
}
