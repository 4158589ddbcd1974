// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs programs interposed under unusual conditions: the time of day is changed, or `/proc` is missing.
//!
//! The launching process must have one thread, which a test process doesn't have. So each test starts this program
//! again, for the one test that launches the given program.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use palisade_interpose::launch::{Fakes, Launch, launch};

/// The variable with the path to which the result is written.
const OUTCOME: &str = "PALISADE_TEST_OUTCOME";
/// The variable with the program and its arguments, line by line.
const PROGRAM: &str = "PALISADE_TEST_PROGRAM";
/// The variable with the seconds that the clock is ahead.
const AHEAD: &str = "PALISADE_TEST_AHEAD";

/// Does nothing unless another test has started it.
#[test]
fn launcher() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let arguments: Vec<CString> = program.lines().map(|word| CString::new(word).unwrap()).collect();
    let environment = std::env::vars_os()
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            CString::new(name.into_vec()).unwrap()
        })
        .collect();
    let ahead = std::env::var(AHEAD).ok().map(|ahead| ahead.parse().unwrap());
    let wanted = Launch {
        program: arguments[0].clone(),
        arguments,
        environment,
        count: true,
        time: false,
        sites: false,
        hide_vdso: false,
        fakes: Fakes { ahead, ..Fakes::default() },
        wait: true,
        meanwhile: || (),
    };
    let outcome = launch(&wanted, None).unwrap();
    let calls =
        |number| outcome.counts.iter().find(|count| count.number == number).map_or(0, |count| count.calls);
    let text = format!(
        "{} {} {} {} {} {}",
        outcome.status.code().unwrap_or(-1),
        outcome.images,
        outcome.lost,
        outcome.traps,
        outcome.patched,
        calls(110),
    );
    std::fs::write(std::env::var_os(OUTCOME).unwrap(), text).unwrap();
}

/// The result of a run.
#[derive(Debug)]
struct Run {
    output: Output,
    /// The exit code, interposed programs, programs that ran without interposition, traps, patched sites, calls of
    /// `getppid`.
    numbers: Option<[i64; 6]>,
}

impl Run {
    fn said(&self, expected: &str) {
        let text = String::from_utf8_lossy(&self.output.stdout);
        // The line may begin with the launching test's own output.
        assert!(text.lines().any(|line| line.ends_with(expected)), "{self:?}");
        assert_eq!(self.numbers.unwrap()[0], 0, "{self:?}");
    }
}

struct Bench {
    root: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn compile(&self, name: &str) -> String {
        self.compile_from(name, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"))
    }

    fn compile_from(&self, name: &str, directory: &Path) -> String {
        let program: PathBuf = self.root.path().join(name);
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]).arg(directory.join(format!("{name}.c")));
        assert!(cc.arg("-o").arg(&program).status().unwrap().success(), "{name}");
        program.into_os_string().into_string().unwrap()
    }

    /// Launches a program from a process of one thread, with the words `before` in front of its command line.
    fn run(&self, before: &[&str], ahead: Option<i64>, program: &[&str]) -> Run {
        let own = std::env::current_exe().unwrap();
        let outcome = self.root.path().join("outcome");
        let _of_another_run = std::fs::remove_file(&outcome);
        let mut words: Vec<&str> = before.to_vec();
        words.push(own.to_str().unwrap());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["--exact", "launcher", "--nocapture", "--test-threads=1"]);
        command.env(OUTCOME, &outcome).env(PROGRAM, program.join("\n")).stdin(Stdio::null());
        command.envs(ahead.map(|ahead| (AHEAD, ahead.to_string())));
        let output = command.output().unwrap();
        let text = std::fs::read_to_string(&outcome).unwrap_or_default();
        let numbers: Vec<i64> = text.split(' ').filter_map(|number| number.parse().ok()).collect();
        Run { output, numbers: numbers.try_into().ok() }
    }
}

/// Fourteen years ahead, and fourteen years behind.
const FAR: [i64; 2] = [14 * 365 * 86400, -14 * 365 * 86400];

#[test]
fn waits_until_a_time_of_day_go_by_the_time_that_the_program_reads() {
    let bench = Bench::new();
    let program = bench.compile("until");
    bench.run(&["env"], None, &[&program]).said("on time");
    for ahead in FAR {
        bench.run(&["env"], Some(ahead), &[&program]).said("on time");
    }
}

/// Waits as programs in other languages do: by the C library, and by call number.
const PYTHON: &str = "import ctypes, time, threading
libc = ctypes.CDLL(None, use_errno=True)
class Time(ctypes.Structure): _fields_ = [('seconds', ctypes.c_long), ('nanoseconds', ctypes.c_long)]
semaphore = ctypes.create_string_buffer(64)
assert libc.sem_init(semaphore, 0, 0) == 0
def within(wait):
    for _ in range(10):
        begun, day = time.monotonic(), time.time() + 0.02
        wait(Time(int(day), int(day % 1 * 1e9)))
        assert time.monotonic() - begun > 0.018, wait
def semaphores(until): assert libc.sem_timedwait(semaphore, ctypes.byref(until)) == -1 and ctypes.get_errno() == 110
def sleeps(until): assert libc.clock_nanosleep(0, 1, ctypes.byref(until), None) == 0
def numbers(until): assert libc.syscall(230, 0, 1, ctypes.byref(until), None) == 0
threads = [threading.Thread(target=within, args=[wait]) for wait in (semaphores, sleeps, numbers) * 3]
for one in threads: one.start()
for one in threads: one.join(90); assert not one.is_alive()
print('on time', flush=True)";

#[test]
fn threads_of_python_wait_as_long_as_they_mean_to() {
    let bench = Bench::new();
    let file = bench.root.path().join("waits.py");
    // A failed assertion in a thread is printed, and ends only that thread.
    let text = format!(
        "import os, threading\nthreading.excepthook = lambda what: (print(what, flush=True), os._exit(1))\n{PYTHON}"
    );
    std::fs::write(&file, text).unwrap();
    for ahead in FAR {
        bench.run(&["env"], Some(ahead), &["/usr/bin/python3", file.to_str().unwrap()]).said("on time");
    }
}

#[test]
fn a_trap_keeps_what_a_system_call_keeps() {
    let bench = Bench::new();
    let program = bench.compile("kept");
    let run = bench.run(&["env"], None, &[&program]);
    run.said("kept");
    let [.., traps, _patched, calls] = run.numbers.unwrap();
    assert!(traps >= calls, "its own sites can't be patched: {run:?}");
}

#[test]
fn who_has_blocked_what_traps_are_told_by_sees_it_blocked() {
    let bench = Bench::new();
    let program = bench.compile("masks");
    let native = Command::new(&program).output().unwrap();
    assert_eq!(native.stdout, b"masked\n", "{native:?}");
    for _ in 0..3 {
        bench.run(&["env"], None, &[&program]).said("masked");
    }
}

#[test]
fn who_can_ask_nobody_for_bodies_makes_the_same_calls() {
    let bench = Bench::new();
    let program = bench.compile("many");
    let run = bench.run(&["env"], None, &[&program, "stop"]);
    run.said("kept");
    assert_eq!(run.numbers.unwrap()[5], 401, "{run:?}");
    // No supervisor is left to count.
    let run = bench.run(&["env"], None, &[&program, "kill"]);
    let text = String::from_utf8_lossy(&run.output.stdout);
    assert!(text.lines().any(|line| line.ends_with("kept")), "{run:?}");
    assert_eq!(run.numbers, None);
}

/// Runs a program in a mount namespace of its own in which `/proc` is empty.
const HIDDEN: [&str; 7] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs none /proc && test ! -e /proc/self && exec \"$@\"",
];

#[test]
fn without_proc_calls_are_counted_and_no_site_is_patched() {
    let bench = Bench::new();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/interpose");
    let program = bench.compile_from("registers", &tests);
    let shown: Vec<&str> = HIDDEN[..6].iter().copied().chain(["exec \"$@\"", "sh", &program]).collect();
    let hidden: Vec<&str> = HIDDEN.iter().copied().chain(["sh", &program]).collect();
    let [shown, without] =
        [shown, hidden].map(|words| bench.run(&["env"], None, &[&["/usr/bin/env"], &words[..]].concat()));
    for run in [&shown, &without] {
        run.said("kept");
        let [_, _, lost, _, _, calls] = run.numbers.unwrap();
        // One call is the shell's.
        assert_eq!((lost, calls), (0, 30_002), "{run:?}");
    }
    // Two of three sites can be patched if their file is known; otherwise each call traps.
    assert!((10_000..11_000).contains(&shown.numbers.unwrap()[3]), "{shown:?}");
    assert!(without.numbers.unwrap()[3] >= 30_000, "{without:?}");
    let kept = bench.compile("kept");
    let hidden: Vec<&str> = HIDDEN.iter().copied().chain(["sh", &kept]).collect();
    bench.run(&["env"], None, &[&["/usr/bin/env"], &hidden[..]].concat()).said("kept");
}

#[test]
fn where_the_supervisor_has_no_proc_calls_are_counted_all_the_same() {
    let bench = Bench::new();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/interpose");
    let program = bench.compile_from("registers", &tests);
    let before: Vec<&str> = HIDDEN.iter().copied().chain(["sh"]).collect();
    let run = bench.run(&before, None, &[&program]);
    run.said("kept");
    let [_, images, lost, traps, patched, calls] = run.numbers.unwrap();
    assert_eq!((images, lost, patched, calls), (1, 0, 0, 30_001), "{run:?}");
    assert!(traps >= 30_000, "{run:?}");
}

#[test]
fn a_debugger_and_what_it_traces_run_as_they_are() {
    let bench = Bench::new();
    let program = bench.compile("traced");
    let run = bench.run(&["timeout", "60"], None, &[&program]);
    run.said("traced");
    // Three processes asked to be traced; the parent and the program that another child executes are interposed.
    let [_, images, lost, ..] = run.numbers.unwrap();
    assert_eq!((images, lost), (2, 3), "{run:?}");
}

#[test]
fn pointers_that_point_nowhere_are_the_kernels_to_refuse() {
    let bench = Bench::new();
    let program = bench.compile("pointers");
    let native = Command::new(&program).output().unwrap();
    assert!(native.stdout.ends_with(b"all\n"), "{native:?}");
    for ahead in [None, Some(FAR[0])] {
        let run = bench.run(&["env"], ahead, &[&program]);
        run.said("all");
        let text = String::from_utf8_lossy(&run.output.stdout).into_owned();
        for line in String::from_utf8_lossy(&native.stdout).lines() {
            assert!(text.lines().any(|own| own.ends_with(line)), "{line}: {run:?}");
        }
    }
}

#[test]
fn calls_of_32_bit_programs_are_what_they_are_there() {
    let bench = Bench::new();
    let program = bench.compile("legacy");
    let native = Command::new(&program).output().unwrap();
    if native.stdout.is_empty() {
        // This kernel has none of these calls.
        return;
    }
    assert_eq!((native.status.code(), native.stdout.as_slice()), (Some(7), &b"written\n"[..]), "{native:?}");
    let run = bench.run(&["env"], None, &[&program]);
    let text = String::from_utf8_lossy(&run.output.stdout);
    assert!(
        text.lines().any(|line| line.ends_with("written")) && !text.contains("exit came back"),
        "{run:?}"
    );
    // The program makes two kinds of calls, and only the 64-bit ones are counted.
    let [code, images, lost, _, _, getppid] = run.numbers.unwrap();
    assert_eq!((code, images, lost, getppid), (7, 1, 0, 20), "{run:?}");
}

#[test]
fn programs_of_another_user_are_told_of() {
    let bench = Bench::new();
    // An ordinary user can't become another user.
    let become_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "true"];
    if !Command::new(become_other[0]).args(&become_other[1..]).status().unwrap().success() {
        return;
    }
    let run = bench.run(&["env"], None, &[&["/usr/bin/env"], &become_other[..]].concat());
    let [code, images, lost, ..] = run.numbers.unwrap();
    // `env` and `setpriv` are interposed, but not `true`, which may not attach root's segments.
    assert_eq!((code, images, lost), (0, 2, 1), "{run:?}");
}
