// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a command couldn't be started, in words, with what to do about it.

use crate::plan::{Bind, Origin, Plan, Step as PlanStep};
use palisade_policy::PathRule;
use palisade_sys::launch::{Failure, Step};
use palisade_syscall::store::key::shown;
use palisade_text::Show as _;
use rustix::io::Errno;
use std::ffi::OsString;
use std::path::PathBuf;

/// A launch failed; nothing of it is left.
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
    /// A descriptor that the policy gives away isn't one.
    #[error("can't give descriptor {number} to the command: {source}")]
    Given {
        /// Its number.
        number: u32,
        /// Why.
        source: Errno,
    },
    /// There is nothing to run.
    #[error("no command given")]
    NoCommand,
    /// The command doesn't exist inside.
    #[error("can't run {command}: not found in the sandbox")]
    NotFound {
        /// The command.
        command: String,
    },
    /// The command is a script, and what is to interpret it doesn't exist inside.
    #[error("can't run {command}: its interpreter {interpreter} isn't in the sandbox")]
    NoInterpreter {
        /// The command.
        command: String,
        /// What its first line names.
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
    NullByte(#[from] crate::text::NullByte),
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
    /// Programs can't be watched while they begin.
    #[error("can't watch programs begin, for a time of day of their own: {source}")]
    Watch {
        /// What the kernel said.
        source: Errno,
    },
    /// `/proc` numbers processes otherwise than the launcher's PID namespace does: by its numbers
    /// others would be found.
    #[error("can't look up processes: /proc shows those of another PID namespace")]
    ForeignProc,
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
    /// A control group couldn't be made or used.
    #[error("can't use control group {path}: {source}")]
    Cgroup {
        /// Its directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The monitor lost its command.
    #[error("can't wait for the command: {source}")]
    Wait {
        /// What the kernel said.
        source: Errno,
    },
}

impl StartError {
    /// The exit code by which scripts tell them apart: 127 not found, 126 not executable, 125 ours.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } | Self::NoInterpreter { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }

    /// Whether a plan made now may succeed where this one, kept from an earlier launch, has not:
    /// something that it mounts is no longer what it was.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        matches!(self, Self::Tree { .. })
    }

    /// Whether a file that was to be mounted wasn't there. It may have been replaced, as `useradd` does with
    /// `/etc/passwd`, after it was opened: what has no name any more can't be mounted.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        matches!(self, Self::Tree { source: Errno::NOENT, .. })
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoCommand => "palisade run -- COMMAND…".to_owned(),
            Self::Given { number, .. } => {
                format!("palisade run … {number}< FILE   # a file, a pipe or a socket, no directory")
            }
            Self::NotFound { command } if command.contains('/') => {
                format!("palisade explain {}   # is it visible inside?", quoted(command))
            }
            Self::NotFound { command } => {
                format!(
                    "palisade explain {}   # where it was looked for, and what is visible inside",
                    quoted(command)
                )
            }
            Self::NoInterpreter { interpreter, .. } => {
                format!("palisade explain {}   # is it visible inside?", quoted(interpreter))
            }
            Self::NotExecutable { source: Errno::NOEXEC, command } => {
                format!("palisade run -- sh {}   # if it is a script without a #! line", quoted(command))
            }
            Self::NotExecutable { command, .. } => format!("palisade explain {}", quoted(command)),
            Self::DirectoryStream { .. } => "palisade run -- COMMAND </dev/null".to_owned(),
            Self::Tree { source: Errno::LOOP, .. } => {
                "a symbolic link was put into the path meanwhile; run the command again if that was you"
                    .to_owned()
            }
            Self::Tree { source: Errno::MFILE, .. } => "ulimit -n 4096   # then try again".to_owned(),
            Self::ForeignProc => {
                "mount -t proc proc /proc   # where the PID namespace was made; unshare does it with --mount-proc"
                    .to_owned()
            }
            Self::Launch { action, .. } if action.contains("namespace") => {
                "palisade doctor   # shows what this host lacks and how to enable it".to_owned()
            }
            Self::Watch { .. } => {
                "sysctl kernel.yama.ptrace_scope   # 3 forbids it, and so does a tracer of the launch such as strace; \
                 or take `time` out of the policy's [process]"
                    .to_owned()
            }
            Self::NoCgroup { .. } | Self::Cgroup { .. } => {
                "palisade run --best-effort …   # without the limits this host can't give".to_owned()
            }
            _ => return None,
        })
    }

    /// Puts a failed step of a plan into words.
    pub(crate) fn from_failure(failure: Failure, plan: &Plan<'_>, command: &str) -> Self {
        let Failure { step, errno: source } = failure;
        let action = match step {
            Step::Exec => {
                let command = command.to_owned();
                return match source {
                    Errno::NOENT | Errno::NOTDIR => match interpreter(&command) {
                        Some(interpreter) => Self::NoInterpreter { command, interpreter },
                        None => Self::NotFound { command },
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
            Step::Filter => "load the seccomp filter",
            Step::Builder => "finish: the launch was interrupted",
            Step::Watch => return Self::Watch { source },
            Step::Broker => "leave somebody behind to start the broker",
            Step::Warden => "leave somebody behind who keeps names covered",
        };
        Self::Launch { action, source }
    }

    /// Puts a failed step of the file tree into words.
    pub(crate) fn from_step(plan: &Plan<'_>, index: usize, source: Errno) -> Self {
        let action = plan.steps.get(index).map_or_else(|| "build the file tree".to_owned(), describe);
        Self::Tree { action, source }
    }
}

/// What interprets the script at this path, if that is what is there: the kernel answers "not
/// found" for a script whose interpreter is missing. Read outside, for words only.
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

/// No plan could be made; nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The policy can't be applied here.
    #[error("can't resolve the policy: {0}")]
    Resolve(#[from] palisade_policy::resolve::ResolveError),
    /// Facts about the user can't be had.
    #[error("can't find out who you are: {0}")]
    Account(#[from] palisade_host::account::AccountError),
    /// A rule names a path that doesn't exist.
    #[error("{path:?} doesn't exist ({rule})")]
    Missing {
        /// The path.
        path: PathBuf,
        /// The rule.
        rule: Box<PathRule>,
    },
    /// Something is to be mounted where nothing is, in a tree that isn't ours to change.
    #[error("can't mount anything at {path:?}: there is no {host:?} to mount it on")]
    NoMountPoint {
        /// The place inside.
        path: PathBuf,
        /// The host's path that shows there.
        host: PathBuf,
    },
    /// A walk for a glob failed.
    #[error("can't look for what {rule} names: {source}")]
    Walk {
        /// The rule.
        rule: Box<PathRule>,
        /// Why.
        source: palisade_host::walk::WalkError,
    },
    /// What the broker is told, or a plan in the plan, can't be encoded.
    #[error("can't encode a part of the plan: {0}")]
    Encode(#[from] postcard::Error),
    /// A rule would let the command change what Palisade itself obeys.
    #[error("{rule} would make {place:?} writable, which Palisade itself obeys")]
    OwnPlace {
        /// The rule.
        rule: Box<PathRule>,
        /// The place.
        place: PathBuf,
    },
    /// The view shows what a program needs, and there is none.
    #[error("the view closure shows what a program needs, and no program is named")]
    NoProgram,
    /// A profile's program isn't there.
    #[error("the program of profile {profile:?} isn't on this host: tried {}", tried.join(", "))]
    NotInstalled {
        /// The profile.
        profile: String,
        /// What was looked for.
        tried: Vec<String>,
        /// The package that brings it.
        package: Option<String>,
    },
    /// What a profile requires isn't there.
    #[error("{path} isn't there, which {origin} requires")]
    Required {
        /// What.
        path: String,
        /// Where it is required.
        origin: palisade_policy::Origin,
    },
    /// A home is to be kept, and nobody says by which name.
    #[error("home.policy ({origin}) needs a name for the home")]
    NamelessHome {
        /// Where it is stated.
        origin: palisade_policy::Origin,
    },
    /// The home can't be made.
    #[error("can't make the home {path:?}: {source}")]
    Home {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A hook's argument can't be filled in.
    #[error("hook ({origin}): {source}")]
    Hook {
        /// Where it is stated.
        origin: palisade_policy::Origin,
        /// What is missing.
        source: palisade_policy::template::Unset,
    },
    /// A variable can't be set.
    #[error("can't set {name}: {source}")]
    Variable {
        /// Which.
        name: &'static str,
        /// Why.
        source: palisade_policy::value::ValueError,
    },
    /// A command may have made a link on the way to what is granted.
    #[error(
        "can't grant {rule}: the link {} leads to {}, and a sandboxed command may have made it, because {} is writable",
        link.shown(), target.shown(), writable.shown()
    )]
    Link {
        /// The link.
        link: PathBuf,
        /// Where the granted path leads by it.
        target: PathBuf,
        /// The writable tree that it lies in.
        writable: PathBuf,
        /// The path was to be writable.
        write: bool,
        /// The rule.
        rule: Box<palisade_policy::PathRule>,
    },
    /// A rule allows less than another one, by a link that a sandboxed command may move.
    #[error(
        "can't keep to {rule}: the link {} leads to {}, and a sandboxed command may move the link, because {} is writable",
        link.shown(), target.shown(), writable.shown()
    )]
    MovableLink {
        /// The link.
        link: PathBuf,
        /// Where the path leads by it.
        target: PathBuf,
        /// The writable tree that it lies in.
        writable: PathBuf,
        /// What states the rule on the command line.
        option: &'static str,
        /// The rule.
        rule: Box<palisade_policy::PathRule>,
    },
    /// A link leads to what another rule refuses.
    #[error("can't grant {rule}: the link {} leads to {}, and {other} refuses that", link.shown(), target.shown())]
    LinkAround {
        /// The link.
        link: PathBuf,
        /// Where the granted path leads by it.
        target: PathBuf,
        /// The path was to be writable.
        write: bool,
        /// The rule.
        rule: Box<palisade_policy::PathRule>,
        /// The rule that refuses.
        other: Box<palisade_policy::PathRule>,
    },
    /// It can't be told what the program needs.
    #[error("can't tell what {command:?} needs: {source}")]
    Needs {
        /// The command.
        command: OsString,
        /// Why.
        source: Box<palisade_host::needs::NeedsError>,
    },
    /// The command's working directory isn't there.
    #[error("can't use {path:?} as the working directory: {reason}")]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A limit can't be kept on this host.
    #[error("can't limit {limit}: {reason}")]
    Limit {
        /// Which.
        limit: palisade_policy::Limit,
        /// Why.
        reason: String,
    },
    /// A name of a system call is unknown.
    #[error("system calls: {0}")]
    Syscalls(#[from] palisade_syscall::Error),
    /// A call can't be answered as the policy says.
    #[error("{0}")]
    Answer(#[source] crate::answering::Impossible),
    /// What was learned can't be read.
    #[error(transparent)]
    Learned(#[from] palisade_syscall::store::StoreError),
    /// Only what was learned may be called, and nothing was.
    #[error(
        "no system calls were ever learned for {:?}, and only what was learned may be called",
        shown(profile)
    )]
    NothingLearned {
        /// The profile, or the program's identity.
        profile: String,
        /// A profile that is called like the program: an older palisade kept what commands called by that name.
        former: Option<String>,
    },
    /// Calls are kept for a program, and there is none.
    #[error("there is no program {name:?} whose system calls could be told")]
    NoSuchProgram {
        /// The command's first word.
        name: OsString,
    },
    /// Calls are kept for a program, and it can't be told which one it is.
    #[error("can't tell which program {path:?} is, by which system calls are kept: {source}")]
    Unidentified {
        /// The program.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A guarantee can't be given on this host.
    #[error("can't guarantee that {guarantee}: {reason}")]
    Guarantee {
        /// What was asked for.
        guarantee: &'static str,
        /// What is missing.
        reason: String,
    },
    /// An argument names a link that leads to what the launch has nothing to do with.
    #[error(
        "can't pass {target:?}: the link {link:?} leads out to it, and a sandboxed command may have made the link"
    )]
    PassedLink {
        /// The link.
        link: PathBuf,
        /// What is passed by it.
        target: PathBuf,
        /// The option that shows it all the same; else the lock that forbids it.
        option: Result<String, Option<Box<PathRule>>>,
    },
    /// An argument names what the policy refuses.
    #[error("can't pass {path:?}: {rule}")]
    PassedRefused {
        /// What.
        path: PathBuf,
        /// The rule.
        rule: Box<PathRule>,
        /// The option that shows it all the same; else the lock that forbids it.
        option: Result<String, Option<Box<PathRule>>>,
    },
    /// A string holds a null byte.
    #[error(transparent)]
    NullByte(#[from] crate::text::NullByte),
}

impl PlanError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::PassedLink { option: Ok(option), .. } | Self::PassedRefused { option: Ok(option), .. } => {
                format!("palisade open {option} …   # if that is what you want to show")
            }
            Self::PassedLink { option: Err(Some(lock)), .. }
            | Self::PassedRefused { option: Err(Some(lock)), .. } => {
                format!("palisade config show   # {lock} forbids it")
            }
            Self::Missing { path, .. } => format!("mkdir -p {}", quoted(&path.to_string_lossy())),
            Self::NoMountPoint { host, .. } => format!("mkdir -p {}", quoted(&host.to_string_lossy())),
            Self::Walk { .. } => "name a directory nearer to the files, such as ./src/**/*.key".to_owned(),
            Self::OwnPlace { .. } => "name the directories below it that the command needs".to_owned(),
            Self::WorkingDirectory { .. } => "palisade run --cwd DIRECTORY -- COMMAND…".to_owned(),
            Self::NotInstalled { package: Some(package), .. } => {
                format!("apt install {package}   # or say where it is: palisade open --program PATH …")
            }
            Self::NotInstalled { package: None, .. } => {
                "say where it is: palisade open --program PATH …".to_owned()
            }
            Self::Required { .. } => {
                "palisade open --dry-run …   # shows what would be done without it".to_owned()
            }
            Self::NamelessHome { .. } => "[home] name = \"NAME\", or palisade open PROFILE".to_owned(),
            Self::Home { .. } => "XDG_DATA_HOME=DIRECTORY palisade open …".to_owned(),
            Self::Hook { .. } => "set the variable, or take the hook out of the profile".to_owned(),
            Self::NoProgram => "palisade run --view closure -- COMMAND…".to_owned(),
            Self::Link { target, write, .. } => {
                let option = if *write { "--rw" } else { "--ro" };
                let target = quoted(&target.to_string_lossy());
                format!("palisade run {option} {target} …   # if the link may lead there")
            }
            Self::MovableLink { target, option, .. } => {
                let target = quoted(&target.to_string_lossy());
                format!("palisade run {option} {target} …   # says it of the target itself")
            }
            Self::LinkAround { target, write, other, .. } => {
                let option = if *write { "--rw" } else { "--ro" };
                let target = quoted(&target.to_string_lossy());
                match (other.strength, other.origin.layer) {
                    // Nothing that the user says changes it.
                    (palisade_policy::Strength::Locked, _) => format!("palisade explain {target}"),
                    (_, palisade_policy::Layer::CommandLine) => "leave out one of the two options".to_owned(),
                    _ => format!("palisade run {option} {target} …   # says it of the target itself"),
                }
            }
            Self::Needs { .. } => {
                "palisade run --view system -- COMMAND…   # all of /usr and /etc".to_owned()
            }
            Self::NothingLearned { profile, former: Some(former) } => format!(
                "palisade syscalls merge {} --into {}   # if `palisade syscalls show {}` shows this program's calls; else learn again",
                quoted(former),
                quoted(profile),
                quoted(former)
            ),
            Self::NoSuchProgram { name } => {
                format!("palisade explain {}   # is it visible inside?", quoted(&name.to_string_lossy()))
            }
            Self::Unidentified { .. } => {
                "palisade run --profile NAME --syscalls learn -- COMMAND…   # keeps calls by the profile"
                    .to_owned()
            }
            Self::NothingLearned { former: None, .. } => {
                "palisade run --syscalls learn …   # remembers what it calls, for the next time".to_owned()
            }
            Self::Answer(crate::answering::Impossible { origin, .. }) => {
                let file = origin.file.as_ref()?;
                format!("palisade check {}", quoted(&file.to_string_lossy()))
            }
            Self::Limit { .. } => "palisade run --best-effort …   # without that limit".to_owned(),
            Self::Guarantee { .. } => {
                "palisade doctor   # shows what this host lacks; --best-effort goes on without".to_owned()
            }
            _ => return None,
        })
    }
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
            format!("put a made file at /{target}")
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
        PlanStep::Processes { path, .. } => format!("mount processes at /{path}"),
        PlanStep::Socket { path, .. } => format!("make socket /{path}"),
        PlanStep::Information { path, .. } => format!("make file /{path}, with a number of the launch's own"),
        PlanStep::Allow { path, .. } => format!("allow /{path}"),
        PlanStep::Enter => "enter the new root".to_owned(),
    }
}

/// A word as a shell reads it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
