// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a command couldn't be started, in words, with what to do about it.

pub mod packages;
mod plan;
pub mod user_namespaces;

pub use self::plan::{PlanError, store_hint};

use crate::apply::lifecycle::LifecycleError;
use crate::plan::inside::{self, Seen};
use crate::plan::{Bind, GroupLimit, Origin, Plan, Step as PlanStep};
use palisade_sys::launch::{Failure, Step};
pub use palisade_text::quoted;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use user_namespaces::Cause;

/// A launch failed; no process of it is left.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port of the host can't be listened at.
    #[error("can't publish a port at {address}: {source}")]
    Publish {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A descriptor that the policy gives to the command isn't open.
    #[error("can't give descriptor {number} to the command: {source}")]
    Given {
        /// Its number.
        number: u32,
        /// Why.
        source: Errno,
    },
    /// The home can't be locked, or a hook fails.
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    /// No command was given.
    #[error("no command given")]
    NoCommand,
    /// The command doesn't exist inside.
    #[error("can't run {command}: not found in the sandbox")]
    NotFound {
        /// The command.
        command: String,
    },
    /// The command is a script, and its interpreter doesn't exist inside.
    #[error("can't run {command}: its interpreter {interpreter} isn't in the sandbox")]
    NoInterpreter {
        /// The command.
        command: String,
        /// The interpreter that its first line names.
        interpreter: String,
    },
    /// The command exists but can't be executed.
    #[error("can't run {command}: {source}")]
    NotExecutable {
        /// The command.
        command: String,
        /// What the kernel said.
        source: Errno,
    },
    /// A standard stream is a directory, through which everything beneath it would be reachable.
    #[error("{stream} is a directory")]
    DirectoryStream {
        /// Which stream.
        stream: &'static str,
    },
    /// An argument holds a null byte.
    #[error(transparent)]
    NullByte(#[from] crate::plan::text::NullByte),
    /// A step of the file tree failed.
    #[error("can't {action}: {source}")]
    Tree {
        /// What was to be done.
        action: String,
        /// What the kernel said.
        source: Errno,
    },
    /// Another part of the launch failed.
    #[error("can't {action}: {source}")]
    Launch {
        /// What was to be done.
        action: &'static str,
        /// What the kernel said.
        source: Errno,
    },
    /// Another program's filter has the one listener that the kernel permits.
    #[error(
        "can't judge names: another program listens to system calls here already, and the kernel permits one listener"
    )]
    Listener,
    /// The broker can't read what a command passes to the kernel.
    #[error("can't judge names: {reason}")]
    Unreadable {
        /// Why.
        reason: &'static str,
    },
    /// The host refuses user namespaces.
    #[error("can't {action}: {source}: {}", user_namespaces::words(cause))]
    UserNamespaces {
        /// What was to be done.
        action: &'static str,
        /// What the kernel said.
        source: Errno,
        /// Why it is refused.
        cause: Cause,
    },
    /// The launcher can't watch programs start, which it must do to give them another time of day.
    #[error("can't trace programs to give them another time of day: {source}")]
    Watch {
        /// What the kernel said.
        source: Errno,
    },
    /// `/proc` shows another PID namespace than the launcher's: its numbers would name other processes.
    #[error("can't look up processes: /proc shows those of another PID namespace")]
    ForeignProc,
    /// There is no `/proc`.
    #[error("can't look up processes: /proc isn't mounted")]
    NoProc,
    /// A limit couldn't be set.
    #[error("can't set limit {limit}: {source}")]
    Limit {
        /// Which.
        limit: String,
        /// What the kernel said.
        source: Errno,
    },
    /// There is no place for a control group.
    #[error("can't limit the sandbox: {reason}")]
    NoCgroup {
        /// Why not.
        reason: String,
    },
    /// The memory limit leaves too little for the launch itself.
    #[error("can't start {command}: the memory limit of {limit} bytes is too small")]
    Memory {
        /// The command.
        command: String,
        /// The limit.
        limit: u64,
    },
    /// A control group couldn't be made or used.
    #[error("can't use control group {path}: {source}")]
    Cgroup {
        /// Its directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The monitor can't wait for the command.
    #[error("can't wait for the command: {source}")]
    Wait {
        /// What the kernel said.
        source: Errno,
    },
}

impl StartError {
    /// The exit code by which scripts distinguish the errors: 127 not found, 126 not executable, 125 an error of Palisade.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } | Self::NoInterpreter { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }

    /// Whether a plan made now may succeed where this kept plan has not: a file that it mounts has changed, another
    /// program listens to system calls, or a setting of the kernel has changed.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        matches!(self, Self::Tree { .. } | Self::Listener | Self::Unreadable { .. })
    }

    /// Whether another plan must be made, because another sandbox has the home: one with an overlay of it.
    #[must_use]
    pub const fn wants_overlay(&self) -> bool {
        matches!(self, Self::Lifecycle(LifecycleError::Locked { overlay: true, .. }))
    }

    /// Whether a file that was to be mounted wasn't there. A program such as `useradd` may have replaced it
    /// (`/etc/passwd`) after it was opened: a file that no longer has a name can't be mounted.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        matches!(self, Self::Tree { source: Errno::NOENT, .. })
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Lifecycle(error) => return error.hint(),
            Self::NoCommand => "palisade run -- COMMAND…".to_owned(),
            Self::Tree { source: Errno::MFILE, .. } | Self::Launch { source: Errno::MFILE, .. } => {
                // More than the hard limit only root may set, and without `S` a shell lowers that one, too.
                let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
                format!("ulimit -Sn {}   # then try again", hard.unwrap_or(4096).min(4096))
            }
            Self::Given { number, .. } => {
                format!("palisade run … {number}< FILE   # a file, a pipe or a socket, no directory")
            }
            Self::NotFound { command } => {
                format!(
                    "palisade explain --command {}   # where it was looked for, and what is visible inside",
                    quoted(command)
                )
            }
            Self::NoInterpreter { command, .. } => {
                format!(
                    "palisade explain --command {}   # what it needs, and what of that is visible inside",
                    quoted(command)
                )
            }
            Self::NotExecutable { source: Errno::NOEXEC, command } => {
                format!("palisade run -- sh {}   # if it is a script without a #! line", quoted(command))
            }
            Self::NotExecutable { command, .. } => format!("palisade explain {}", quoted(command)),
            Self::DirectoryStream { .. } => "palisade run -- COMMAND </dev/null".to_owned(),
            Self::Tree { source: Errno::LOOP, .. } => {
                "the path became a symbolic link during the launch; if you made the link, run the command again"
                    .to_owned()
            }
            Self::UserNamespaces { cause, .. } => user_namespaces::hint(cause),
            // A container's engine may permit namespaces and refuse mounts in them.
            Self::Tree { source: Errno::PERM | Errno::ACCESS, .. } => {
                return user_namespaces::examine().as_ref().map(user_namespaces::hint);
            }
            Self::ForeignProc => {
                "mount -t proc proc /proc   # where the PID namespace was made; unshare does it with --mount-proc"
                    .to_owned()
            }
            Self::NoProc => "mount -t proc proc /proc   # as root".to_owned(),
            // The plan was made for groups: `--best-effort` leaves them out only if it can know that before.
            Self::NoCgroup { .. } | Self::Cgroup { .. } => {
                "palisade doctor   # shows what this host lacks and how to enable it".to_owned()
            }
            Self::Launch { action, .. } if action.contains("namespace") => {
                "palisade doctor   # shows what this host lacks and how to enable it".to_owned()
            }
            // Without Yama only a tracer can be the reason.
            Self::Watch { .. } if !Path::new("/proc/sys/kernel/yama/ptrace_scope").exists() => {
                "run it without a tracer such as strace".to_owned()
            }
            Self::Watch { .. } => {
                "cat /proc/sys/kernel/yama/ptrace_scope   # 3 forbids tracing, and so does a tracer such as strace"
                    .to_owned()
            }
            Self::Memory { limit, .. } => {
                // Twice what was too little, in MiB, and not less than what most programs need.
                let enough = (limit >> 19).max(64);
                format!("palisade run --limit memory={enough}M …   # in place of that limit: the launch itself needs memory, too")
            }
            _ => return None,
        })
    }

    /// Describes a failed step of a launch in words.
    pub(crate) fn from_failure(failure: Failure, plan: &Plan<'_>, command: &str) -> Self {
        let Failure { step, errno: source } = failure;
        if let Some(limit) = exhausted(plan, step, source) {
            return Self::Memory { command: command.to_owned(), limit };
        }
        let action = match step {
            Step::Exec => {
                let command = command.to_owned();
                return match source {
                    Errno::NOENT | Errno::NOTDIR => match interpreter(&command) {
                        Some(interpreter) if is_shown(plan, &command) => {
                            Self::NoInterpreter { command, interpreter }
                        }
                        _ => Self::NotFound { command },
                    },
                    _ => Self::NotExecutable { command, source },
                };
            }
            Step::Operation(index) => return Self::from_step(plan, index, source),
            Step::Limit(index) => {
                let limit =
                    plan.limits.get(index).map_or_else(String::new, |limit| limit.resource.to_string());
                return Self::Limit { limit, source };
            }
            Step::Namespaces => "make the namespaces",
            Step::Socket => "make a socket pair",
            Step::Identity => "set up user and group in the user namespace",
            Step::Provide => "map the owners of the files that the command may write",
            Step::PidNamespace => "make the PID namespace",
            Step::Init => "start init in the PID namespace",
            Step::Proc => "mount /proc in the PID namespace",
            Step::Network => "make the network, IPC, UTS or cgroup namespace",
            Step::Enter => "enter the network namespace",
            Step::Ruleset => "make the Landlock ruleset",
            Step::Cgroup => "join the control group",
            Step::Fork => "start the command's process",
            Step::ProcessGroup => "give the command the terminal",
            Step::WorkingDirectory => "enter the working directory",
            Step::Descriptors => "close inherited descriptors",
            Step::Privileges => "give up privileges",
            Step::Landlock => "apply Landlock",
            Step::Filter if source == Errno::BUSY => return Self::Listener,
            Step::Filter => "load the seccomp filter",
            Step::Builder => "finish: the launch was interrupted",
            Step::Watch => return Self::Watch { source },
            Step::Answer => "get the broker's first answer",
            Step::Broker => "start the broker stub",
            Step::MaskRefresher => "start the mask refresher",
        };
        if action.contains("namespace")
            && let Some(cause) = user_namespaces::examine()
            && cause != Cause::Unknown
        {
            return Self::UserNamespaces { action, source, cause };
        }
        Self::Launch { action, source }
    }

    /// Describes a failed step of the file tree in words.
    pub(crate) fn from_step(plan: &Plan<'_>, index: usize, source: Errno) -> Self {
        let action = plan.steps.get(index).map_or_else(|| "build the file tree".to_owned(), describe);
        Self::Tree { action, source }
    }
}

/// The memory limit, if the step failed for it.
fn exhausted(plan: &Plan<'_>, step: Step, errno: Errno) -> Option<u64> {
    /// With less memory, the kernel can't copy the arguments, and says that there are too many.
    const LITTLE: u64 = 1 << 20;
    let limit = plan.group_limits.iter().find_map(|limit| match limit {
        GroupLimit::Memory(limit) => Some(*limit),
        GroupLimit::Processes(_) => None,
    })?;
    let failed = errno == Errno::NOMEM || (errno == Errno::TOOBIG && step == Step::Exec && limit < LITTLE);
    failed.then_some(limit)
}

/// The interpreter of the script at this path, if there is a script: the kernel answers "not found" for a script whose
/// interpreter is missing. Read outside, and used only in the message.
fn interpreter(command: &str) -> Option<String> {
    use std::io::Read;
    let mut start = Vec::with_capacity(256);
    if !command.contains('/') || !std::fs::metadata(command).is_ok_and(|found| found.is_file()) {
        return None;
    }
    std::fs::File::open(command).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    String::from_utf8_lossy(line).split_whitespace().next().map(str::to_owned)
}

/// Whether the plan shows the host's file of this command.
fn is_shown(plan: &Plan<'_>, command: &str) -> bool {
    let is_it =
        |real: &Path| matches!(inside::look(plan, real).seen, Seen::Host { path, .. } if path == real);
    std::fs::canonicalize(command).is_ok_and(|real| is_it(&real))
}

/// What a step does, as a verb phrase.
#[must_use]
pub fn describe(step: &PlanStep<'_>) -> String {
    match step {
        PlanStep::Root { .. } => "mount the new root".to_owned(),
        PlanStep::Directory { path, .. } => format!("make directory /{path}"),
        PlanStep::File { path, .. } => format!("make file /{path}"),
        PlanStep::Symlink { path, target } => format!("link /{path} to {target}"),
        PlanStep::Bind(Bind { source, target, origin: Origin::Inside, .. })
            if source.as_bytes().starts_with(b".palisade/file-") =>
        {
            format!("mount a generated file at /{target}")
        }
        PlanStep::Bind(Bind { source, target, origin: Origin::Inside, .. }) => {
            format!("mask /{target} with /{source}")
        }
        PlanStep::Bind(Bind { source, target, write, .. }) => {
            let how = if *write { "writable" } else { "read-only" };
            if source.as_bytes().get(1..) == Some(target.as_bytes()) {
                format!("mount {source} {how}")
            } else {
                format!("mount {source} {how} at /{target}")
            }
        }
        PlanStep::Own { path, .. } => format!("make /{path} writable"),
        PlanStep::Tmpfs { path, .. } => format!("mount a private directory at /{path}"),
        PlanStep::Overlay { target, .. } => format!("show a directory at /{target} that keeps no changes"),
        PlanStep::Terminals { path } => format!("mount pseudo-terminals at /{path}"),
        PlanStep::Console { path } => format!("mount the command's terminal at /{path}"),
        PlanStep::Queues { path, .. } => format!("mount message queues at /{path}"),
        PlanStep::Processes { path, .. } => format!("mount processes at /{path}"),
        PlanStep::Socket { path, .. } => format!("make socket /{path}"),
        PlanStep::Information { path, .. } => format!("make file /{path} with this launch's number"),
        PlanStep::Refusals { path } => format!("mount the launch's refusals at /{path}"),
        PlanStep::Allow { path, .. } => format!("allow /{path}"),
        PlanStep::Enter => "enter the new root".to_owned(),
    }
}
