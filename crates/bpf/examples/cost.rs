// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the nanoseconds of a verdict at exec by the kernel's run-time statistics, on a host whose security hooks accept
//! no programs. The guard's matrix code runs at a tracepoint instead. `src/programs/cost.bpf.c` says what differs.
//!
//! `cargo run --release -p palisade-bpf --example cost [EXECS [ROUNDS]]`, as root. The programs are attached alone, one
//! after another in each round. Every figure, also `nothing`, includes the cost of the statistics (two clock readings).

use std::error::Error;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cost.bpf.o"));

/// As in `layout.rs`: enforcing, first table, generation 1.
const SETTINGS: [u8; 24] = [2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Class 3, generation 1, confirmed.
const RECORD: [u8; 16] = [3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, left] = words.as_slice()
        && word == "again"
    {
        return again(left);
    }
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let execs = arguments.next().transpose()?.unwrap_or(4000);
    let rounds = arguments.next().transpose()?.unwrap_or(5);
    let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
    fill(&object)?;
    // SAFETY: needed because libbpf-rs lacks the call. Sound: it takes a number and returns a descriptor or a negative
    // number.
    let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: needed to close the descriptor at the end. Sound: it is open, and no other code owns it.
    let _statistics = unsafe { OwnedFd::from_raw_fd(descriptor) };

    let cases = [
        ("nothing", "cost_nothing", false),
        ("verdict, subject without class", "cost_verdict", false),
        ("verdict, subject with class", "cost_verdict", true),
        ("all, subject without class", "cost_all", false),
        ("all, subject with class", "cost_all", true),
    ];
    let mut figures = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((_, program, marked), figures) in cases.iter().zip(&mut figures) {
            figures.push(measure(&object, program, *marked, execs)?);
        }
    }
    for ((name, _, _), figures) in cases.iter().zip(&mut figures) {
        figures.sort_by(f64::total_cmp);
        println!(
            "{name:32} {:6.0} ns ({:.0} to {:.0})",
            figures[rounds / 2],
            figures[0],
            figures[rounds - 1]
        );
    }
    Ok(())
}

fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>, Box<dyn Error>> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| format!("no map {name}").into())
}

/// Gives this program class 3, which every task may execute.
fn fill(object: &Object) -> Result<(), Box<dyn Error>> {
    map(object, "settings")?.update(&[0; 4], &SETTINGS, MapFlags::ANY)?;
    let mut table = vec![0xff; 1280];
    table[..1024].chunks_exact_mut(8).for_each(|row| row.copy_from_slice(&8_u64.to_ne_bytes()));
    map(object, "tables")?.update(&[0; 4], &table, MapFlags::ANY)?;
    let metadata = std::fs::metadata(std::env::current_exe()?)?;
    let (major, minor) = (rustix::fs::major(metadata.st_dev()), rustix::fs::minor(metadata.st_dev()));
    let device = u64::from(major << 20 | minor);
    let place = [metadata.st_ino(), device].map(u64::to_ne_bytes).concat();
    map(object, "places")?.update(&place, &RECORD, MapFlags::ANY)?;
    Ok(())
}

/// Nanoseconds per run, while a child executes itself again and again; a task's storage outlives its execs.
fn measure(object: &Object, program: &str, marked: bool, execs: usize) -> Result<f64, Box<dyn Error>> {
    let program = object.progs_mut().find(|found| found.name() == program).ok_or("no such program")?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["again", &execs.to_string()])
        .stdin(Stdio::piped())
        .spawn()?;
    if marked {
        let pid = Pid::from_raw(i32::try_from(child.id())?).ok_or("process 0")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        map(object, "subjects")?.update(&pidfd.as_raw_fd().to_ne_bytes(), &RECORD, MapFlags::ANY)?;
    }
    let _link = program.attach_trace()?;
    let before = run_time(program.as_fd())?;
    drop(child.stdin.take());
    child.wait()?;
    let after = run_time(program.as_fd())?;
    #[expect(clippy::cast_precision_loss, reason = "some thousands of runs of some hundred nanoseconds")]
    Ok((after.0 - before.0) as f64 / (after.1 - before.1) as f64)
}

/// Nanoseconds and runs so far.
fn run_time(program: BorrowedFd<'_>) -> Result<(u64, u64), Box<dyn Error>> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
    let field = |name: &str| -> Result<u64, Box<dyn Error>> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or("no statistics")?;
        Ok(line.trim().parse()?)
    };
    Ok((field("run_time_ns:")?, field("run_cnt:")?))
}

/// The child's main function: waits for the end of its input, then executes itself `left` times.
fn again(left: &str) -> Result<(), Box<dyn Error>> {
    let left: usize = left.parse()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    if left == 0 {
        return Ok(());
    }
    Err(Command::new("/proc/self/exe").args(["again", &(left - 1).to_string()]).exec().into())
}
