// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one [`super::client`] step by step: reads what it prints, and measures the processes of the sandbox around it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::client::READY;
use crate::launch::{Invocation, LaunchError};
use crate::workload::{Failure, first_line};

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How often to check whether the bench must stop.
const TICK: Duration = Duration::from_millis(200);
/// The longest output of a client, in bytes.
const MAX_SAID: usize = 64 << 10;

/// The cost of the sandbox's own processes, without the client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Seconds of processor time.
    pub(crate) work: f64,
    /// Bytes of memory that they don't share.
    pub(crate) memory: u64,
}

/// The result of one step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The time since before the spawn, in seconds.
    pub(crate) at: f64,
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) cost: Cost,
}

/// Runs `invocation`, a client with this number of steps, to its end. `helper` is the client's program.
pub(crate) fn attend(
    invocation: &Invocation,
    helper: &Path,
    steps: usize,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Result<Vec<Step>, Failure>, LaunchError> {
    let start = Instant::now();
    let spawned = Command::new(invocation.program())
        .args(invocation.argv.iter().skip(1))
        .current_dir(&invocation.directory)
        .env("LC_ALL", "C")
        .envs(invocation.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Ok(Err(Failure::NotStarted { why: error.to_string() })),
    };
    let talk = Talk { start, deadline: start + limit, helper, stop };
    let outcome = talk.steps(&mut child, steps);
    // Closing the client's standard input tells it not to wait any more.
    drop(child.stdin.take());
    let ended = talk.end(&mut child, matches!(outcome, Ok(Some(_))));
    if stop.load(Ordering::Relaxed) {
        return Err(LaunchError::Stopped);
    }
    let wait =
        |source| LaunchError::Wait { program: invocation.program().to_string_lossy().into_owned(), source };
    let (status, timed_out) = ended.map_err(wait)?;
    let steps = outcome.map_err(wait)?;
    Ok(match (steps, timed_out) {
        (_, true) => Err(Failure::TimedOut),
        (Some(steps), _) if status.success() => Ok(steps),
        _ => {
            let mut said = Vec::new();
            // The message is optional: the failure itself is known.
            let _ = child.stderr.take().map(|stderr| stderr.take(MAX_SAID as u64).read_to_end(&mut said));
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            Err(Failure::Exit { code, said: first_line(&said) })
        }
    })
}

struct Talk<'a> {
    start: Instant,
    deadline: Instant,
    helper: &'a Path,
    stop: &'a AtomicBool,
}

impl Talk<'_> {
    /// `None` if the client ended before its last step or took too long.
    fn steps(&self, child: &mut Child, wanted: usize) -> io::Result<Option<Vec<Step>>> {
        let pid = child.id();
        let (Some(mut stdout), Some(mut stdin)) = (child.stdout.take(), child.stdin.take()) else {
            return Ok(None);
        };
        let mut steps = Vec::with_capacity(wanted);
        let mut said = Vec::new();
        while steps.len() < wanted {
            let Some(text) = self.step(&mut stdout, &mut said)? else { return Ok(None) };
            let at = self.start.elapsed().as_secs_f64();
            steps.push(Step { at, figures: figures(&text), cost: cost(pid, self.helper) });
            if steps.len() < wanted && stdin.write_all(b"\n").is_err() {
                return Ok(None);
            }
        }
        Ok(Some(steps))
    }

    /// Reads what the client prints until it is ready.
    fn step(&self, stdout: &mut ChildStdout, said: &mut Vec<u8>) -> io::Result<Option<String>> {
        let end = format!("{READY}\n");
        loop {
            if said.ends_with(end.as_bytes()) {
                return Ok(Some(String::from_utf8_lossy(&std::mem::take(said)).into_owned()));
            }
            if Instant::now() >= self.deadline || self.stop.load(Ordering::Relaxed) || said.len() > MAX_SAID {
                return Ok(None);
            }
            let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
            let ready = poll(&mut [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)], Some(&tick));
            match ready {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            let mut part = [0; 4096];
            match stdout.read(&mut part)? {
                0 => return Ok(None),
                length => said.extend(&part[..length]),
            }
        }
    }

    /// Waits for the client's end, and ends it if it takes too long. Returns true if that was necessary.
    fn end(&self, child: &mut Child, complete: bool) -> io::Result<(std::process::ExitStatus, bool)> {
        let late = |at: Instant| Instant::now() >= at;
        let patience = if complete { self.deadline.max(Instant::now() + GRACE) } else { self.deadline };
        let mut asked: Option<Instant> = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, asked.is_some()));
            }
            match asked {
                None if late(patience) || self.stop.load(Ordering::Relaxed) => {
                    let pid = rustix::process::Pid::from_child(child);
                    // The child isn't reaped yet, so this id still belongs to it.
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                    asked = Some(Instant::now());
                }
                Some(at) if late(at + GRACE) => child.kill()?,
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn figures(text: &str) -> BTreeMap<String, f64> {
    let figure = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
        Some((name.to_owned(), value))
    };
    text.lines().filter_map(figure).collect()
}

/// The cost of `root` and all processes below it, except the client.
fn cost(root: u32, helper: &Path) -> Cost {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(parent) = parent(&fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default())
        {
            parents.insert(pid, parent);
        }
    }
    let mut cost = Cost::default();
    for pid in below(root, &parents) {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.split(|&byte| byte == 0).next() == Some(helper.as_os_str().as_bytes()) {
            continue;
        }
        cost.work += work(pid);
        cost.memory += memory(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default());
    }
    cost
}

/// The fourth field. The second one is in parentheses and may contain any character.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn below(root: u32, parents: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
    let mut all = BTreeSet::from([root]);
    loop {
        let before = all.len();
        all.extend(
            parents
                .iter()
                .filter(|(_, parent)| all.contains(parent))
                .map(|(&pid, _)| pid)
                .collect::<Vec<_>>(),
        );
        if all.len() == before {
            return all;
        }
    }
}

/// The processor time of all threads, to the nanosecond.
fn work(pid: u32) -> f64 {
    let nanoseconds = |task: fs::DirEntry| -> Option<f64> {
        fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(nanoseconds).sum::<f64>() / 1e9
}

/// The memory that isn't shared with a file: anonymous memory, in bytes.
fn memory(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, steps: usize) -> Result<Vec<Step>, Failure> {
        let argv = ["/bin/sh", "-c", script].map(std::ffi::OsString::from).to_vec();
        let invocation = Invocation { argv, directory: "/".into(), variables: Vec::new() };
        let limit = Duration::from_millis(1500);
        attend(&invocation, Path::new("/helper"), steps, limit, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn steps_are_followed() {
        let steps = run("echo a 0.5; echo ready; read -r x; echo b 2; echo ready; read -r x; exit 0", 2);
        let steps = steps.unwrap();
        assert_eq!((steps[0].figures["a"], steps[1].figures["b"]), (0.5, 2.0));
        assert!(steps[1].at >= steps[0].at && steps[0].cost.memory > 0);
    }

    #[test]
    fn what_fails_or_hangs_is_a_failure() {
        let failure = run("echo ready; echo broken >&2; exit 3", 2).unwrap_err();
        assert_eq!(failure.to_string(), "exit code 3: broken");
        assert!(matches!(run("echo ready; read -r x; exit 4", 1), Err(Failure::Exit { code: 4, .. })));
        assert_eq!(run("exec sleep 60", 1).unwrap_err(), Failure::TimedOut);
    }

    #[test]
    fn proc_is_read() {
        assert_eq!(parent("12 (a) b) R 7 12 12"), Some(7));
        assert_eq!(parent(""), None);
        assert_eq!(memory("VmRSS:\t9 kB\nRssAnon:\t     128 kB\n"), 128 << 10);
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 1), (5, 3)]);
        assert_eq!(below(2, &parents), BTreeSet::from([2, 3, 5]));
        assert!(work(std::process::id()) > 0.0);
    }
}
