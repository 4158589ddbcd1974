// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast the trust database is: `cargo run --release -p palisade-guard --example trust [FILES] [DIRECTORY]`.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use palisade_guard::trust::entry::{Digest, Entry, Record, Source};
use palisade_guard::trust::store::{Location, Store, Writer};

fn path(number: u64) -> Vec<u8> {
    let package = number.wrapping_mul(7919) % 1_000_003 % 20_000;
    format!("/usr/lib/x86_64-linux-gnu/package-{package:05}/modules/file-{number:07}.so").into_bytes()
}

/// Memory of its own, and mapped files, in kilobytes.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("RssAnon"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let files: u64 = arguments.next().map_or(Ok(1_000_000), |number| number.parse())?;
    let directory =
        arguments.next().map_or_else(|| std::env::temp_dir().join("palisade-trust"), PathBuf::from);
    std::fs::create_dir_all(&directory)?;
    let location = Location::new(&directory);
    if std::env::var_os("TRUST_READ").is_none() {
        let sources: Vec<Source> =
            (0..2000).map(|number| Source::Dpkg(format!("package-{number}").into_bytes().into())).collect();
        let start = Instant::now();
        let mut writer = Writer::lock(&location)?;
        let mut builder = writer.rebuild()?;
        for number in 0..files {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            let source = sources[(number % 2000) as usize].clone();
            let entry = Entry { path: path(number), size: number, digest: Digest::Sha256(digest), source };
            builder.push(&Record { entry, seen: None })?;
        }
        println!("memory while building: {}", memory());
        writer.finish(builder)?;
        let took = start.elapsed();
        println!("built {files} in {took:.2?}, {:.0} a second", files as f64 / took.as_secs_f64());
        println!("{} bytes a file", std::fs::metadata(location.base())?.len() / files.max(1));
        // Memory is that of a process that only reads.
        let status = std::process::Command::new(std::env::current_exe()?)
            .args([files.to_string(), directory.display().to_string()])
            .env("TRUST_READ", "1")
            .status()?;
        std::process::exit(status.code().unwrap_or(1));
    }
    println!("memory before: {}", memory());
    let start = Instant::now();
    let store = Store::open(&location)?;
    println!("opened in {:.2?}", start.elapsed());
    println!("memory: {}", memory());
    let probes: Vec<Vec<u8>> =
        (0..200_000).map(|number: u64| path(number.wrapping_mul(2_654_435_761) % files)).collect();
    let absent: Vec<Vec<u8>> = probes.iter().map(|path| [path.as_slice(), b"~"].concat()).collect();
    println!("memory with the probes: {}", memory());
    for (what, probes) in [("there", &probes), ("not there", &absent)].repeat(3) {
        let start = Instant::now();
        let mut found = 0;
        for probe in probes {
            store.who(black_box(probe), |_, size| found += u64::from(size.is_some()))?;
        }
        let each = start.elapsed().as_nanos() as f64 / probes.len() as f64;
        println!("looked up in {each:.0} ns each, {what} ({found} found)");
        let start = Instant::now();
        for probe in probes {
            store.find(black_box(probe), |record| found += u64::from(record.size > 0))?;
        }
        let each = start.elapsed().as_nanos() as f64 / probes.len() as f64;
        println!("with the digest: {each:.0} ns each");
    }
    let start = Instant::now();
    let mut count = 0;
    store.each(|_| {
        count += 1;
        Ok::<(), palisade_guard::trust::store::Error>(())
    })?;
    println!("went through {count} in {:.2?}", start.elapsed());
    println!("memory after: {}", memory());
    Ok(())
}
