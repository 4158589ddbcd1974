// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One bounded run: a process group of its own, a time limit, and nothing of it left afterwards.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

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
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::Exited(status));
        }
        if Instant::now() >= deadline {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // The group is ours: the child leads it. It may be gone already.
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(Ended::TimedOut);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills what carries `token` in its environment: daemons, victims, servers of one case.
pub fn kill_marked(token: &str) {
    let mark = format!("{MARK}={token}");
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return;
    };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(environment) = std::fs::read(process.path().join("environ")) else {
            continue;
        };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
