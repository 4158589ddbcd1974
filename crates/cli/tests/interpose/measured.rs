// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the times of calls, the places that make them, and clocks.

use super::{Bench, Counted, interpose, is_installed, said};
use palisade_interpose::site;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What a call took in all.
fn took(counted: &Counted, name: &str) -> Duration {
    let call = counted.json["calls"].as_array().unwrap().iter().find(|call| call["name"] == name);
    Duration::from_nanos(
        call.unwrap_or_else(|| panic!("{name}: {counted:?}"))["nanoseconds"].as_u64().unwrap(),
    )
}

#[test]
fn with_times_counts_are_still_those_of_strace() {
    let bench = Bench::new();
    let sleep =
        ["/usr/bin/python3", "-c", "import time, os; time.sleep(0.3); [os.getppid() for _ in range(999)]"];
    let shell = ["sh", "-c", "/bin/cat /dev/null; (/bin/echo x); exit 3"];
    for command in [&["ls", "-la", "/usr"][..], &sleep, &shell] {
        let (expected, native) = bench.strace(command);
        let begun = Instant::now();
        let counted = bench.count_with(&["--time"], command);
        let wall = begun.elapsed();
        assert_eq!(counted.output.status.code(), native.status.code(), "{command:?}");
        assert_eq!(counted.output.stdout, native.stdout, "{command:?}");
        assert_eq!(counted.counts, expected, "{command:?}");
        // No call of these takes longer than the whole, but for some that wait at once in two processes.
        for name in counted.counts.keys() {
            assert!(took(&counted, name) <= 3 * wall, "{command:?}: {name}: {wall:?} {:?}", counted.json);
        }
        if command == sleep {
            // Within a hundredth: the processor's clock was compared with the system's for as long as the run took.
            assert!(took(&counted, "clock_nanosleep") >= Duration::from_millis(297), "{:?}", counted.json);
            assert!(took(&counted, "getppid") > Duration::ZERO, "{:?}", counted.json);
        }
        if command == shell {
            assert!(took(&counted, "wait4") > Duration::ZERO, "{:?}", counted.json);
        }
    }
    // Without the option no times are reported.
    let counted = bench.count(&["true"]);
    assert_eq!(counted.json["calls"][0]["nanoseconds"], Value::Null);
    let table = interpose(&["--time", "--", "true"]);
    let table = String::from_utf8_lossy(&table.stderr).into_owned();
    assert!(table.starts_with("% time      seconds  usecs/call      calls    errors syscall\n"), "{table}");
    assert_eq!(interpose(&["--time", "--log", "/dev/null", "--", "true"]).status.code(), Some(125));
}

#[test]
fn with_times_programs_do_not_notice() {
    let bench = Bench::new();
    let program = bench.compile("registers", &[]);
    let counted = bench.count_with(&["--time"], &[&program]);
    said(&counted.output, "kept\n");
    assert_eq!(counted.counts["getppid"], (30_001, 0));

    let program = bench.compile("processes", &[]);
    let plain = bench.count(&[&program]);
    let counted = bench.count_with(&["--time"], &[&program]);
    said(&counted.output, &"executed\n".repeat(8));
    for call in ["getpgid", "execve", "fork", "vfork", "clone", "clone3", "wait4"] {
        assert_eq!(counted.counts.get(call), plain.counts.get(call), "{call}");
    }
    for call in ["vfork", "clone", "clone3"] {
        assert!(took(&counted, call) > Duration::ZERO, "{call}: {:?}", counted.json);
    }

    let program = bench.compile("signals", &[]);
    let counted = bench.count_with(&["--time"], &[&program, "interposed"]);
    assert_eq!(counted.output.stdout, b"well\n", "{counted:?}");

    let program = bench.compile("race", &[]);
    let code = bench.path("code").into_os_string().into_string().unwrap();
    let counted = bench.count_with(&["--time"], &[&program, &code]);
    said(&counted.output, "0 wrong\n");
    assert_eq!(counted.counts["getppid"].0, 4 * 24 * 1200 + 1);

    for command in [&["go", "version"][..], &["node", "-e", "setTimeout(() => console.log(1), 10)"]] {
        if is_installed(command[0]) {
            let counted = bench.count_with(&["--time"], command);
            assert_eq!(counted.output.status.code(), Some(0), "{counted:?}");
        }
    }
}

/// A thread that takes away its stack finds nothing on it afterwards, so nothing may have been left there.
#[test]
fn threads_take_their_own_stacks_away() {
    let bench = Bench::new();
    let mut programs = vec![bench.compile("detached", &["-static"])];
    if is_installed("musl-gcc") {
        programs.push(bench.compile_by("musl-gcc", "detached", &["-static"]));
    }
    let log = bench.path("log").into_os_string().into_string().unwrap();
    for program in programs {
        said(&interpose(&["--fake", "pid=7", "--", &program]), "done\n");
        for options in [&[][..], &["--time"], &["--log", &log]] {
            let counted = bench.count_with(options, &[&program]);
            said(&counted.output, "done\n");
            assert_eq!(counted.counts["getppid"], (200, 0), "{options:?}");
        }
    }
}

#[test]
fn clocks_are_read_by_calls_when_there_is_no_vdso() {
    let bench = Bench::new();
    let reads = "import time\nfor _ in range(1000): time.time()";
    let command = ["/usr/bin/python3", "-c", reads];
    let reads = |counted: &Counted| counted.counts.get("clock_gettime").map_or(0, |counts| counts.0);
    let (expected, _) = bench.strace(&command);
    let plain = bench.count(&command);
    assert_eq!(plain.counts.get("clock_gettime"), expected.get("clock_gettime"), "as it is, with the vDSO");
    let counted = bench.count_with(&["--no-vdso"], &command);
    assert_eq!(counted.output.status.code(), Some(0), "{counted:?}");
    assert!(reads(&counted) >= 1000, "{:?}", counted.json);
    let timed = bench.count_with(&["--no-vdso", "--time"], &command);
    assert!(reads(&timed) >= 1000, "{:?}", timed.json);
    assert!(took(&timed, "clock_gettime") > Duration::ZERO);
}

#[test]
fn the_time_of_day_is_moved_in_every_way_it_is_asked_for() {
    let bench = Bench::new();
    let program = bench.compile("clocks", &[]);
    // 2040-01-01, and long ago; the whole way in handlers, and in bodies that count.
    for day in ["2208988800", "1000"] {
        let fake = format!("time={day}");
        said(&interpose(&["--fake", &fake, "--", &program, day]), "0 wrong\n");
        for time in [&[][..], &["--time"]] {
            let mut options = vec!["--fake", &fake];
            options.extend(time);
            let counted = bench.count_with(&options, &[&program, day]);
            said(&counted.output, "0 wrong\n");
            assert_eq!(counted.counts["time"], (5000, 1000), "{:?}", counted.json);
            assert_eq!(counted.counts["gettimeofday"], (4000, 1000), "{:?}", counted.json);
            assert_eq!(counted.counts["clock_gettime"], (6001, 2000), "{:?}", counted.json);
            // They come from bodies: a trap for each would be as many as there are calls.
            assert!(counted.json["traps"].as_u64().unwrap() < 9000, "{:?}", counted.json);
        }
    }
}

/// Whether the vDSO of this kernel can be patched where it makes this call.
fn is_patchable_in_the_vdso(call: u64) -> bool {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (_, vdso) = maps.split_once("[vdso]").unwrap();
    let flags = vdso.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
    let range = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap().split(' ').next().unwrap();
    let (start, end) = range.split_once('-').unwrap();
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
    let mut text = vec![0; usize::try_from(end - start).unwrap()];
    std::fs::File::open("/proc/self/mem").unwrap().read_exact_at(&mut text, start).unwrap();
    let sealed = flags.split(' ').any(|flag| flag == "sl");
    !sealed
        && text.windows(site::BEFORE + 2).zip(start..).any(|(bytes, at)| {
            let before = bytes[..site::BEFORE].try_into().unwrap();
            let form = site::form(&before, call);
            bytes.ends_with(&site::CALL)
                && form.is_some_and(|form| site::place(at + site::BEFORE as u64, form).is_some())
        })
}

#[test]
fn sites_of_the_vdso_are_patched_too() {
    let bench = Bench::new();
    let program = bench.compile("clocks", &[]);
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().to_string();
    let counted = bench.count_with(&["--sites"], &[&program, &now]);
    said(&counted.output, "0 wrong\n");
    // Those of the processor's time, which the vDSO can't tell by itself, and those that failed.
    assert!(counted.counts["clock_gettime"].0 >= 4000, "{:?}", counted.json);
    assert!(counted.json["sites"]["elsewhere"].as_u64().unwrap() >= 1, "{:?}", counted.json);
    let is_patched = counted.json["traps"].as_u64().unwrap() < 1000;
    const CLOCK_GETTIME: u64 = 228;
    assert_eq!(is_patched, is_patchable_in_the_vdso(CLOCK_GETTIME), "{:?}", counted.json);
}

#[test]
fn sites_that_trap_are_beside_those_that_a_scan_finds() {
    let bench = Bench::new();
    let python =
        "import threading, ssl, sqlite3, os; t = threading.Thread(target=os.getppid); t.start(); t.join()";
    let counted = bench.count_with(&["--sites"], &["/usr/bin/python3", "-c", python]);
    assert_eq!(counted.output.status.code(), Some(0), "{counted:?}");
    let places = |list: &Value| -> BTreeSet<u64> {
        list.as_array().unwrap().iter().map(|place| place.as_u64().unwrap()).collect()
    };
    let (mut trapped, mut both, mut scanned) = (0, 0, 0);
    let files = counted.json["sites"]["files"].as_array().unwrap();
    for file in files {
        let (own, seen) = (places(&file["trapped"]), places(&file["scanned"]));
        // Whatever trapped in a file is a `syscall` in it, and a scan can't but find it.
        assert!(own.is_subset(&seen), "{file}");
        (trapped, scanned, both) =
            (trapped + own.len(), scanned + seen.len(), both + own.intersection(&seen).count());
    }
    let path = |part: &str| files.iter().any(|file| file["path"].as_str().unwrap().contains(part));
    assert!(path("libc.so") && path("ld-linux") && path("libssl"), "{files:?}");
    assert!(trapped > 20 && both == trapped, "{trapped} {both}");
    // Far more than a run ever uses.
    assert!(scanned > 3 * trapped, "{scanned} {trapped}");
    assert_eq!(counted.json["sites"]["unlisted"], 0);

    // What is written at run time is in no file: a scan would have missed it.
    let program = bench.compile("jit", &[]);
    let counted = bench.count_with(&["--sites"], &[&program]);
    assert!(counted.json["sites"]["elsewhere"].as_u64().unwrap() >= 1, "{:?}", counted.json);
    let table = interpose(&["--sites", "--", "true"]);
    let table = String::from_utf8_lossy(&table.stderr).into_owned();
    assert!(table.starts_with("  trapped   scanned      both     known file\n"), "{table}");
    assert!(table.contains(" in no file\n") && !table.contains("not scanned"), "{table}");
}
