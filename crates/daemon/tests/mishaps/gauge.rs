// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that opens and executes files all the time, and reports how long each took.

use crate::support::Bed;
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;

/// For each open or exec, prints what it was, when it began and ended in µs, and the error.
pub(crate) const PROGRAM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
static long long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000LL + at.tv_nsec / 1000;
}
static int run(const char *path) {
    char *arguments[] = { (char *)path, 0 };
    pid_t child;
    int status = 0, error = posix_spawn(&child, path, 0, 0, arguments, environ);
    if (!error)
        while (waitpid(child, &status, 0) < 0) {}
    return error ? error : status;
}
static int look(const char *path) {
    int file = open(path, O_RDONLY);
    if (file < 0)
        return errno;
    close(file);
    return 0;
}
int main(int count, char **paths) {
    setvbuf(stdout, 0, _IOLBF, 0);
    for (int turn = 0;; turn++) {
        int what = turn % 6 == 2 ? 2 : turn % 6 == 5 ? 3 : 1;
        long long begin = now();
        int error = what == 1 ? look(paths[1]) : run(paths[what]);
        if (printf("%d %lld %lld %d\n", what, begin, now(), error) < 0)
            return 0;
        usleep(8000);
    }
}"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Open,
    Trusted,
    Untrusted,
}

/// One open or exec.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) what: What,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) worked: bool,
    #[expect(dead_code, reason = "it is shown")]
    error: u64,
}

/// The running process, which measures until it is ended.
pub(crate) struct Gauge {
    child: Child,
    records: JoinHandle<Vec<Record>>,
}

/// The time by the clock that the gauge uses, in µs.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000 + u64::try_from(now.tv_nsec).unwrap() / 1000
}

impl Gauge {
    pub(crate) fn start(bed: &Bed) -> Self {
        let paths = ["gauge", "plain", "trusted", "untrusted"].map(|name| bed.at(name).display().to_string());
        let words: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut child = bed.command(0, "1200", &words).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        said.read_line(&mut first).unwrap();
        let records = std::thread::spawn(move || said.lines().map(|line| read(&line.unwrap())).collect());
        Self { child, records }
    }

    /// Ends the process. Returns what it has measured.
    pub(crate) fn end(mut self) -> Vec<Record> {
        // The process is the child of `timeout`, which limits its life.
        let pid = self.child.id();
        let below = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        for pid in below.split_whitespace() {
            let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _status = self.child.wait();
        self.records.join().unwrap()
    }
}

fn read(line: &str) -> Record {
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let [what, begin, end, error] = numbers[..] else { panic!("{line}") };
    let what = [What::Open, What::Trusted, What::Untrusted][usize::try_from(what).unwrap() - 1];
    Record { what, begin, end, worked: error == 0, error }
}
