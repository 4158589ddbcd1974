// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies a plan: reads what depends on the moment of the launch, then launches and waits.

use crate::apply::broker;
use crate::apply::cgroup::Groups;
use crate::apply::compile::{self, Given, Trees};
use crate::apply::leftovers::Private;
use crate::apply::masks;
use crate::apply::monitor::{self, Children, Outcome, SupervisorState, Terminal};
use crate::apply::streams::Streams;
use crate::apply::window::Window;
use crate::bus::launcher;
use crate::bus::proxy::Buses;
use crate::error::StartError;
use crate::filter::calls::Unanswered;
use crate::network::gateway::{self, Gateway, Link, ServeNetwork};
use crate::plan::text::Text;
use crate::plan::{BusName, IdentityKind, Namespace, Plan};
use crate::registry::entry::{Entry, Launched, Name};
use crate::registry::{Number, RegistryError, Tier};
use palisade_event::Event;
use palisade_policy::environment::{Fate, Filter};
use palisade_policy::names::NameRule;
use palisade_protocol::network::Told;
use palisade_sys::landlock::Handled;
use palisade_sys::launch::{
    Command, Identity, Launch, Limit, Namespaces, Place, Provide, Stamps, StringArray,
};
use palisade_syscall::Syscall;
pub use palisade_syscall::broker::report::{Came, Program, Used};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What the caller gives in addition to the plan.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// The command and its arguments.
    pub command: &'a [Text<'a>],
    /// Its argument 0, if it isn't its first word.
    pub first_argument: Option<&'a Text<'a>>,
    /// Which variables stay, with the options of the command line applied.
    pub environment: &'a Filter,
    /// Record when each part was done.
    pub timings: bool,
    /// Only the caller's parent needs the command's end: without namespaces and control groups the command may replace
    /// the caller's process.
    pub may_replace: bool,
    /// A process whose end ends the sandbox.
    pub parent: Option<i32>,
    /// The function that serves a filtered network, in a process of its own.
    pub serve_network: ServeNetwork,
    /// The launch's number.
    pub number: Number,
    /// The name that the user gives the launch.
    pub name: Option<&'a Name>,
    /// The file that is mounted where programs inside read refusals; `None`: that file stays empty.
    pub refusals: Option<&'a CStr>,
}

/// A command that ran.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// When the parts of its launch were done.
    pub stamps: Stamps,
}

/// A command's processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// The command's process id on the host.
    pub pid: i32,
    /// Init's process id.
    pub init: Option<i32>,
}

/// Events that are reported while the command runs.
#[derive(Debug)]
pub enum LaunchEvent<'h> {
    /// The command runs.
    Started(Running, Number),
    /// The broker refused to write a protected name.
    Refused {
        /// The call, and why it was refused.
        event: &'h Event,
        /// The rule.
        rule: &'h NameRule,
    },
    /// A refusal that isn't about a protected name: of a path by its view, of a system call, or of a connection to a
    /// socket of a process outside.
    Denied(&'h Event),
    /// The command used a path or an address, for the first time in this way. Only while it is being learned.
    Used {
        /// How it was used.
        how: Used,
        /// The result.
        came: Came,
        /// The path inside; for the network an address and port.
        path: &'h Path,
        /// The name of the thread.
        program: &'h [u8],
    },
    /// A program made a call for the first time; only while calls are being learned.
    Called {
        /// The program.
        program: &'h Program,
        /// The call.
        call: Syscall,
    },
    /// A call that wasn't learned was refused.
    Unlearned {
        /// The call, and the process that made it.
        event: &'h Event,
        /// The call.
        call: Syscall,
    },
    /// The user must decide whether a call that wasn't learned may be made.
    Asked {
        /// The call, and the process that made it.
        question: &'h Unanswered<'h>,
        /// Where the [`Answer`](palisade_syscall::broker::report::Answer) goes.
        answers: BorrowedFd<'h>,
    },
    /// A repository was made in a tree of the host. This is the path of its `.git` directory.
    Repository(&'h Path),
    /// The broker couldn't carry out a call that the rules allow.
    Overload {
        /// The call.
        call: &'h str,
        /// Why.
        source: Errno,
    },
    /// This number of reports didn't arrive.
    Lost(u64),
    /// A name that must stay covered could not be covered again, for this reason; everything inside has been ended.
    /// `None`: the mask refresher itself was killed.
    Uncovered(Option<Errno>),
    /// The broker has ended; calls that write names fail from here on.
    BrokerEnded,
    /// A report of the process that serves the network ([`Invocation::serve_network`]).
    Network {
        /// The report.
        told: &'h Told,
        /// Where instructions to that process go ([`crate::network::gateway::instruct`]).
        control: BorrowedFd<'h>,
    },
    /// Connections can't be led to the gateway: only programs that use a proxy can connect.
    Unled(Errno),
    /// The command has left these files and directories in places that are gone with the sandbox. Paths inside;
    /// directories end with a slash.
    Gone(&'h [PathBuf]),
    /// The user's earlier approvals can't be read: the user is asked again.
    Unanswered(&'h crate::network::approvals::ApprovalsError),
    /// The command runs, but the registry has no entry for it.
    Unlisted(&'h RegistryError),
    /// The process that serves the network has ended. Every request is refused from here on.
    NetworkEnded(&'h str),
    /// The filter of a message bus has ended, or couldn't be started.
    Bus {
        /// The bus.
        which: BusName,
        /// Why.
        why: &'h str,
        /// It isn't started again.
        last: bool,
    },
}

/// Where a command is searched for when the environment has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Applies the plan and waits for the command's end.
///
/// # Errors
/// When the command couldn't be started; no process is left then.
pub fn run(
    plan: &Plan<'_>,
    invocation: &Invocation<'_>,
    tell: &mut dyn FnMut(LaunchEvent<'_>),
) -> Result<Report, StartError> {
    apply(plan, invocation, None, tell)
}

/// What a bus's filter gets when it is started.
pub(crate) struct Attended {
    /// The number of the launch that the filter belongs to.
    pub(crate) number: String,
    /// The socket that it serves.
    pub(crate) socket: OwnedFd,
    /// The socket by which the filter tells that launch that it is ready.
    pub(crate) control: OwnedFd,
}

/// Applies the plan of a bus's filter.
pub(crate) fn attended(
    plan: &Plan<'_>,
    invocation: &Invocation<'_>,
    attended: Attended,
) -> Result<Report, StartError> {
    apply(plan, invocation, Some(attended), &mut |_nobody_listens| {})
}

fn apply(
    plan: &Plan<'_>,
    invocation: &Invocation<'_>,
    attended: Option<Attended>,
    tell: &mut dyn FnMut(LaunchEvent<'_>),
) -> Result<Report, StartError> {
    let name = invocation.command.first().ok_or(StartError::NoCommand)?;
    let streams = Streams::inspect()?;

    let given = plan.offline.as_ref().map_or(&[][..], |offline| &offline.variables);
    let strings = environment(invocation.environment, given)?;
    let candidates = candidates(name, &strings)?;
    let candidates: Vec<&CStr> = candidates.iter().map(Text::as_c_str).collect();
    let first = invocation.first_argument.unwrap_or(name);
    let rest = invocation.command.iter().skip(1);
    let arguments: StringArray<'_> = std::iter::once(first).chain(rest).map(Text::as_c_str).collect();
    let variables: StringArray<'_> = strings.iter().map(Variable::as_c_str).collect();

    let trees = Trees::of(plan, invocation.refusals);
    let buses = Buses::open(plan)?;
    let publish = gateway::publish(plan)?;
    let network = gateway::network(plan);
    let (link_of_broker, link_of_gateway) = Link::of(plan)?.map(|link| (link.broker, link.gateway)).unzip();
    let number = attended.as_ref().map(|attended| attended.number.clone());
    let console = if plan.terminal { streams.console() } else { None };
    let given = Given::new(plan, buses.sockets(), number.as_deref().unwrap_or(buses.number()), console)
        .with_refusals(invocation.refusals);
    let operations = compile::operations(plan, &given, &trees);
    let maps = Maps::of(plan);
    let filter = plan.filter.instructions();
    let limits: Vec<Limit> =
        plan.limits.iter().map(|limit| Limit { resource: limit.resource, value: [limit.value; 2] }).collect();

    let replace = invocation.may_replace
        && plan.namespaces.is_empty()
        && plan.group_limits.is_empty()
        && plan.broker.is_none();
    if !replace {
        proc_is_ours()?;
    }
    let terminal = if replace {
        // The command replaces the caller's process, which has its terminal already.
        Terminal::Together(None)
    } else if plan.terminal {
        let scoped = plan
            .landlock
            .is_some_and(|landlock| landlock.scoped & palisade_sys::landlock::SCOPE_SIGNALS != 0);
        Terminal::examine(scoped)
    } else {
        Terminal::Apart
    };
    let place = match &terminal {
        Terminal::Together(_) => Place::Launcher,
        Terminal::Apart if !plan.terminal => Place::Session,
        Terminal::Apart | Terminal::HandedOver { .. } => Place::Group,
    };
    let window = Window::of(&terminal);
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    let _zero = rustix::process::umask(umask);
    let groups = Groups::make(plan)?;
    let (broker, receiver) = match attended {
        Some(attended) => (Some(launcher::broker(attended.socket, attended.control)?), None),
        None => {
            let (broker, receiver) = broker::prepare(plan, umask.as_raw_mode())?.unzip();
            let member = groups.memory()?;
            (broker.map(|broker| broker.joining(member).connecting(link_of_broker)), receiver)
        }
    };
    let refresher = masks::refresher(plan)?;
    let signal_mask =
        palisade_sys::wait::block_all_signals().map_err(|source| StartError::Wait { source })?;
    let launch = Launch {
        namespaces: namespaces(&plan.namespaces),
        identity: maps.identity(plan),
        operations: &operations,
        trees: trees.slots(),
        hostname: plan.hostname.as_ref().map_or(&[], |name| name.as_bytes()),
        landlock: plan.landlock.map(|landlock| Handled {
            files: landlock.files.0,
            net: 0,
            scoped: landlock.scoped,
        }),
        command: Command {
            candidates: &candidates,
            arguments: &arguments,
            environment: &variables,
            directory: plan.directory.as_c_str(),
            umask: umask.as_raw_mode(),
            limits: &limits,
            place,
            terminal: terminal.descriptor().map(|descriptor| descriptor.as_raw_fd()),
            signal_mask,
            filter: &filter,
            reopen: &streams.reopen,
            join: groups.descriptors(),
        },
        broker: broker.as_ref(),
        refresher: refresher.as_ref(),
        network: network.as_ref(),
        timings: invocation.timings,
    };
    let list = |command, init, replaced| {
        let Invocation { number, name, command: words, .. } = *invocation;
        let launched = Launched { number, name, words, command, init, tier: Tier::of(plan), replaced };
        plan.listing.as_ref().map(|listing| Entry::write(listing, &launched)).transpose()
    };
    if replace {
        // Written before the replacement: no process is left afterwards that could write it.
        let _entry = told(list(rustix::process::getpid().as_raw_pid(), None, true), tell);
        let failure = palisade_sys::launch::replace(&launch);
        let _restored = palisade_sys::wait::set_signal_mask(signal_mask);
        return Err(StartError::from_failure(failure, plan, &name.to_string()));
    }
    let mut tree_failure = None;
    let mut open_trees = Vec::new();
    let mut open = |namespace: BorrowedFd<'_>| {
        open_trees = trees.open(plan, namespace).map_err(|error| {
            tree_failure = Some(error.step);
            error.errno
        })?;
        Ok(())
    };
    let provide: Option<Provide<'_>> =
        (plan.identity.kind == IdentityKind::Mapped).then_some(&mut open as Provide<'_>);
    let started = palisade_sys::launch::start(&launch, provide);
    drop(open_trees);
    let started = started.map_err(|failure| {
        let _restored = palisade_sys::wait::set_signal_mask(signal_mask);
        match tree_failure {
            Some(step) => StartError::from_step(plan, step, failure.errno),
            None => StartError::from_failure(failure, plan, &name.to_string()),
        }
    });
    let started = started?;

    let private = Private::take(plan, given.kept());
    let stamps = started.stamps;
    // Written while the command already runs, but before `Started` is reported: a reader of that event finds the entry.
    let entry = list(started.executing, started.init, false);
    let entry = told(entry, tell);
    tell(LaunchEvent::Started(Running { pid: started.executing, init: started.init }, invocation.number));
    let children = Children::of(&started);
    let gateway = Gateway::of(
        plan,
        (network.as_ref(), link_of_gateway),
        publish,
        &started,
        invocation.serve_network,
        tell,
    );
    let mut state = SupervisorState::of(&started, receiver.as_ref(), buses, gateway, invocation.parent);
    let watched = monitor::watch(&started, &terminal, &mut state, tell);
    if plan.lifecycle.wait_for_all {
        monitor::linger(&started, &children, &mut state, tell);
    }
    let changed = private.changed();
    let finished = monitor::finish(started, &children, state, tell);
    if let Some(changed) = changed {
        let gone = changed.list(plan);
        if !gone.is_empty() {
            tell(LaunchEvent::Gone(&gone));
        }
    }
    drop(entry);
    groups.remove();
    if let Some(window) = window {
        window.restore();
    }
    let outcome = watched.map_err(|source| StartError::Wait { source })?;
    finished.map_err(|source| StartError::Wait { source })?;
    Ok(Report { outcome, stamps })
}

/// An entry of the registry. Reports why there is none.
fn told(entry: Result<Option<Entry>, RegistryError>, tell: &mut dyn FnMut(LaunchEvent<'_>)) -> Option<Entry> {
    entry.unwrap_or_else(|error| {
        if error.is_told() {
            tell(LaunchEvent::Unlisted(&error));
        }
        None
    })
}

/// A variable of the command's environment.
enum Variable<'p> {
    /// Inherited or the plan's, and used in place.
    InPlace(&'p CStr),
    /// Made here.
    Made(Text<'static>),
}

impl Variable<'_> {
    fn as_c_str(&self) -> &CStr {
        match self {
            Self::InPlace(variable) => variable,
            Self::Made(variable) => variable.as_c_str(),
        }
    }
}

fn environment<'p>(filter: &Filter, given: &'p [Text<'_>]) -> Result<Vec<Variable<'p>>, StartError> {
    let mut variables = Vec::with_capacity(64);
    for variable in palisade_sys::process::environment() {
        let bytes = variable.to_bytes();
        // A string without `=` is a name without a value.
        let end = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
        let (name, value) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
        let replaced = |given: &Text<'_>| {
            given.as_bytes().strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'='))
        };
        if !name.is_empty() && filter.judge_value(name, value).0 == Fate::Kept && !given.iter().any(replaced)
        {
            variables.push(Variable::InPlace(variable));
        }
    }
    variables.extend(given.iter().map(|given| Variable::InPlace(given.as_c_str())));
    for (name, value, _origin) in filter.values() {
        variables.push(Variable::Made(Text::new(format!("{name}={value}"))?));
    }
    Ok(variables)
}

/// The paths at which a command may be.
fn candidates(name: &Text<'_>, variables: &[Variable<'_>]) -> Result<Vec<Text<'static>>, StartError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(vec![Text::new(name.as_bytes())?]);
    }
    if name.as_bytes().is_empty() {
        return Err(StartError::NotFound { command: String::new() });
    }
    let path =
        variables.iter().rev().find_map(|variable| variable.as_c_str().to_bytes().strip_prefix(b"PATH="));
    let mut candidates = Vec::new();
    for directory in path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':') {
        // An empty entry means the working directory. It is skipped, because no user wants a command from there by way
        // of `PATH`.
        if !directory.is_empty() {
            candidates.push(Text::new([directory, b"/", name.as_bytes()].concat())?);
        }
    }
    Ok(candidates)
}

fn namespaces(wanted: &[Namespace]) -> Namespaces {
    wanted.iter().fold(Namespaces::default(), |all, namespace| {
        all.and(match namespace {
            Namespace::User => Namespaces::USER,
            Namespace::Mount => Namespaces::MOUNT,
            Namespace::Pid => Namespaces::PID,
            Namespace::Ipc => Namespaces::IPC,
            Namespace::Uts => Namespaces::UTS,
            Namespace::Cgroup => Namespaces::CGROUP,
            Namespace::Network => Namespaces::NETWORK,
        })
    })
}

/// Requires that `/proc` shows the launcher's own PID namespace, because the launcher looks processes up there by
/// number. After `unshare --pid` this isn't so until a process mounts `/proc` again.
fn proc_is_ours() -> Result<(), StartError> {
    let mut shown = [0u8; 16];
    let length = rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self", &mut shown);
    if length.is_err() && rustix::fs::access(c"/proc/version", rustix::fs::Access::EXISTS).is_err() {
        return Err(StartError::NoProc);
    }
    let shown = length.ok().and_then(|length| core::str::from_utf8(&shown[..length]).ok()?.parse().ok());
    if shown == Some(rustix::process::getpid().as_raw_pid()) { Ok(()) } else { Err(StartError::ForeignProc) }
}

/// The lines written to the map files.
struct Maps {
    uid: String,
    gid: String,
}

impl Maps {
    fn of(plan: &Plan<'_>) -> Self {
        let identity = plan.identity;
        Self {
            uid: format!("{} {} 1", identity.uid, identity.host_uid),
            gid: format!("{} {} 1", identity.gid, identity.host_gid),
        }
    }

    fn identity(&self, plan: &Plan<'_>) -> Identity<'_> {
        let (uid_map, gid_map) = (self.uid.as_bytes(), self.gid.as_bytes());
        match plan.identity.kind {
            IdentityKind::Unchanged => Identity::Unchanged,
            IdentityKind::Own => Identity::Own { uid_map, gid_map },
            IdentityKind::Mapped => {
                Identity::Mapped { uid_map, gid_map, uid: plan.identity.uid, gid: plan.identity.gid }
            }
        }
    }
}
