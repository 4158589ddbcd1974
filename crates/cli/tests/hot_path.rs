// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the cost of a launch with a kept plan, in units that don't depend on the machine's speed: system
//! calls, page faults, processes. A change that adds some fails here and must be justified.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{self, Place, everybody, has};

/// System calls of launcher, builder, init, the broker's stub and command together, `/bin/true`'s own
/// left out, as counted on Linux 6.18 (390) with a margin of a tenth. 40 are the keeper's. Most make the file tree, one for each of
/// 41 capabilities empties the bounding set, the rest start, check the plan's inputs, and wait.
const CALLS: usize = 430;
/// Pages that the launcher and the processes that it waits for get, the command's own 60 or so among them. The kernel counts
/// pages that `madvise` makes present, too; on x86-64 that are half of them. Of the release build 204 were counted, of a quick
/// build, which has none for relocations and is larger, as many. The debug build that is tested if no other is given has more: 700
/// where the kernel holds the file in large pieces, as a copy, and 810 where a linker has written it page by page.
fn most_faults() -> u64 {
    let given = std::env::var_os("PALISADE_BIN");
    match (given.is_some(), profile().as_deref()) {
        (false, _) => 900,
        // Where its functions lie differs from one build to the next: 199 from a warm target, 222 from an empty one, and
        // 231 while other tests kept both processors busy.
        (true, Some("quick")) => 245,
        // 204, and ten more while other tests keep both processors busy.
        (true, _) => 225,
    }
}

/// The profile of the build that is tested, if one is given: the name of its directory.
fn profile() -> Option<String> {
    let given = std::path::PathBuf::from(std::env::var_os("PALISADE_BIN")?);
    Some(given.parent()?.file_name()?.to_str()?.to_owned())
}

/// Launches twice, so that the plan is kept.
fn warm(place: &Place) {
    place.forget_plans();
    assert!(support::eventually(|| {
        place.run(&[], &["/bin/true"]).ok();
        place.home.join(".cache/palisade/plans").read_dir().is_ok_and(|mut plans| plans.next().is_some())
    }));
}

/// A hot launch of `/bin/true` under strace, a line each call.
fn trace(place: &Place) -> Vec<String> {
    warm(place);
    let mut strace = place.command("strace");
    strace.args(["-f", "-qq", "-e", "signal=none", "-o", "trace"]).arg(place.binary()).args([
        "run",
        "--",
        "/bin/true",
    ]);
    let run = support::job::finish(&mut strace);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    // A call that was interrupted by another's output is one call.
    place.read("work/trace").lines().filter(|line| !line.contains(" resumed>")).map(str::to_owned).collect()
}

#[test]
fn the_system_calls_of_a_launch_are_few() {
    if !has("strace") {
        return;
    }
    for place in everybody() {
        place.undisturbed(|| few_calls(&place));
    }
}

fn few_calls(place: &Place) -> Result<(), String> {
    let lines = trace(place);
    let execs: Vec<&String> =
        lines.iter().filter(|line| line.contains(" execve(") || line.contains(" execveat(")).collect();
    assert_eq!(execs.len(), 2, "the launcher's own and the command's: {execs:?}");
    if cfg!(target_arch = "x86_64") && profile().as_deref() == Some("release") {
        // The first action makes the relocated pages present.
        assert!(lines[1].contains("MADV_POPULATE_WRITE) = 0"), "{}", lines[1]);
    }
    let command = execs[1].split(' ').next().unwrap();
    let exec_at = lines.iter().position(|line| line == execs[1]).unwrap();
    let ours =
        lines.iter().enumerate().filter(|(at, line)| *at <= exec_at || !line.starts_with(command)).count();
    println!("{} calls as user {}", ours, place.uid);
    ensure(ours <= CALLS, || format!("{ours} calls:\n{}", lines.join("\n")))?;

    let clones = lines
        .iter()
        .filter(|line| line.contains(" clone") || line.contains(" fork(") || line.contains(" vfork("))
        .count();
    assert_eq!(clones, 4, "builder, init, stub, command");
    let before_exec = || lines.iter().take(exec_at);
    let opened =
        |name: &str| before_exec().filter(|line| line.contains(" open") && line.contains(name)).count();
    for never in [".toml", "/etc/passwd", "/etc/group", ".gitconfig", "/proc/self/mountinfo"] {
        ensure(opened(never) == 0, || format!("{never} is opened"))?;
    }
    ensure(opened(".plan") == 1, || format!("{} plans are opened", opened(".plan")))?;
    ensure(!before_exec().any(|line| line.contains(" getdents")), || "a directory is listed".to_owned())
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

#[test]
fn the_page_faults_of_a_launch_are_few() {
    for place in everybody() {
        place.undisturbed(|| few_faults(&place));
    }
}

fn few_faults(place: &Place) -> Result<(), String> {
    warm(place);
    // The shell's `time` would count children: GNU time isn't everywhere, python is.
    let program = "
import os, resource, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
assert status == 0
print(usage.ru_minflt)";
    let mut least = u64::MAX;
    for _ in 0..5 {
        let mut python = place.command("/usr/bin/python3");
        let run = support::job::finish(python.args(["-c", program]).arg(place.binary()).args([
            "run",
            "--",
            "/bin/true",
        ]));
        least = least.min(run.ok().parse().unwrap());
    }
    println!("{least} page faults as user {}", place.uid);
    ensure(least <= most_faults(), || format!("{least} page faults"))
}
