// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests applications with invalid files: the launch reports an error or continues, and never hangs.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, Run, everybody, job, ordinary, root};

use palisade_acceptance::patience::Patience;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

fn profile(place: &Place, program: &Path) {
    let text = format!("schema = 1\nname = \"app\"\n[program]\npath = \"{}\"\n", program.display());
    place.write(".config/palisade/profiles/app.toml", text);
}

/// Opens a program by a profile, which takes no time worth mentioning.
#[track_caller]
fn open(place: &Place, program: &Path) -> Run {
    profile(place, program);
    let mut patience = Patience::new(Duration::from_secs(20));
    let run = job::finish(place.command(place.binary()).args(["open", "app"]));
    assert!(!patience.is_spent(), "{run:?}");
    run
}

fn program(place: &Place, name: &str, content: &[u8]) -> std::path::PathBuf {
    let path = place.write(name, content);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_damaged_program_is_named() {
    for place in everybody() {
        let whole = std::fs::read("/usr/bin/env").unwrap();
        for cut in [5, 64, whole.len() / 2] {
            let run = open(&place, &program(&place, "cut", &whole[..cut]));
            assert_ne!(run.code, 0, "{cut}: {run:?}");
            assert!(run.err.contains("cut"), "{cut}: {run:?}");
        }
        // For another processor: 183 is AArch64, 62 is x86-64.
        let mut foreign = whole.clone();
        foreign[18] = if foreign[18] == 62 { 183 } else { 62 };
        let run = open(&place, &program(&place, "foreign", &foreign));
        assert!(run.code == 125 || run.code == 126, "{run:?}");
        assert!(run.err.contains("foreign"), "{run:?}");
        let looping = place.home.join("loop");
        symlink("loop", &looping).unwrap();
        open(&place, &looping).refused(125, &["isn't on this host"]).with_hint();
    }
}

/// An executable for this machine that says it needs these libraries, and nothing else.
fn needing(count: usize) -> Vec<u8> {
    let mut strings = vec![0_u8];
    let mut dynamic: Vec<(u64, u64)> = Vec::new();
    for number in 0..count {
        dynamic.push((1, strings.len() as u64));
        strings.extend_from_slice(format!("libno-such-{number}.so\0").as_bytes());
    }
    let interpreter = b"/lib64/ld-linux-x86-64.so.2\0";
    let headers = 64 + 3 * 56_u64;
    let (interpreter_at, strings_at) = (headers, headers + interpreter.len() as u64);
    let dynamic_at = (strings_at + strings.len() as u64).next_multiple_of(8);
    dynamic.extend([(5, strings_at), (10, strings.len() as u64), (0, 0)]);
    let end = dynamic_at + 16 * dynamic.len() as u64;
    let mut out = Vec::new();
    out.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    for half in [3_u16, 62] {
        out.extend_from_slice(&half.to_le_bytes());
    }
    out.extend_from_slice(&1_u32.to_le_bytes());
    for word in [0_u64, 64, 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&0_u32.to_le_bytes());
    for half in [64_u16, 56, 3, 64, 0, 0] {
        out.extend_from_slice(&half.to_le_bytes());
    }
    let segments =
        [(3_u32, interpreter_at, interpreter.len() as u64), (1, 0, end), (2, dynamic_at, end - dynamic_at)];
    for (kind, at, size) in segments {
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&4_u32.to_le_bytes());
        for word in [at, at, at, size, size, 8] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    out.extend_from_slice(interpreter);
    out.extend_from_slice(&strings);
    out.resize(usize::try_from(dynamic_at).unwrap(), 0);
    for (tag, value) in dynamic {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&value.to_le_bytes());
    }
    out
}

#[test]
#[cfg(target_arch = "x86_64")]
fn ten_thousand_libraries_are_too_many() {
    let place = ordinary();
    let run = open(&place, &program(&place, "few", &needing(3)));
    assert!(run.err.contains("few needs libno-such-2.so, which isn't on this host"), "{run:?}");
    let run = open(&place, &program(&place, "many", &needing(10_000)));
    assert_ne!(run.code, 0);
    assert!(run.err.contains("many"), "{:.400}", run.err);
}

#[test]
fn a_script_of_300_megabytes_is_no_burden() {
    let place = ordinary();
    let script = program(&place, "large", b"#!/bin/sh\necho started; exit 0\n");
    let file = std::fs::OpenOptions::new().write(true).open(&script).unwrap();
    file.set_len(300 << 20).unwrap();
    let run = open(&place, &script);
    assert!(run.out == "started\n" || run.err.contains("large"), "{run:?}");
}

/// Where nothing can be written no plan is kept, and the launch goes on; a home that can't be made is an error.
#[test]
fn a_full_disk_is_survived() {
    let Some(place) = root() else { return };
    profile(&place, Path::new("/bin/sh"));
    let full = place.home.join("full");
    std::fs::create_dir(&full).unwrap();
    let line = format!(
        "mount -t tmpfs -o size=4k,nr_inodes=4 none {0} && (cat /dev/zero >{0}/x 2>/dev/null; \
         XDG_CACHE_HOME={0} {1} open app -c 'echo ran'; XDG_DATA_HOME={0}/x {1} open --home private app -c 'echo no'; \
         XDG_STATE_HOME={0}/x {1} open --log app -c 'echo no'; ls -A {0})",
        full.display(),
        place.binary().display()
    );
    let run = job::finish(place.command("unshare").args([
        "-m",
        "--propagation",
        "private",
        "/bin/sh",
        "-c",
        &line,
    ]));
    assert!(run.out.starts_with("ran\n") && !run.out.contains("no\n"), "{run:?}");
    assert!(run.err.contains("can't make the home") && run.err.contains("can't write the log"), "{run:?}");
    assert!(!run.out.contains(".plan"), "{run:?}");
    place.assert_all_dead();
}
