// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the lifecycle hooks of a launch: takes the home's lock, runs programs outside before, beside and after the
//! command, and interprets the exit code.

use crate::plan::{Hook, Lifecycle, Lock};
use palisade_policy::launch::{Capture, When};
use palisade_policy::word::HomeLock;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Why a launch can't continue.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// Another sandbox uses the home.
    #[error("another sandbox uses the home {path}")]
    Locked {
        /// The lock's file.
        path: String,
        /// The policy says that this launch gets an overlay of the home.
        overlay: bool,
    },
    /// The lock can't be taken.
    #[error("can't lock the home {path}: {source}")]
    Lock {
        /// The lock's file.
        path: String,
        /// Why.
        source: Errno,
    },
    /// A hook can't be started.
    #[error("can't start hook {command:?}: {source}")]
    Start {
        /// The command line.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// A hook failed.
    #[error("hook {command:?} failed: {status}")]
    Failed {
        /// The command line.
        command: String,
        /// How it failed.
        status: ExitStatus,
    },
    /// The log can't be written.
    #[error("can't write the log {path}: {source}")]
    Log {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A hook can't receive the command's output.
    #[error("can't give the command's output to a hook: {source}")]
    Capture {
        /// Why.
        source: Errno,
    },
}

impl LifecycleError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Locked { .. } => {
                "palisade open --home-name NAME …   # another home; or end the other sandbox: palisade ps"
                    .to_owned()
            }
            Self::Lock { .. } => "palisade open --home none …   # an empty home".to_owned(),
            Self::Start { .. } | Self::Failed { .. } => {
                "palisade profile show NAME   # shows its hooks; may_fail = true ignores a failure".to_owned()
            }
            Self::Log { .. } => "XDG_STATE_HOME=DIRECTORY palisade open …".to_owned(),
            Self::Capture { .. } => return None,
        })
    }
}

impl Lifecycle<'_> {
    /// Whether the launcher has work while the command runs, or after its end.
    #[must_use]
    pub fn needs_launcher(&self) -> bool {
        self.lock.is_some()
            || !self.hooks.is_empty()
            || !self.ignore_exit.is_empty()
            || self.stats
            || self.trace
    }

    /// Interprets an exit code: some codes count as success.
    #[must_use]
    pub fn code(&self, code: u8) -> u8 {
        if self.ignore_exit.contains(&code) { 0 } else { code }
    }
}

/// How long a hook that receives the command's output may run after the command's end.
const PATIENCE: Duration = Duration::from_secs(2);
/// A larger log is renamed. It replaces the log that was renamed before.
const LARGEST_LOG: u64 = 16 << 20;

/// The helper processes and the lock that a sandbox has while it lives.
#[derive(Debug)]
pub struct Company<'c> {
    lifecycle: &'c Lifecycle<'c>,
    /// The helper processes, and whether each one ends by itself when its input ends.
    attached: Vec<(Child, bool)>,
    parent: Option<Child>,
    /// The original standard output and error, from before hooks received them; the last first.
    taken: Vec<(Capture, OwnedFd)>,
    _lock: Option<OwnedFd>,
}

impl<'c> Company<'c> {
    /// Takes the lock and runs what is to run before.
    ///
    /// # Errors When the lock is held, or when a hook fails that must not fail. Processes that were started are ended
    /// then.
    pub fn begin(lifecycle: &'c Lifecycle<'c>) -> Result<Self, LifecycleError> {
        let lock = lifecycle.lock.as_ref().map(take).transpose()?;
        let mut company =
            Self { lifecycle, attached: Vec::new(), parent: None, taken: Vec::new(), _lock: lock };
        for hook in lifecycle.hooks.iter().filter(|hook| hook.when != When::After) {
            company.run(hook)?;
        }
        if let Some(log) = &lifecycle.log {
            company.log(log.as_path())?;
        }
        Ok(company)
    }

    /// Appends the output to a file by `tee`, because `tee` continues where a thread of the launcher couldn't.
    fn log(&mut self, file: &Path) -> Result<(), LifecycleError> {
        let failed = |source| LifecycleError::Log { path: file.to_string_lossy().into_owned(), source };
        prepare_log(file).map_err(failed)?;
        for capture in [Capture::Output, Capture::Error] {
            let out = match capture {
                Capture::Output => rustix::stdio::stdout().try_clone_to_owned(),
                Capture::Error => rustix::stdio::stderr().try_clone_to_owned(),
            };
            let mut tee = Command::new("tee");
            tee.arg("-a").arg("--").arg(file).stdin(Stdio::piped()).stdout(out.map_err(failed)?);
            let mut child = tee.spawn().map_err(failed)?;
            let input = child.stdin.take();
            self.attached.push((child, true));
            if let Some(input) = input {
                self.capture(capture, &OwnedFd::from(input))?;
            }
        }
        Ok(())
    }

    fn run(&mut self, hook: &Hook<'_>) -> Result<(), LifecycleError> {
        let beside = hook.attach || hook.when == When::Parent;
        let mut command = command(hook);
        if beside && hook.capture.is_some() {
            command.stdin(Stdio::piped());
        }
        let started = command.spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(_source) if hook.may_fail => return Ok(()),
            Err(source) => return Err(LifecycleError::Start { command: words(hook), source }),
        };
        if !beside {
            return ended(hook, &mut child);
        }
        let input = child.stdin.take();
        if hook.when == When::Parent {
            self.parent = Some(child);
        } else {
            self.attached.push((child, hook.capture.is_some()));
        }
        match (hook.capture, input) {
            (Some(capture), Some(input)) => self.capture(capture, &OwnedFd::from(input)),
            _ => Ok(()),
        }
    }

    /// Replaces a standard stream with a hook's input. The command inherits it.
    fn capture(&mut self, capture: Capture, input: &OwnedFd) -> Result<(), LifecycleError> {
        let failed = |source| LifecycleError::Capture { source };
        let before = match capture {
            Capture::Output => rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3),
            Capture::Error => rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3),
        };
        self.taken.push((capture, before.map_err(failed)?));
        match capture {
            Capture::Output => rustix::stdio::dup2_stdout(input),
            Capture::Error => rustix::stdio::dup2_stderr(input),
        }
        .map_err(failed)
    }

    /// The process that the sandbox is to end with, if there is one.
    #[must_use]
    pub fn parent(&self) -> Option<i32> {
        self.parent.as_ref().and_then(|child| i32::try_from(child.id()).ok())
    }

    /// Ends the helper processes, and runs the hooks that come after.
    ///
    /// # Errors
    /// When a hook fails that must not fail.
    pub fn end(mut self) -> Result<(), LifecycleError> {
        self.part();
        for hook in self.lifecycle.hooks.iter().filter(|hook| hook.when == When::After) {
            match command(hook).spawn() {
                Ok(mut child) => ended(hook, &mut child)?,
                Err(_source) if hook.may_fail => {}
                Err(source) => return Err(LifecycleError::Start { command: words(hook), source }),
            }
        }
        Ok(())
    }

    fn part(&mut self) {
        while let Some((capture, before)) = self.taken.pop() {
            let _as_before = match capture {
                Capture::Output => rustix::stdio::dup2_stdout(&before),
                Capture::Error => rustix::stdio::dup2_stderr(&before),
            };
        }
        for (mut child, ends) in self.attached.drain(..).rev() {
            // A hook that receives the output sees its end, and gets time to react to the end.
            let patience = Instant::now() + if ends { PATIENCE } else { Duration::ZERO };
            while ends && matches!(child.try_wait(), Ok(None)) && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(2));
            }
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw)
                && matches!(child.try_wait(), Ok(None))
            {
                let _ended_meanwhile = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let _its_end = child.wait();
        }
    }
}

/// On drop: ends and reaps the helper processes.
impl Drop for Company<'_> {
    fn drop(&mut self) {
        self.part();
    }
}

fn ended(hook: &Hook<'_>, child: &mut Child) -> Result<(), LifecycleError> {
    match child.wait() {
        Ok(status) if status.success() || hook.may_fail => Ok(()),
        Ok(status) => Err(LifecycleError::Failed { command: words(hook), status }),
        Err(source) => Err(LifecycleError::Start { command: words(hook), source }),
    }
}

fn words(hook: &Hook<'_>) -> String {
    hook.command.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn command(hook: &Hook<'_>) -> Command {
    let mut words = hook.command.iter().map(|word| OsStr::from_bytes(word.as_bytes()));
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    if let Some(environment) = &hook.environment {
        command.env_clear();
        command.envs(
            environment.iter().map(|(name, value)| {
                (OsStr::from_bytes(name.as_bytes()), OsStr::from_bytes(value.as_bytes()))
            }),
        );
    }
    if hook.when != When::Parent {
        // The terminal is the command's.
        command.stdin(Stdio::null());
    }
    command
}

fn take(lock: &Lock<'_>) -> Result<OwnedFd, LifecycleError> {
    let path = || lock.path.to_string();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(lock.path.as_c_str(), flags, Mode::from_raw_mode(0o600))
        .map_err(|source| LifecycleError::Lock { path: path(), source })?;
    let how = match lock.held {
        HomeLock::Wait => FlockOperation::LockExclusive,
        HomeLock::Refuse | HomeLock::Overlay | HomeLock::None => FlockOperation::NonBlockingLockExclusive,
    };
    loop {
        match rustix::fs::flock(&file, how) {
            Ok(()) => return Ok(file),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                let overlay = lock.held == HomeLock::Overlay;
                return Err(LifecycleError::Locked { path: path(), overlay });
            }
            Err(source) => return Err(LifecycleError::Lock { path: path(), source }),
        }
    }
}

/// Makes a log's directory, and renames a large log.
fn prepare_log(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if let Some(directory) = file.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    if std::fs::metadata(file).is_ok_and(|found| found.len() > LARGEST_LOG) {
        std::fs::rename(file, file.with_extension("log.1"))?;
    }
    // Created here, so that no other user can read it.
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file).map(drop)
}
