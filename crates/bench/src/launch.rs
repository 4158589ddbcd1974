// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one command once, and measures its time and its resources, its exit status and its output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_sys::usage::{Usage, wait_with_usage};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::watchdog::Watchdog;

/// Longer output is cut here. The comparison with the expected output then fails, as it should.
const MAX_OUTPUT: usize = 1 << 20;

/// Errors of the bench itself, as opposed to failures of what it measures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("can't open {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("can't use the file that catches the output")]
    Output { source: io::Error },
    #[error("can't wait for {program}")]
    Wait { program: String, source: io::Error },
    #[error("stopped by a signal")]
    Stopped,
}

/// A command with its complete argument vector.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) argv: Vec<OsString>,
    pub(crate) directory: PathBuf,
    /// Variables for the command, in addition to those of this process.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

impl Invocation {
    pub(crate) fn program(&self) -> &OsStr {
        self.argv.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// The command line as a user would type it.
    pub(crate) fn display(&self) -> String {
        shell_words::join(self.argv.iter().map(|word| word.to_string_lossy()))
    }
}

/// A run that ended.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The time from before the spawn until the process has ended and is reaped (CLOCK_MONOTONIC).
    pub(crate) wall: Duration,
    pub(crate) usage: Usage,
    pub(crate) status: ExitStatus,
    pub(crate) timed_out: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Run {
    /// The exit code as a shell gives it: 128+N for signal N.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }
}

/// The result of starting a command.
#[derive(Clone, Debug)]
pub(crate) enum Launched {
    Ended(Run),
    /// The program couldn't be started. This is a result about the program, and no error of the bench.
    NotStarted(String),
}

/// Starts commands, one at a time.
///
/// Output goes to two files that every run uses again, and not to pipes. A full pipe would block the command until a reader
/// reads, and a reading thread would compete with the measured command for the processor.
#[derive(Debug)]
pub(crate) struct Launcher {
    stdout: File,
    stderr: File,
    watchdog: Watchdog,
    stop: Arc<AtomicBool>,
    limit: Duration,
}

impl Launcher {
    pub(crate) fn new(scratch: &Path, limit: Duration, stop: &Arc<AtomicBool>) -> Result<Self, LaunchError> {
        let open = |name: &str| {
            let path = scratch.join(name);
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .map_err(|source| LaunchError::Open { path, source })
        };
        Ok(Self {
            stdout: open("stdout")?,
            stderr: open("stderr")?,
            watchdog: Watchdog::start(Arc::clone(stop)),
            stop: Arc::clone(stop),
            limit,
        })
    }

    /// Runs `invocation` to its end.
    pub(crate) fn run(&self, invocation: &Invocation) -> Result<Launched, LaunchError> {
        let mut command = self.prepare(invocation)?;
        let start = Instant::now();
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Launched::NotStarted(error.to_string())),
        };
        let pid = Pid::from_child(&child);
        self.watchdog.arm(pid, self.limit);
        let wait_error = |source| LaunchError::Wait {
            program: invocation.program().to_string_lossy().into_owned(),
            source,
        };
        // Wait without reaping first: as long as the zombie exists, the watchdog can't signal another process with the same
        // id.
        loop {
            match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(wait_error(errno.into())),
            }
        }
        let told_to_end = self.watchdog.disarm();
        let (status, usage) = wait_with_usage(pid).map_err(wait_error)?;
        let wall = start.elapsed();
        if self.stop.load(Ordering::Relaxed) {
            return Err(LaunchError::Stopped);
        }
        Ok(Launched::Ended(Run {
            wall,
            usage,
            status,
            timed_out: told_to_end,
            stdout: read_back(&self.stdout)?,
            stderr: read_back(&self.stderr)?,
        }))
    }

    fn prepare(&self, invocation: &Invocation) -> Result<Command, LaunchError> {
        let output = |source| LaunchError::Output { source };
        for file in [&self.stdout, &self.stderr] {
            file.set_len(0).map_err(output)?;
            // The child's descriptor shares this offset.
            rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0)).map_err(|errno| output(errno.into()))?;
        }
        let mut command = Command::new(invocation.program());
        command
            .args(invocation.argv.iter().skip(1))
            .current_dir(&invocation.directory)
            // The output that is compared must not depend on the user's language or git configuration. Some sandboxes hide
            // these.
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(invocation.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(self.stdout.try_clone().map_err(output)?)
            .stderr(self.stderr.try_clone().map_err(output)?);
        Ok(command)
    }
}

fn read_back(file: &File) -> Result<Vec<u8>, LaunchError> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while bytes.len() < MAX_OUTPUT {
        match file.read_at(&mut chunk, bytes.len() as u64) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(LaunchError::Output { source }),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> Launched {
        let scratch = tempfile::tempdir().unwrap();
        let launcher = Launcher::new(scratch.path(), limit, &Arc::default()).unwrap();
        let argv = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
        launcher
            .run(&Invocation { argv, directory: scratch.path().to_owned(), variables: Vec::new() })
            .unwrap()
    }

    fn ended(launched: Launched) -> Run {
        match launched {
            Launched::Ended(run) => run,
            Launched::NotStarted(why) => panic!("not started: {why}"),
        }
    }

    #[test]
    fn captures_output_and_exit_code() {
        let run = ended(run("echo out; echo err >&2; exit 3", Duration::from_secs(60)));
        assert_eq!(
            (run.code(), run.stdout.as_slice(), run.stderr.as_slice()),
            (3, &b"out\n"[..], &b"err\n"[..])
        );
        assert!(!run.timed_out && run.wall > Duration::ZERO);
    }

    #[test]
    fn the_output_of_the_run_before_is_gone() {
        let scratch = tempfile::tempdir().unwrap();
        let launcher = Launcher::new(scratch.path(), Duration::from_secs(60), &Arc::default()).unwrap();
        for text in ["a long first line", "x"] {
            let argv = ["/bin/echo", text].map(OsString::from).to_vec();
            let run = ended(
                launcher
                    .run(&Invocation { argv, directory: scratch.path().to_owned(), variables: Vec::new() })
                    .unwrap(),
            );
            assert_eq!(run.stdout, format!("{text}\n").into_bytes());
        }
    }

    #[test]
    fn ends_what_takes_too_long() {
        let run = ended(run("exec sleep 60", Duration::from_millis(50)));
        assert!(run.timed_out);
        assert_eq!(run.code(), 128 + 15);
    }

    #[test]
    fn a_program_that_does_not_exist_is_a_result() {
        let scratch = tempfile::tempdir().unwrap();
        let launcher = Launcher::new(scratch.path(), Duration::from_secs(60), &Arc::default()).unwrap();
        let argv = vec![scratch.path().join("absent").into_os_string()];
        assert!(matches!(
            launcher
                .run(&Invocation { argv, directory: scratch.path().to_owned(), variables: Vec::new() })
                .unwrap(),
            Launched::NotStarted(_)
        ));
    }
}
