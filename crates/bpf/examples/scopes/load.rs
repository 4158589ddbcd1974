// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The load that runs during a measurement: a number of commands, one after another.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{WaitOptions, setpriority_process, waitpid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Result;

/// The program that starts the commands.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// A program that forks and executes, as a C program does.
    Bare,
    /// A shell.
    Shell,
}

impl Kind {
    /// The name, which is also this program's verb.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "fork+exec",
            Self::Shell => "shell",
        }
    }

    pub(crate) fn of(verb: &str) -> Option<Self> {
        [Self::Bare, Self::Shell].into_iter().find(|kind| kind.name() == verb)
    }

    /// Does the work of the load.
    pub(crate) fn work(self, count: usize) -> Result<()> {
        settle()?;
        std::io::stdin().read_to_end(&mut Vec::new())?;
        match self {
            Self::Bare => (0..count).try_for_each(|_| command()),
            Self::Shell => {
                let script = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done");
                Err(Command::new("/bin/sh").args(["-c", &script]).exec().into())
            }
        }
    }
}

/// Uses the last core that is allowed, with the highest priority there.
fn settle() -> Result<()> {
    let may = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|core| may.is_set(*core)).ok_or("no core")?;
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one)?;
    setpriority_process(None, -20)?;
    Ok(())
}

/// fork, execve, wait.
fn command() -> Result<()> {
    let path = c"/bin/true".as_ptr();
    // SAFETY: needed because `Command` starts programs by vfork, which few programs do. Sound: this process has one thread,
    // so its child may make any call; the child only executes a program or ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let words = [path, std::ptr::null()];
        // SAFETY: needed as above. The path and both lists end with a zero and outlive the call.
        unsafe { libc::execv(path, words.as_ptr()) };
        // SAFETY: needed to end without running what the parent registered for its own end; it takes a number.
        unsafe { libc::_exit(127) }
    }
    let child = rustix::process::Pid::from_raw(child).ok_or_else(std::io::Error::last_os_error)?;
    let (_, status) = waitpid(Some(child), WaitOptions::empty())?.ok_or("no child")?;
    if status.exit_status() == Some(0) { Ok(()) } else { Err("a command failed".into()) }
}

/// Starts a load, which waits for its input to end.
pub(crate) fn start(kind: Kind, count: usize) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(command.args([kind.name(), &count.to_string()]).stdin(Stdio::piped()).spawn()?)
}

/// Lets the load run and waits for its end.
pub(crate) fn finish(mut load: Child) -> Result<()> {
    drop(load.stdin.take());
    if load.wait()?.success() { Ok(()) } else { Err("the load failed".into()) }
}

/// Nanoseconds that a command takes when no program is attached.
pub(crate) fn alone(kind: Kind, count: usize) -> Result<f64> {
    let load = start(kind, count)?;
    let began = Instant::now();
    finish(load)?;
    #[expect(clippy::cast_precision_loss, reason = "some thousands of some hundred thousand nanoseconds")]
    let each = began.elapsed().as_nanos() as f64 / count as f64;
    Ok(each)
}
