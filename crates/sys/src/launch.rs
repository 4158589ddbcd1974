// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting a command in namespaces of its own.
//!
//! Four processes take part, the first of which goes on to monitor the command:
//!
//! ```text
//! launcher ─clone(VM|VFORK)─► builder ─clone(VM|PARENT)────────► init     PID 1 of the sandbox
//!    │ waits                    │ mounts, Landlock rules           │ network and other namespaces
//!    │                          └─clone(VM|VFORK|PARENT)─► command    Landlock, seccomp, exec
//!    └── parent of all three
//! ```
//!
//! The launcher itself enters no namespace: it keeps the host's view for its work as monitor. The builder exists
//! because only a process that has a new PID namespace for its children can make the first member. With
//! `CLONE_PARENT` the command is the *launcher's* child: the launcher waits for it, stops and continues it directly,
//! without messages through init. All of them share memory, so none costs a copy of page tables. Init makes the
//! network namespace (the most expensive part of a launch, 361 of 1,200 µs measured) and the smaller ones while the
//! builder mounts. So on two idle cores only the longer of the two counts.
//!
//! With a broker ([`Broker`]) there is a fifth process, the stub. The builder makes it as a child of the launcher,
//! too. It waits for the first call that the filter passes on. With masks over names that the host's programs may
//! replace there is a sixth, the [`MaskRefresher`]. The module `builder` has the builder's steps.

use crate::broker;
use crate::builder::build;
use crate::clone::{self, Stack, Stacks};
use crate::command;
use crate::in_place;
pub(crate) use crate::init::Assignment;
use crate::init::Meeting;
use crate::landlock::Handled;
use crate::mask_refresher;
use crate::network::Network;
use crate::operation::{Operation, Progress, TreeSlot};
use crate::raw::{self, Fd};
use crate::rest::Active;
use core::sync::atomic::Ordering;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

pub use crate::broker::{Broker, MOST_GIVEN, Serve, Station};
pub use crate::command::{Command, Limit, Place, StringArray};
pub use crate::mask_refresher::{By, Mask, MaskRefresher};

/// Which namespaces to make; a set of `CLONE_NEW*` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Namespaces(pub i32);

impl Namespaces {
    /// Users and capabilities.
    pub const USER: Self = Self(libc::CLONE_NEWUSER);
    /// The file tree.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS);
    /// Processes.
    pub const PID: Self = Self(libc::CLONE_NEWPID);
    /// System V IPC and POSIX message queues.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC);
    /// Host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS);
    /// Control groups.
    pub const CGROUP: Self = Self(libc::CLONE_NEWCGROUP);
    /// Network.
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The command's user and group, inside and for the host.
#[derive(Clone, Copy, Debug)]
pub enum Identity<'a> {
    /// As outside: no user namespace.
    Unchanged,
    /// Maps of one line, which a process may write for itself.
    Own {
        /// `INSIDE OUTSIDE 1`.
        uid_map: &'a [u8],
        /// The same for the group.
        gid_map: &'a [u8],
    },
    /// Maps that only the privileged launcher may write; the command becomes `uid` and `gid`.
    Mapped {
        /// `INSIDE OUTSIDE 1`.
        uid_map: &'a [u8],
        /// The same for the group.
        gid_map: &'a [u8],
        /// The user inside.
        uid: u32,
        /// The group inside.
        gid: u32,
    },
}

/// Everything a launch needs, prepared: nothing is decided or allocated from here on.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The namespaces to make. None: the command is restricted in place.
    pub namespaces: Namespaces,
    /// User and group.
    pub identity: Identity<'a>,
    /// How the file tree is built.
    pub operations: &'a [Operation<'a>],
    /// Where the launcher leaves the trees that operations name by number.
    pub trees: &'a [TreeSlot],
    /// The host name inside; empty: the host's.
    pub hostname: &'a [u8],
    /// What Landlock restricts, if it is used.
    pub landlock: Option<Handled>,
    /// What to start.
    pub command: Command<'a>,
    /// The broker, which answers the calls that the filter passes on.
    pub broker: Option<&'a Broker>,
    /// The process that mounts masks again after a file was replaced. Needs namespaces.
    pub refresher: Option<&'a MaskRefresher>,
    /// What of the network is served from outside. Needs a network namespace.
    pub network: Option<&'a Network>,
    /// Record when each part was done.
    pub timings: bool,
}

impl Launch<'_> {
    /// The host's `/proc`, if processes of the launch are to be outside the PID namespace.
    pub(crate) fn outside_proc(&self) -> Option<Fd> {
        self.broker.map(Broker::proc).or_else(|| self.refresher.map(MaskRefresher::proc))
    }
}

/// Does what only the privileged launcher can do once the user namespace exists: it opens the trees that
/// [`crate::operation::Source::Tree`] names, and maps their owners. Its argument is the user namespace.
pub type Provide<'a> = &'a mut dyn FnMut(BorrowedFd<'_>) -> rustix::io::Result<()>;

/// The part of a launch that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Making the first process, and with it the namespaces.
    Namespaces,
    /// Making the socket pair to init.
    Socket,
    /// Writing the user and group maps.
    Identity,
    /// Opening what only the launcher can open.
    Provide,
    /// Making the PID namespace.
    PidNamespace,
    /// Making init.
    Init,
    /// Inside init: making the process file system.
    Proc,
    /// Inside init: making the network namespace with its loopback interface, the IPC, UTS and
    /// cgroup namespaces.
    Network,
    /// Entering the namespaces that init has made.
    Enter,
    /// Making the Landlock ruleset.
    Ruleset,
    /// An operation, by its index.
    Operation(usize),
    /// Making the command's process.
    Fork,
    /// Giving the command its process group or the terminal.
    ProcessGroup,
    /// Joining a control group.
    Cgroup,
    /// Setting the limit with this index.
    Limit(usize),
    /// Changing to the command's working directory.
    WorkingDirectory,
    /// Closing inherited descriptors.
    Descriptors,
    /// Giving up capabilities and new privileges.
    Privileges,
    /// Applying Landlock.
    Landlock,
    /// Loading the seccomp filter.
    Filter,
    /// Having the broker watch the command execute.
    Watch,
    /// Executing the command.
    Exec,
    /// The builder died before it finished.
    Builder,
    /// Starting the broker, for the first call of all.
    Answer,
    /// Making the broker's stub.
    Broker,
    /// Making the refresher, and mounting the masks that it watches.
    MaskRefresher,
}

/// Why a launch failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{step:?}: {errno}")]
pub struct Failure {
    /// Where.
    pub step: Step,
    /// What the kernel said.
    pub errno: Errno,
}

/// When the parts of a launch were done, in nanoseconds of the monotonic clock; 0: not recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamps {
    /// The launch began.
    pub start: u64,
    /// User, mount and other namespaces stand, maps are written.
    pub namespaces: u64,
    /// The file tree stands.
    pub mounts: u64,
    /// The namespaces that init has made are entered.
    pub network: u64,
    /// Landlock and seccomp are in force.
    pub filter: u64,
    /// The command has been executed.
    pub exec: u64,
}

/// A command that runs.
#[derive(Debug)]
pub struct Started {
    /// The command, a child of the caller. Without namespaces and with a broker: the broker, which is the command's parent
    /// and ends as the command does.
    pub command: i32,
    /// The process that executes the command.
    pub executing: i32,
    /// PID 1 of the sandbox, a child of the caller; when it dies everything inside does.
    pub init: Option<i32>,
    /// Init lives as long as this is open.
    pub lifeline: Option<OwnedFd>,
    /// When what was done.
    pub stamps: Stamps,
    /// The builder, dead already, to be reaped.
    pub builder: Option<i32>,
    /// The broker's stub, to be killed and reaped.
    pub stub: Option<i32>,
    /// The refresher, to be killed and reaped.
    pub refresher: Option<i32>,
    /// To be dropped only when init has been killed, stub and refresher reaped.
    pub memory: Memory,
}

/// Memory that init and stub run on. Once killed, init doesn't use it any more: init sleeps in a system call, from
/// which a killed process never returns.
pub struct Memory {
    active: Option<Active>,
    _stacks: Stacks,
    _broker: Option<Arc<broker::Setup>>,
    _refresher: Option<Arc<mask_refresher::Setup>>,
}

impl core::fmt::Debug for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Memory").field("active", &self.active).finish_non_exhaustive()
    }
}

impl Memory {
    /// For a launch in which no process but the command has used the launcher's memory.
    pub(crate) const fn of_stacks(stacks: Stacks) -> Self {
        Self { active: None, _stacks: stacks, _broker: None, _refresher: None }
    }

    /// Runs `wait`, which may only wait. A broker may be forked from this process's memory meanwhile, so `wait` must
    /// not allocate or hold a lock.
    pub fn while_resting<T>(&self, wait: impl FnOnce() -> T) -> T {
        match &self.active {
            Some(active) => active.while_resting(wait),
            None => wait(),
        }
    }
}

/// What launcher, builder and command share.
pub(crate) struct Shared<'a> {
    pub(crate) launch: &'a Launch<'a>,
    pub(crate) progress: Option<Progress>,
    pub(crate) failure: Option<Failure>,
    pub(crate) stamps: Stamps,
    /// The filter's listener, in the table that builder and launcher share.
    pub(crate) listener: Fd,
    pub(crate) command_stack: *mut Stack,
    pub(crate) init_stack: *mut Stack,
    pub(crate) stub_stack: *mut Stack,
    pub(crate) refresher_stack: *mut Stack,
    pub(crate) assignment: &'a Assignment<'a>,
    pub(crate) init: i32,
    /// Written by the kernel when it makes the command's process: the builder may die before it can.
    pub(crate) command: i32,
    pub(crate) stub: i32,
    pub(crate) refresher: i32,
    /// The builder has done its part, and the command has executed or exited.
    pub(crate) built: bool,
    /// The command is the child of the broker, which has built what there is to build.
    pub(crate) below_broker: bool,
}

impl Shared<'_> {
    pub(crate) fn stamp(&self) -> u64 {
        if self.launch.timings { raw::now() } else { 0 }
    }
}

/// Turns an errno into a failure of `step`.
pub(crate) fn at(step: Step) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { step, errno }
}

/// Starts the command. Signals that are blocked in the caller stay blocked there; the command gets its own mask.
///
/// # Errors
/// The step that failed; no process of the launch is left then.
pub fn start(launch: &Launch<'_>, provide: Option<Provide<'_>>) -> Result<Started, Failure> {
    let mut stacks = Stacks::new();
    let meeting = Meeting::default();
    let owner = raw::getpid();
    let in_place = Assignment { launch, meeting: &meeting, socket: -1, owner, owner_descriptor: -1 };
    let mut shared = Shared {
        launch,
        progress: None,
        failure: None,
        stamps: Stamps::default(),
        listener: -1,
        command_stack: stacks.of(0),
        init_stack: stacks.of(1),
        stub_stack: stacks.of(3),
        refresher_stack: stacks.of(4),
        assignment: &in_place,
        init: 0,
        command: 0,
        stub: 0,
        refresher: 0,
        built: false,
        below_broker: false,
    };
    shared.stamps.start = shared.stamp();
    if launch.namespaces == Namespaces::default() {
        return in_place::start(&mut shared, stacks);
    }

    let (inner, outer) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .map_err(at(Step::Socket))?;
    let active = launch.broker.map(|_broker| Active::begin());
    let mapped = matches!(launch.identity, Identity::Mapped { .. });
    let own = mapped
        .then(|| rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()))
        .transpose()
        .map_err(at(Step::Namespaces))?;
    let assignment = Assignment {
        socket: inner.as_raw_fd(),
        owner_descriptor: own.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        ..in_place
    };
    shared.assignment = &assignment;
    if provide.is_some()
        && mapped
        && let Ok(here) = raw::processor()
    {
        meeting.launcher_processor.store(here + 1, Ordering::Relaxed);
    }
    let flags = launch.namespaces.0 & !(libc::CLONE_NEWPID | crate::init::BY_INIT);
    let suspend = if mapped { 0 } else { libc::CLONE_VFORK };
    let (stack, argument) = (stacks.of(2), (&raw mut shared).cast());
    // SAFETY: needed to make a process that shares memory. Sound: `shared` and the stacks outlive
    // the builder, which this function waits for before it touches `shared` again; until then it
    // sleeps (VFORK) or uses only `meeting`, which is made of atomics. `build` uses raw calls only.
    let clone = || unsafe {
        clone::sharing_memory(flags | suspend | libc::CLONE_FILES, libc::SIGCHLD, stack, build, argument)
    };
    // A filter may pass on the exec call by which the command begins. So the stub must be able to fork the broker
    // while this process waits for the exec. This process changes no memory during that wait.
    let builder = match &active {
        Some(active) if !mapped => active.while_resting(clone),
        _ => clone(),
    }
    .map_err(at(Step::Namespaces))?;

    let mut reaped = None;
    let mut refusal = None;
    if mapped {
        let written = write_maps(launch, builder);
        meeting.maps.report(written.map(|()| 0).map_err(|failure| failure.errno));
        // The builder continues meanwhile, until it needs the maps and trees.
        let provided = written.and_then(|()| provide_trees(builder, provide));
        meeting.trees.report(provided.map(|()| 0).map_err(|failure| failure.errno));
        refusal = provided.err();
        let wait = || crate::wait::blocking(builder).ok();
        reaped = match &active {
            Some(active) => active.while_resting(wait),
            None => wait(),
        };
    }
    drop(inner);
    if let Some(broker) = launch.broker
        && shared.stub > 0
        && shared.listener >= 0
    {
        let stub = shared.stub;
        let settled = broker.0.settled.wait(|| !matches!(crate::wait::poll(stub), Ok(None)));
        // The stub has a copy in its own descriptor table.
        let closed = raw::close(shared.listener);
        if shared.failure.is_none() {
            shared.failure = settled.map(drop).and(closed).map_err(at(Step::Broker)).err();
        }
    }

    // Exec fails with `NOSYS` only if the filter passed it on and no broker answered it.
    let unanswered = |failure: Failure| match failure {
        Failure { step: Step::Exec, errno: Errno::NOSYS } if shared.stub > 0 => {
            Failure { step: Step::Answer, ..failure }
        }
        other => other,
    };
    let failure = refusal.or(shared.failure.map(unanswered)).or_else(|| {
        // Another process killed the builder. The command, if there is one, still runs on this frame's memory.
        (!shared.built).then_some(Failure { step: Step::Builder, errno: Errno::INTR })
    });
    if let Some(failure) = failure {
        // Init can't finish dying before every process inside has been reaped, and only this process can reap the
        // command.
        for pid in [shared.command, shared.init, shared.stub, shared.refresher] {
            if pid > 0 {
                let _gone_already = raw::kill(pid, libc::SIGKILL);
                let _reaped = crate::wait::blocking(pid);
            }
        }
        if reaped.is_none() {
            let _reaped = crate::wait::blocking(builder);
        }
        // The builder has made the memory that it shares undumpable. An undumpable process can't try again: its files in
        // `/proc` aren't its own.
        let _tried_once = raw::prctl(libc::PR_SET_DUMPABLE, 1, 0);
        return Err(failure);
    }
    Ok(Started {
        command: shared.command,
        executing: shared.command,
        init: Some(shared.init),
        lifeline: Some(outer),
        stamps: shared.stamps,
        builder: reaped.is_none().then_some(builder),
        stub: (shared.stub > 0).then_some(shared.stub),
        refresher: (shared.refresher > 0).then_some(shared.refresher),
        memory: Memory {
            active,
            _stacks: stacks,
            _broker: launch.broker.map(|broker| Arc::clone(&broker.0)),
            _refresher: launch.refresher.map(|refresher| Arc::clone(&refresher.0)),
        },
    })
}

/// Becomes the command, without a new process, for launches without namespaces that need no monitor. It returns only
/// on failure. Some walls may be in force then, so the caller can only report the error.
pub fn replace(launch: &Launch<'_>) -> Failure {
    let meeting = Meeting::default();
    let assignment = Assignment { launch, meeting: &meeting, socket: -1, owner: 0, owner_descriptor: -1 };
    let mut shared = Shared {
        launch,
        progress: None,
        failure: None,
        stamps: Stamps::default(),
        listener: -1,
        command_stack: core::ptr::null_mut(),
        init_stack: core::ptr::null_mut(),
        stub_stack: core::ptr::null_mut(),
        refresher_stack: core::ptr::null_mut(),
        assignment: &assignment,
        init: 0,
        command: 0,
        stub: 0,
        refresher: 0,
        built: false,
        below_broker: false,
    };
    command::become_command(&mut shared)
}

/// The privileged launcher's part: the maps.
fn write_maps(launch: &Launch<'_>, builder: i32) -> Result<(), Failure> {
    let Identity::Mapped { uid_map, gid_map, .. } = launch.identity else { return Ok(()) };
    for (file, map) in [("uid_map", uid_map), ("gid_map", gid_map)] {
        let path = std::ffi::CString::new(format!("/proc/{builder}/{file}"))
            .map_err(|_nul| Failure { step: Step::Identity, errno: Errno::INVAL })?;
        raw::write_file(&path, map).map_err(at(Step::Identity))?;
    }
    Ok(())
}

/// And trees with mapped owners.
fn provide_trees(builder: i32, provide: Option<Provide<'_>>) -> Result<(), Failure> {
    let Some(provide) = provide else { return Ok(()) };
    let namespace = rustix::fs::open(
        format!("/proc/{builder}/ns/user"),
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .map_err(at(Step::Identity))?;
    provide(namespace.as_fd()).map_err(at(Step::Provide))
}
