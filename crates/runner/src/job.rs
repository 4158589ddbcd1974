// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one process with one or several tests, and reads their results.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use palisade_acceptance::patience::Patience;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::plan::Job;
use crate::reason;

/// The outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passed.
    Passed,
    /// It is marked as ignored.
    Ignored,
    /// It failed.
    Failed,
    /// It ran out of time: that says nothing about what it tests.
    NotDecided,
}

/// A test's result.
#[derive(Clone, Debug)]
pub(crate) struct TestResult {
    /// The test, by its whole name.
    pub(crate) name: String,
    /// Its outcome.
    pub(crate) verdict: Verdict,
    /// How long it took.
    pub(crate) took: Duration,
    /// The processor time of the test and of the children that it waited for. Tests that shared a process divide its
    /// processor time in proportion to their durations.
    pub(crate) busy: Option<Duration>,
    /// What it lacked, in its own words: lines that begin with `not tried`.
    pub(crate) not_tried: Vec<String>,
    /// Why it failed, in few lines. Empty if it did not fail.
    pub(crate) reason: String,
}

impl TestResult {
    /// The result of a test about which no more is known.
    pub(crate) fn new(name: &str, verdict: Verdict, took: Duration) -> Self {
        Self {
            name: name.to_owned(),
            verdict,
            took,
            busy: None,
            not_tried: Vec::new(),
            reason: String::new(),
        }
    }
}

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// A result for each of its tests.
    pub(crate) results: Vec<TestResult>,
    /// What it printed; the end of it, if that was much.
    pub(crate) output: String,
    /// How its process ended, in words.
    pub(crate) how: String,
}

/// More than this of a job's output isn't kept, in bytes.
const OUTPUT: u64 = 256 << 10;
/// What a test prints when its own waiting came to nothing.
const NOT_DECIDED: &str = "not decided: ";

/// Starts the job, waits for its end, and reads its results.
///
/// # Errors
/// If its process can't be started or waited for.
pub(crate) fn run(
    job: &Job,
    environment: Vec<(String, String)>,
    stop: &AtomicBool,
) -> std::io::Result<Ended> {
    let mut kept = temporary()?;
    let single = job.tests.len() == 1;
    let mut command = Command::new(&job.program.path);
    command.args(["--exact", "--test-threads=1"]);
    if single {
        // All output goes to the file, also that of processes which a test starts.
        command.arg("--nocapture");
    }
    command.args(job.tests.iter().map(|test| &test.own));
    command
        .current_dir(&job.program.directory)
        .env("CARGO_MANIFEST_DIR", &job.program.directory)
        .env("CARGO", crate::programs::cargo())
        .env("RUST_TEST_THREADS", "1")
        .env_remove(crate::run::FAILURES)
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(if single { Stdio::from(kept.try_clone()?) } else { Stdio::piped() })
        .stderr(Stdio::from(kept.try_clone()?))
        .process_group(0);
    let began = Instant::now();
    let mut child = command.spawn()?;
    let lines = child.stdout.take().map(follow);
    let limit = job.limit + u64::try_from(job.tests.len()).unwrap_or(u64::MAX) / 4;
    let (status, busy) = wait(&mut child, Duration::from_secs(limit), stop)?;
    let took = began.elapsed();
    let mut output = tail(&mut kept)?;
    let how =
        status.map_or_else(|| format!("it exceeded its limit of {limit} s"), |status| status.to_string());
    let mut results = match lines {
        None => vec![TestResult { busy, ..alone(job, status, took, &output) }],
        Some(lines) => {
            // A process that a test has left running may keep the pipe open.
            let lines: Vec<(Duration, String)> =
                std::iter::from_fn(|| lines.recv_timeout(Duration::from_secs(1)).ok())
                    .map(|(at, line)| (at.duration_since(began), line))
                    .collect();
            let results = together(job, status, busy, &lines);
            let text: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
            output.push_str(&text.join("\n"));
            results
        }
    };
    for test in &job.tests {
        let failed = |one: &&mut TestResult| one.name == test.name && one.verdict == Verdict::Failed;
        if let Some(result) = results.iter_mut().find(failed) {
            result.reason = reason::of(&output, &test.own);
        }
    }
    Ok(Ended { results, output, how })
}

/// A file without a name, for what a job prints.
fn temporary() -> std::io::Result<File> {
    let fd = rustix::fs::memfd_create("output of a test", rustix::fs::MemfdFlags::CLOEXEC)?;
    // Two writers share its end, as in a terminal.
    let file = File::from(fd);
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND)?;
    Ok(file)
}

/// Reads lines as they come, with the time of each.
fn follow(from: std::process::ChildStdout) -> Receiver<(Instant, String)> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if tell.send((Instant::now(), line)).is_err() {
                break;
            }
        }
    });
    told
}

/// Waits for the end of the process. Kills the process when its time is up or the run is stopped; then there is no exit
/// status. Returns its processor time, too, if the kernel reports it.
fn wait(
    child: &mut Child,
    limit: Duration,
    stop: &AtomicBool,
) -> std::io::Result<(Option<ExitStatus>, Option<Duration>)> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidData))?;
    let watched = pidfd_open(pid, PidfdFlags::empty())?;
    let mut patience = Patience::new(limit);
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(&watched, PollFlags::IN)], Some(&second)) {
            Ok(0) if patience.is_spent() || stop.load(Ordering::Relaxed) => {
                // The child leads this process group.
                let _ended = kill_process_group(pid, Signal::KILL);
                child.wait()?;
                return Ok((None, None));
            }
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => {
                // It has ended, and `/proc/PID` stays until `child.wait()`.
                let busy = processor_time(child.id());
                return Ok((Some(child.wait()?), busy));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The processor time of a process and of the children that it has waited for, from `/proc/PID/stat`.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // utime, stime, cutime, cstime: the fields 14 to 17; the second, a name, may have anything in it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').skip(11).take(4).map(|field| field.parse::<u64>().unwrap_or(0)).sum();
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

fn tail(file: &mut File) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(std::io::SeekFrom::Start(length.saturating_sub(OUTPUT)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The result of a job's only test, from the program's exit status and libtest's last line.
fn alone(job: &Job, status: Option<ExitStatus>, took: Duration, output: &str) -> TestResult {
    let succeeded = status.is_some_and(|status| status.success());
    let summary = output.lines().rev().find(|line| line.starts_with("test result: "));
    let verdict = match (status, summary) {
        (None, _) => Verdict::NotDecided,
        (Some(_), Some(line)) if succeeded && line.contains(" 1 ignored") => Verdict::Ignored,
        // A program with libtest that ran nothing has tested nothing.
        (Some(_), Some(line)) if succeeded && !line.contains(" 1 passed") => Verdict::Failed,
        (Some(_), _) if succeeded => Verdict::Passed,
        _ if output.lines().any(|line| line.starts_with(NOT_DECIDED)) => Verdict::NotDecided,
        _ => Verdict::Failed,
    };
    // The first line of a test stands behind libtest's own words, which have no end before the test's result.
    let words = |line: &str| match line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
        Some((_name, words)) => words.to_owned(),
        None => line.to_owned(),
    };
    let not_tried = output.lines().map(words).filter(|line| line.starts_with("not tried")).collect();
    let name = job.tests.first().map(|test| test.name.clone()).unwrap_or_default();
    TestResult { not_tried, ..TestResult::new(&name, verdict, took) }
}

/// The results of a job with several tests, from the line that libtest prints at the end of each.
fn together(
    job: &Job,
    status: Option<ExitStatus>,
    busy: Option<Duration>,
    lines: &[(Duration, String)],
) -> Vec<TestResult> {
    let mut last = Duration::ZERO;
    let mut results: Vec<TestResult> = Vec::new();
    for (at, line) in lines {
        let Some((own, word)) = line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... ")) else {
            continue;
        };
        let verdict = match word {
            "ok" => Verdict::Passed,
            "FAILED" => Verdict::Failed,
            word if word.starts_with("ignored") => Verdict::Ignored,
            _ => continue,
        };
        if let Some(test) = job.tests.iter().find(|test| test.own == own) {
            let took = at.saturating_sub(last);
            results.push(TestResult::new(&test.name, verdict, took));
        }
        last = *at;
    }
    for test in &job.tests {
        if !results.iter().any(|result| result.name == test.name) {
            // A time limit is no verdict on the tests that did not start. The death of the process is one.
            let verdict = if status.is_none() { Verdict::NotDecided } else { Verdict::Failed };
            results.push(TestResult::new(&test.name, verdict, Duration::ZERO));
        }
    }
    let all: Duration = results.iter().map(|result| result.took).sum();
    if let Some(busy) = busy.filter(|_| !all.is_zero()) {
        for result in &mut results {
            result.busy = Some(busy.mul_f64(result.took.div_duration_f64(all)));
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Test;
    use crate::programs::Program;
    use crate::schedule::Needs;

    /// Runs a shell script that prints what a test program would print.
    fn ran(script: &str, own: &[&str], limit: u64) -> Ended {
        use std::os::unix::fs::PermissionsExt;
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("palisade-job-{}-{number}", std::process::id()));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let job = Job {
            program: Program {
                package: "c".into(),
                target: "p".into(),
                path: path.clone(),
                directory: "/".into(),
            },
            tests: own.iter().map(|own| Test { name: format!("c/p/{own}"), own: (*own).into() }).collect(),
            needs: Needs { slots: 1, ..Needs::default() },
            limit,
            expected: 0.0,
        };
        let ended = run(&job, Vec::new(), &AtomicBool::new(false));
        std::fs::remove_file(&path).unwrap();
        ended.unwrap()
    }

    fn verdicts(ended: &Ended) -> Vec<Verdict> {
        ended.results.iter().map(|result| result.verdict.clone()).collect()
    }

    #[test]
    fn a_test_passes_only_if_libtest_says_that_it_ran() {
        let said =
            |summary: &str, code: u8| ran(&format!("echo 'test result: {summary}'; exit {code}"), &["a"], 60);
        assert_eq!(verdicts(&said("ok. 1 passed; 0 failed; 0 ignored", 0)), [Verdict::Passed]);
        assert_eq!(verdicts(&said("ok. 0 passed; 0 failed; 0 ignored", 0)), [Verdict::Failed]);
        assert_eq!(verdicts(&said("ok. 0 passed; 0 failed; 1 ignored", 0)), [Verdict::Ignored]);
        assert_eq!(verdicts(&said("FAILED. 0 passed; 1 failed", 101)), [Verdict::Failed]);
    }

    #[test]
    fn out_of_time_is_no_verdict() {
        assert_eq!(verdicts(&ran("exec sleep 60", &["a"], 1)), [Verdict::NotDecided]);
        assert_eq!(
            verdicts(&ran("echo 'not decided: no prompt'; exit 101", &["a"], 60)),
            [Verdict::NotDecided]
        );
    }

    #[test]
    fn what_was_not_tried_is_kept_with_its_reason() {
        let ended = ran("echo 'not tried: no ipv6 here' >&2; echo 'test result: ok. 1 passed;'", &["a"], 60);
        assert_eq!(ended.results[0].not_tried, ["not tried: no ipv6 here"]);
        let first = "printf 'test a ... '; echo 'not tried: no ipv6 here' >&2; echo ok; echo 'test result: ok. 1 passed;'";
        assert_eq!(ran(first, &["a"], 60).results[0].not_tried, ["not tried: no ipv6 here"]);
    }

    #[test]
    fn of_several_tests_each_has_its_own_verdict() {
        let ended = ran("echo 'test a ... ok'; echo 'test b ... FAILED'; kill -9 $$", &["a", "b", "c"], 60);
        assert_eq!(verdicts(&ended), [Verdict::Passed, Verdict::Failed, Verdict::Failed]);
        assert!(ended.how.contains("signal: 9"), "{}", ended.how);
    }

    #[test]
    fn a_failure_has_its_reason() {
        let ended = ran("echo \"thread 'a' panicked at x.rs:1:2:\"; echo because; exit 101", &["a"], 60);
        assert_eq!(ended.results[0].reason, "thread 'a' panicked at x.rs:1:2:\nbecause");
    }
}
