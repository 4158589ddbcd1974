// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One bounded run: a process group of its own, a time limit, and nothing of it left afterwards.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::patience::Patience;

/// The path of a plain login; a developer's own (shims in a home) may be unreachable for others.
pub const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment variable by which strays are found.
pub const MARK: &str = "PALISADE_ACCEPTANCE";

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// It was killed at its time limit.
    TimedOut,
}

impl Ended {
    /// The exit code as a shell would tell it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        match self {
            Ended::Exited(status) => status.code().or_else(|| status.signal().map(|signal| 128 + signal)),
            Ended::TimedOut => None,
        }
    }
}

/// Runs `argv` as `uid` and `gid` in `directory`, its output going to files.
///
/// # Errors
/// If it can't be started or waited for.
#[expect(clippy::too_many_arguments, reason = "each is one line of the process's birth certificate")]
pub fn run(
    argv: &[String],
    uid: u32,
    gid: u32,
    directory: &Path,
    environment: &[(String, String)],
    stdout: &Path,
    stderr: &Path,
    limit: Duration,
) -> io::Result<Ended> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(File::options().append(true).create(true).open(stdout)?)
        .stderr(File::options().append(true).create(true).open(stderr)?)
        .process_group(0);
    if rustix::process::geteuid().is_root() {
        // As root the standard library drops the supplementary groups too.
        command.uid(uid).gid(gid);
    }
    let mut child = command.spawn()?;
    if let Some(status) = wait(&mut child, limit)? {
        return Ok(Ended::Exited(status));
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The group is ours: the child leads it. It may be gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    Ok(Ended::TimedOut)
}

/// Waits for the end of `child`, which wakes us, but no longer than `limit`, which grows with the machine's load.
///
/// # Errors
/// If it can't be waited for.
pub fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let mut patience = Patience::new(limit);
    // Between two looks at the load.
    let pause = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    loop {
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if patience.is_spent() {
            return Ok(None);
        }
    }
}

/// How often processes are looked at again that are just starting a program, a millisecond after one another.
const EXECS: u32 = 500;

/// The processes that a run may leave behind: those that got their numbers after it began. So the environments of all
/// other processes need not be read after each run.
#[derive(Debug)]
pub struct Brood {
    /// The last number given, and how many were ever given.
    before: Option<(i32, u64)>,
}

impl Brood {
    /// From now on.
    #[must_use]
    pub fn begin() -> Brood {
        Brood { before: last_number().zip(forks()) }
    }

    /// Kills what carries `token` in its environment: daemons, victims, servers of one case.
    pub fn kill_marked(&self, token: &str) {
        for _ in 0..EXECS {
            if !self.kill_those_marked(token) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether a process is there that has no environment yet.
    fn kill_those_marked(&self, token: &str) -> bool {
        let mark = format!("{MARK}={token}");
        let mut starting = false;
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return false;
        };
        let range = self.before.and_then(|before| young(before, last_number()?, forks()?, most_numbers()?));
        for process in processes.flatten() {
            let name = process.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            if range.is_some_and(|range| !range.holds(pid)) {
                continue;
            }
            let Ok(environment) = std::fs::read(process.path().join("environ")) else {
                continue;
            };
            starting |= environment.is_empty() && is_starting(&process.path());
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
                && let Some(pid) = Pid::from_raw(pid)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        starting
    }
}

/// Whether a process is between two programs: it has memory, but neither arguments nor an environment.
fn is_starting(process: &Path) -> bool {
    let has_memory = || {
        let pages = std::fs::read_to_string(process.join("statm")).ok()?;
        pages.split_whitespace().next()?.parse::<u64>().ok()
    };
    std::fs::read(process.join("cmdline")).is_ok_and(|arguments| arguments.is_empty())
        && has_memory().is_some_and(|pages| pages > 0)
}

/// Numbers after one and up to another. The kernel gives them in order and begins anew after the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    after: i32,
    to: i32,
}

impl Range {
    fn holds(self, pid: i32) -> bool {
        if self.after <= self.to {
            pid > self.after && pid <= self.to
        } else {
            pid > self.after || pid <= self.to
        }
    }
}

/// The numbers given since; nothing where so many were given that any process may be meant.
fn young((after, forks): (i32, u64), to: i32, forks_now: u64, most: u64) -> Option<Range> {
    let given = forks_now.checked_sub(forks)?;
    // Numbers in use are passed over: a round is shorter than the number of numbers.
    (given < most / 4 && (given > 0 || after == to)).then_some(Range { after, to })
}

/// The number that the kernel gave last (the end of `/proc/loadavg`).
fn last_number() -> Option<i32> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split_whitespace().last()?.parse().ok()
}

/// How many processes and threads the kernel has made.
fn forks() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("processes "))?.trim().parse().ok()
}

fn most_numbers() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/kernel/pid_max").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_given_since_are_told_beyond_the_end_too() {
        let straight = young((100, 7), 120, 27, 32768).unwrap();
        assert!(straight.holds(101) && straight.holds(120) && !straight.holds(100) && !straight.holds(121));
        let around = young((32700, 7), 350, 127, 32768).unwrap();
        assert!(around.holds(32701) && around.holds(350) && !around.holds(32700) && !around.holds(351));
        assert_eq!(young((100, 7), 120, 32775, 32768), None, "a whole round");
        assert_eq!(young((100, 7), 120, 7, 32768), None, "the numbers went on, the count did not");
        assert!(!young((100, 7), 100, 7, 32768).unwrap().holds(100));
    }

    #[test]
    fn what_a_run_leaves_behind_is_killed_and_nothing_else() {
        let directory = std::env::temp_dir();
        let token = format!("test-{}", std::process::id());
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut stranger = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let out = directory.join(format!("palisade-acc-{token}"));
        let brood = Brood::begin();
        let line = ["/bin/sh", "-c", "sleep 60 & echo $!"].map(String::from);
        let environment = [(MARK.to_owned(), token.clone())];
        let limit = Duration::from_secs(10);
        let ended = run(&line, uid, gid, &directory, &environment, &out, &out, limit).unwrap();
        assert_eq!(ended.code(), Some(0));
        let said = std::fs::read_to_string(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        let lives = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", said.trim())).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z")
        };
        assert!(lives(), "it was left behind");
        brood.kill_marked(&token);
        assert!(crate::patience::eventually(limit, || !lives()));
        assert!(stranger.try_wait().unwrap().is_none(), "it is not of this run");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn a_limit_ends_what_hangs_with_its_group() {
        let directory = std::env::temp_dir();
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let out = directory.join(format!("palisade-acc-hangs-{}", std::process::id()));
        let line = ["/bin/sh", "-c", "sleep 60 & echo $!; wait"].map(String::from);
        let ended = run(&line, uid, gid, &directory, &[], &out, &out, Duration::from_millis(300)).unwrap();
        assert!(matches!(ended, Ended::TimedOut), "{ended:?}");
        std::fs::remove_file(&out).unwrap();
    }
}
