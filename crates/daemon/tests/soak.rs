// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a host that enforces for a long time: a hundred programs a second are executed while packages are installed and
//! removed, rules are loaded again, and file systems appear and disappear. No program that was there all the time may be
//! refused, no untrusted program may run, and the guard may not grow.
//!
//! `PALISADE_SOAK_SECONDS` sets how long; `./x test soak` uses ten minutes.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::lines::tell;
use crate::support::packages::{end, false_refusals, package};
use crate::support::{self, Bed, Settings, compile, has, host};
use palisade_protocol::guard::Status;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long without `PALISADE_SOAK_SECONDS`: enough for some installations.
const SECONDS: u64 = 15;

/// Executes one of its arguments every ten milliseconds, in turn. Prints how many it executed and which failed.
const PACER: &str = r#"
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <fcntl.h>
extern char **environ;
static volatile sig_atomic_t over;
static void end(int signal) { over = 1; }
int main(int count, char **programs) {
    struct sigaction action = { .sa_handler = end };
    sigaction(SIGTERM, &action, 0);
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    long executed = 0, failed = 0;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int turn = 1; !over; turn = turn + 1 < count ? turn + 1 : 1) {
        char *arguments[] = { programs[turn], "--version", 0 };
        pid_t child;
        int status = 0, error = posix_spawn(&child, programs[turn], &quiet, 0, arguments, environ);
        if (!error)
            while (waitpid(child, &status, 0) < 0) {}
        executed++;
        /* whoever ends this ends its child as well */
        if (!over && (error || status)) {
            failed++;
            printf("%s: %d %d\n", programs[turn], error, status);
        }
        if ((next.tv_nsec += 10000000) >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, 0);
    }
    printf("executed %ld, failed %ld\n", executed, failed);
    return 0;
}"#;

/// Programs that print their version at once.
const PROGRAMS: [&str; 8] = [
    "/usr/bin/sed",
    "/usr/bin/sort",
    "/usr/bin/grep",
    "/usr/bin/tar",
    "/usr/bin/find",
    "/usr/bin/gzip",
    "/usr/bin/bash",
    "/usr/bin/cat",
];

#[derive(Debug)]
struct Size {
    /// Private memory, not shared with other processes.
    kib: u64,
    /// Except those of processes: the guard remembers some thousands at most.
    descriptors: usize,
}

/// The guard's size at a moment when it does nothing.
fn size(bed: &Bed) -> Size {
    let pid = bed.pid();
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    let kib = private.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let is_a_process =
        |path: &Path| fs::read_link(path).is_ok_and(|target| target == Path::new("anon_inode:[pidfd]"));
    let others = descriptors.filter(|entry| !is_a_process(&entry.as_ref().unwrap().path()));
    Size { kib, descriptors: others.count() }
}

/// One round of an administrator's work.
fn round(bed: &Bed, number: u32, stranger: &[u8]) {
    let version = number % 3 + 1;
    bed.run(&format!("dpkg -i --force-downgrade /root/palisade-one_{version}.deb")).ok();
    assert_eq!(bed.run_as_user("palisade-one").ok(), format!("palisade-one {version}\n"));
    bed.run("/root/stranger").refused();
    bed.run("rm -f /root/kept && cp /usr/bin/palisade-one /root/kept && dpkg -r palisade-one").ok();
    bed.run("/root/kept").refused();
    bed.run("mkdir -p /srv/more && mount -t tmpfs more /srv/more").ok();
    bed.program("/srv/more/stranger", stranger);
    bed.wait("what was mounted is watched", |bed| !bed.run("/srv/more/stranger").worked());
    bed.run("umount /srv/more").ok();
    if number.is_multiple_of(4) {
        bed.reload_gently();
    }
}

#[test]
fn a_hundred_a_second_while_packages_come_and_go() {
    if !["fanotify", "overlay", "gcc", "apt"].into_iter().all(has) {
        return;
    }
    let seconds = std::env::var("PALISADE_SOAK_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
    let mut bed = host::unguarded("");
    bed.settings(&Settings {
        guard: "mode = \"enforce\"".into(),
        watch: "only = [\"/\", \"/srv/more\"]".into(),
        ..Settings::default()
    });
    bed.life = seconds + 230;
    for version in 1..=3 {
        package(&bed, "palisade-one", version, "");
    }
    let pacer = bed.program("/usr/local/bin/pacer", compile(PACER, &[]));
    bed.trust("20-pacer", &[&pacer]);
    let stranger = compile("int main() { return 0; }", &[]);
    bed.program("/root/stranger", &stranger);
    bed.start();
    let words: Vec<&str> = ["/usr/local/bin/pacer"]
        .into_iter()
        .chain(PROGRAMS.into_iter().filter(|path| bed.outside(path).exists()))
        .collect();
    let patience = (seconds + 100).to_string();
    let load = bed.command(support::ORDINARY, &patience, &words).stdout(Stdio::piped()).spawn().unwrap();

    let began = Instant::now();
    let (mut rounds, mut first) = (0, None::<Size>);
    while began.elapsed() < Duration::from_secs(seconds) {
        round(&bed, rounds, &stranger);
        rounds += 1;
        // By now everything was done once. The guard may be reading the database at that moment, or not yet.
        if (4..=6).contains(&rounds) {
            let now = size(&bed);
            first = Some(match first {
                Some(before) if before.kib > now.kib => before,
                _ => now,
            });
        }
    }
    let took = began.elapsed();
    let said = end(load);
    let last = said.lines().last().unwrap_or_default().to_owned();
    tell(&format!("{rounds} rounds in {} s; {last}", took.as_secs()));
    assert!(last.ends_with(" failed 0"), "{said}");

    let status: Status = bed.status();
    assert!(status.enforcing && status.alarms.is_empty(), "{:?}", status.alarms);
    let wrong: Vec<String> =
        false_refusals(&bed).into_iter().filter(|line| !line.contains("path=/usr/bin/palisade-")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    if let Some(first) = first {
        let now = size(&bed);
        tell(&format!("the guard: {first:?} at first, {now:?} after {rounds}"));
        assert!(now.descriptors <= first.descriptors + 4, "{first:?}, {now:?}");
        assert!(now.kib <= first.kib + 4096, "{first:?}, {now:?}");
    }
    bed.stop();
}
