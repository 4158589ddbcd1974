// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares kinds of files with fapolicyd's, for the files of this machine.
//!
//! `PALISADE_KINDS=20000 cargo test --release -p palisade-guard --features libmagic --test kinds -- --nocapture`
//! compares more files than the 1,500 of an ordinary run, and prints how often and where the two differ. Without the
//! feature, it tests what the crate recognizes itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::support;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use palisade_guard::kind::{Recognizer, Stat, shebang};

const ROOTS: &[&str] = &["/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/lib", "/usr/share", "/etc"];

/// Every n-th regular file below the roots; those with names of programs come first.
fn sample(count: usize) -> Vec<PathBuf> {
    let (mut programs, mut others) = (Vec::new(), Vec::new());
    let mut left: Vec<PathBuf> = ROOTS.iter().map(PathBuf::from).collect();
    while let Some(directory) = left.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                let promising = path.extension().is_none_or(|extension| {
                    [
                        "so", "ko", "o", "pl", "pm", "rb", "lua", "js", "jar", "awk", "m4", "el", "elc",
                        "tcl", "php", "sh", "class", "R", "java", "luac",
                    ]
                    .iter()
                    .any(|wanted| extension == *wanted)
                });
                if promising { programs.push(path) } else { others.push(path) }
            }
        }
    }
    programs.sort();
    others.sort();
    let every = |files: Vec<PathBuf>, count: usize| {
        let step = (files.len() / count.max(1)).max(1);
        files.into_iter().step_by(step).take(count).collect::<Vec<_>>()
    };
    let mut files = every(programs, count / 2);
    files.extend(every(others, count - files.len()));
    files
}

fn theirs(path: &Path) -> String {
    let output =
        Command::new("fapolicyd-cli").arg("--ftype").arg(path).output().expect("fapolicyd-cli is there");
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // The command prints this for what the daemon calls `?`.
    if text == "unknown" { "?".to_owned() } else { text }
}

fn recognizer() -> Recognizer {
    Recognizer::new().expect("libmagic's database is installed")
}

fn ours(recognizer: &Recognizer, path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let stat = Stat::of(file.as_fd()).ok()?;
    Some(recognizer.kind_of(file.as_fd(), path.as_os_str().as_bytes(), stat).to_string())
}

/// Why the two differ, if that is intended.
fn reason(path: &Path, ours: &str, theirs: &str) -> Option<&'static str> {
    let head = std::fs::read(path).ok()?;
    if shebang::kind(&head) == Some(ours) {
        return Some("a script by an interpreter that libmagic doesn't know there");
    }
    match (ours, theirs) {
        ("application/x-bytecode.python", "application/octet-stream") => {
            Some("bytecode of a Python that libmagic doesn't know")
        }
        ("application/java-archive", "application/zip") => {
            Some("a Java archive that libmagic takes for any zip archive")
        }
        ("application/x-bytecode.ocaml", "application/octet-stream") => {
            Some("OCaml's bytecode, which libmagic has no name for")
        }
        (_, "application/json" | "text/csv") if head.len() > 64 << 10 => {
            Some("only the first 64 KiB are looked at")
        }
        _ => None,
    }
}

#[test]
fn kinds_are_fapolicyds() {
    if !support::has_fapolicyd() {
        return;
    }
    let count = std::env::var("PALISADE_KINDS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_500);
    let files = sample(count);
    let parts: Vec<_> = files.chunks(files.len().div_ceil(2)).collect();
    let pairs: Vec<(PathBuf, String, String)> = std::thread::scope(|scope| {
        let compare = |part: &[PathBuf]| {
            let recognizer = recognizer();
            part.iter()
                .filter_map(|path| Some((path.clone(), ours(&recognizer, path)?, theirs(path))))
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = parts.iter().map(|part| scope.spawn(move || compare(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut explained: BTreeMap<&str, usize> = BTreeMap::new();
    let mut differing: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, ours, theirs) in &pairs {
        *kinds.entry(theirs).or_default() += 1;
        if ours == theirs {
            continue;
        }
        match reason(path, ours, theirs) {
            Some(reason) => *explained.entry(reason).or_default() += 1,
            None => differing.entry((ours.clone(), theirs.clone())).or_default().push(path.clone()),
        }
    }
    let unexplained: usize = differing.values().map(Vec::len).sum();
    println!("{} files of {} kinds, {unexplained} differ unexplained", pairs.len(), kinds.len());
    for (reason, count) in &explained {
        println!("{count:6} {reason}");
    }
    for ((ours, theirs), paths) in &differing {
        println!("{:6} ours {ours}, theirs {theirs}: {}", paths.len(), paths[0].display());
    }
    assert!(pairs.len() > count / 2, "too few files to compare");
    if cfg!(feature = "libmagic") {
        assert_eq!(unexplained, 0, "kinds differ without a reason");
    } else {
        assert!(unexplained * 100 < pairs.len() * 15, "without libmagic too many kinds differ");
    }
}

/// How long it takes, with the files in the page cache.
#[test]
#[ignore = "a measurement; run it with --release --ignored --nocapture"]
fn microseconds_per_file() {
    let files = sample(4_000);
    let opened: Vec<_> = files.iter().filter_map(|path| Some((path, File::open(path).ok()?))).collect();
    for (name, recognizer) in [("as built", recognizer()), ("own", Recognizer::own())] {
        let mut by_kind: BTreeMap<String, (Duration, u32)> = BTreeMap::new();
        for round in 0..2 {
            for (path, file) in &opened {
                let stat = Stat::of(file.as_fd()).unwrap();
                let start = Instant::now();
                let kind = recognizer.kind_of(file.as_fd(), path.as_os_str().as_bytes(), stat);
                if round == 1 {
                    let entry = by_kind.entry(kind.to_string()).or_default();
                    *entry = (entry.0 + start.elapsed(), entry.1 + 1);
                }
            }
        }
        let (time, count) =
            by_kind.values().fold((Duration::ZERO, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        println!("{name}: {:.1} us per file over {count}", time.as_secs_f64() * 1e6 / f64::from(count));
        let mut most: Vec<_> = by_kind.into_iter().collect();
        most.sort_by_key(|(_, (_, count))| std::cmp::Reverse(*count));
        for (kind, (time, count)) in most.into_iter().take(12) {
            println!("  {:8.1} us {kind} ({count})", time.as_secs_f64() * 1e6 / f64::from(count));
        }
    }
}
