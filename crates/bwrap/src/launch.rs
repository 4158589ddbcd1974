// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processes of a sandbox.
//!
//! ```text
//! this process ──fork──► first process inside ──fork──► the command
//!    monitor               builds the tree; then
//!                          waits for all others (PID 1)
//! ```
//!
//! The second fork is made if there is a PID namespace, a lock or a descriptor to keep. Otherwise, and with
//! `--as-pid-1`, the first process becomes the command.

use crate::arguments::{self, Identity};
use crate::inside;
use crate::message::Failure;
use crate::monitor::Monitor;
use crate::request::Request;
use crate::status;
use crate::steps;
use crate::words::{Result, because};
use palisade_sys::family::{self, Forked};
use palisade_sys::launch::Namespaces;
use palisade_sys::wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;

/// What both processes know.
#[derive(Debug)]
pub(crate) struct Common {
    /// What is asked for, with the namespaces that "if possible" stands for.
    pub(crate) request: Request,
    pub(crate) identity: Identity,
    /// The user and group inside.
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The terminal that is standard output.
    pub(crate) terminal: Option<CString>,
    /// How a command ended, from process 1 to the monitor.
    pub(crate) ended: Option<OwnedFd>,
    /// The first process inside tells the monitor that the kernel refused it what a setting of the host may forbid. There is
    /// one if a user namespace is made.
    pub(crate) refused: Option<OwnedFd>,
    /// The host's `/proc`, which is gone once the tree stands.
    pub(crate) proc: OwnedFd,
    /// The signal mask of the command.
    pub(crate) signal_mask: u64,
}

/// How a sandbox ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code of this process.
    pub(crate) code: u8,
    /// There was no command, and a setting of the host may be the reason. The reason has been printed in bubblewrap's words.
    pub(crate) is_refused: bool,
}

/// Makes the sandbox and waits for the command. Returns how it ended, or in the new process the reason why there is no
/// command.
pub(crate) fn launch(mut request: Request, identity: Identity) -> Result<Ended> {
    family::restore_default(SIGCHLD).map_err(|errno| because("sigaction", errno))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|errno| because("prctl(PR_SET_NO_NEW_PRIVS) failed", errno))?;
    settle(&mut request, &identity)?;
    let common = Common {
        uid: request.uid.unwrap_or(identity.uid),
        gid: request.gid.unwrap_or(identity.gid),
        terminal: terminal(),
        ended: wants_reaper_events(&request).then(event).transpose()?,
        refused: request.namespaces.user.then(event).transpose()?,
        proc: rustix::fs::open(
            "/proc",
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .map_err(|errno| because("Can't open /proc", errno))?,
        signal_mask: wait::signal_mask().map_err(|errno| because("sigprocmask", errno))?,
        request,
        identity,
    };
    let request = &common.request;
    wait::set_signal_mask(common.signal_mask | 1 << (SIGCHLD - 1))
        .map_err(|errno| because("sigprocmask", errno))?;
    let go = waits_for_launcher(request).then(event).transpose()?;
    let finished = request
        .descriptors
        .status
        .map(|_status| rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC))
        .transpose()
        .map_err(|errno| because("pipe2()", errno))?;
    let (finished, finishing) = finished.unzip();
    enter_user_namespace(request)?;
    let relay = relay(request)?;

    match family::fork(own_namespaces(request)).map_err(|errno| not_made(errno, request))? {
        Forked::Child => {
            drop(finished);
            let relay = relay.map(|(_receiver, sender)| sender);
            Err(inside::run(&common, inside::Handles { go, finishing, relay }))
        }
        Forked::Parent(child) => {
            drop(finishing);
            let child = match relay {
                Some((receiver, sender)) => {
                    drop(sender);
                    inside::received_pid(&receiver)?
                }
                None => child,
            };
            let code = watch(&common, child, go.as_ref(), finished).inspect_err(|_failure| {
                // It would wait for this process for ever.
                let _ended_already = wait::send(child, Signal::KILL.as_raw());
            })?;
            Ok(Ended { code, is_refused: code == Failure::EXIT_CODE && was_refused(&common) })
        }
    }
}

/// How signals are numbered in a mask.
pub(crate) const SIGCHLD: i32 = Signal::CHILD.as_raw();

/// Tells what the caller wants to know, lets the sandbox go on, and waits for its end.
fn watch(common: &Common, child: i32, go: Option<&OwnedFd>, finished: Option<OwnedFd>) -> Result<u8> {
    let Common { request, ended, refused, .. } = common;
    let descriptors = &request.descriptors;
    let namespaces = if descriptors.info.is_some() || descriptors.status.is_some() {
        status::namespaces(child, &request.namespaces)?
    } else {
        Vec::new()
    };
    if let Some(second) = descriptors.second_user_namespace {
        enter(second, Namespaces::USER).map_err(|errno| because("Setting userns2 failed", errno))?;
    }
    inside::keep_capabilities(0, &common.identity)?;
    dumpable()?;
    inside::die_with_parent(request)?;
    let told = |errno| because("Write to info_fd", errno);
    if let Some(info) = descriptors.info {
        status::write(info, &status::info(child, &namespaces)).map_err(told)?;
        status::close(info);
    }
    if let Some(status) = descriptors.status {
        status::write(status, &status::child(child, &namespaces)).map_err(told)?;
    }
    if let Some(block) = descriptors.user_map_block {
        status::wait_for_byte(block);
        status::close(block);
    }
    if let Some(go) = go {
        // If the child has died, the monitor notices.
        let _child_has_died = rustix::io::write(go, &1u64.to_ne_bytes());
    }
    let (ended, refused) = (ended.as_ref(), refused.as_ref());
    Monitor { child, ended, refused, status: descriptors.status, finished }.watch()
}

/// `/proc/self` belongs to the user again.
pub(crate) fn dumpable() -> Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
        .map_err(|errno| because("can't set dumpable", errno))
}

/// Enters the namespace that a descriptor of the caller's stands for.
pub(crate) fn enter(number: i32, kind: Namespaces) -> core::result::Result<(), Errno> {
    let number = u32::try_from(number).map_err(|_negative| Errno::BADF)?;
    family::enter(palisade_sys::process::inherited(number)?, kind)
}

fn event() -> Result<OwnedFd> {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)
        .map_err(|errno| because("eventfd()", errno))
}

/// Whether the first process inside, which has ended, failed by what a setting of the host may forbid.
fn was_refused(common: &Common) -> bool {
    let Some(refused) = &common.refused else { return false };
    let mut told = [PollFd::new(refused, PollFlags::IN)];
    matches!(poll(&mut told, Some(&Timespec::default())), Ok(1..))
}

/// Whether process 1 tells the monitor how the command ended.
const fn wants_reaper_events(request: &Request) -> bool {
    request.namespaces.pid && !request.as_pid_1
}

/// Whether the first process inside must wait: only if there is something to tell, or to wait for.
const fn waits_for_launcher(request: &Request) -> bool {
    let descriptors = &request.descriptors;
    descriptors.info.is_some() || descriptors.status.is_some() || descriptors.user_map_block.is_some()
}

/// The name of the terminal that is standard output.
fn terminal() -> Option<CString> {
    let stdout = rustix::stdio::stdout();
    rustix::termios::isatty(stdout).then(|| rustix::termios::ttyname(stdout, Vec::new()).ok()).flatten()
}

/// Decides what "if possible" stands for on this host, and checks that nothing is missing then.
pub(crate) fn settle(request: &mut Request, identity: &Identity) -> Result<()> {
    resolve(request)?;
    arguments::check(request, identity)
}

/// Decides what "if possible" stands for on this host.
fn resolve(request: &mut Request) -> Result<()> {
    if request.namespaces.user_if_possible && has_user_namespaces() {
        request.namespaces.user = true;
    }
    let groups = || rustix::fs::stat("/proc/self/ns/cgroup");
    if request.namespaces.cgroup {
        match groups() {
            Ok(_) => {}
            Err(Errno::NOENT) => {
                return Err(Failure::new(
                    "Cannot create new cgroup namespace because the kernel does not support it",
                ));
            }
            Err(errno) => return Err(because("stat on /proc/self/ns/cgroup failed", errno)),
        }
    }
    if request.namespaces.cgroup_if_possible {
        request.namespaces.cgroup = groups().is_ok();
    }
    Ok(())
}

fn has_user_namespaces() -> bool {
    let says = |path: &str, no: &str| fs::read_to_string(path).is_ok_and(|text| text.starts_with(no));
    rustix::fs::stat("/proc/self/ns/user").is_ok()
        && !says("/sys/module/user_namespace/parameters/enable", "N")
        && !says("/proc/sys/user/max_user_namespaces", "0\n")
}

/// The namespaces that the first process gets. A PID namespace below the caller's is made later.
fn own_namespaces(request: &Request) -> Namespaces {
    let wanted = &request.namespaces;
    let all = [
        (wanted.user, Namespaces::USER),
        (wanted.pid && request.descriptors.pid_namespace.is_none(), Namespaces::PID),
        (wanted.network, Namespaces::NETWORK),
        (wanted.ipc, Namespaces::IPC),
        (wanted.uts, Namespaces::UTS),
        (wanted.cgroup, Namespaces::CGROUP),
    ];
    let kinds = all.into_iter().filter_map(|(wanted, kind)| wanted.then_some(kind));
    kinds.fold(Namespaces::MOUNT, Namespaces::and)
}

/// Enters the caller's user namespace, which gives rights in it.
fn enter_user_namespace(request: &Request) -> Result<()> {
    let Some(number) = request.descriptors.user_namespace else { return Ok(()) };
    enter(number, Namespaces::USER).map_err(|errno| match errno {
        Errno::INVAL => Failure::new(
            "Joining the specified user namespace failed, it might not be a descendant of the current user namespace.",
        ),
        _ => because("Joining specified user namespace failed", errno),
    })
}

/// On the way into the caller's PID namespace there are processes that end at once. This process adopts the last one, and
/// learns its number by these sockets.
fn relay(request: &Request) -> Result<Option<(OwnedFd, OwnedFd)>> {
    if request.descriptors.pid_namespace.is_none() {
        return Ok(None);
    }
    let own = Some(rustix::process::getpid());
    let adopted = rustix::process::set_child_subreaper(own);
    adopted.and_then(|()| inside::relay()).map(Some).map_err(|errno| because("socketpair", errno))
}

const NO_MORE: &str =
    "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)";

/// The error of a first process that couldn't be made.
fn not_made(errno: Errno, request: &Request) -> Failure {
    match errno {
        Errno::INVAL if request.namespaces.user => Failure::new(
            "Creating new namespace failed, likely because the kernel does not support user namespaces.",
        ),
        Errno::PERM if request.namespaces.user => Failure::new(
            "No permissions to create a new namespace, likely because the kernel does not allow non-privileged user \
             namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.",
        )
        .refused(),
        Errno::NOSPC if request.namespaces.user => Failure::new(NO_MORE).refused(),
        Errno::NOSPC => Failure::new(NO_MORE),
        Errno::ACCESS if request.namespaces.user => because("Creating new namespace failed", errno).refused(),
        _ => because("Creating new namespace failed", errno),
    }
}

/// Closes what steps have used up, so that the command doesn't get it.
pub(crate) fn close_used(request: &Request) {
    steps::used_descriptors(request).into_iter().for_each(status::close);
}
