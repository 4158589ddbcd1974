// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first process inside: it builds the file tree, gives up its rights, and becomes the command or process 1.

use crate::arguments::Identity;
use crate::environment::Environment;
use crate::launch::{self, Common};
use crate::message::Failure;
use crate::reaper;
use crate::request::Request;
use crate::status;
use crate::steps::{self, Facts};
use crate::words::{self, Result, Words, because, joined, needing_capability};
use palisade_sys::family::{self, Forked};
use palisade_sys::launch::{Namespaces, StringArray};
use palisade_sys::staged::{Frame, Part, Staging};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The descriptors by which this process and the monitor communicate.
#[derive(Debug)]
pub(crate) struct Handles {
    /// Can be read when the monitor lets this process go on.
    pub(crate) go: Option<OwnedFd>,
    /// A byte goes here when all is set up, another one if the command can't be executed after all.
    pub(crate) finishing: Option<OwnedFd>,
    /// The last process on the way into the caller's PID namespace announces itself here.
    pub(crate) relay: Option<OwnedFd>,
}

/// The highest capability that bubblewrap 0.11 knows.
const LAST_CAPABILITY: u32 = 40;

/// Runs the command; returns why it didn't. Process 1 ends here.
pub(crate) fn run(common: &Common, handles: Handles) -> Failure {
    let failure = match prepare(common, handles) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    if let (true, Some(refused)) = (failure.is_refusal(), &common.refused) {
        // Without the monitor there is nothing to explain.
        let _monitor_has_ended = rustix::io::write(refused, &1u64.to_ne_bytes());
    }
    // The monitor is in the caller's user namespace, where the host shows its reasons.
    failure.explained_elsewhere()
}

enum Never {}

fn prepare(common: &Common, handles: Handles) -> Result<Never> {
    let Common { request, identity, uid, gid, .. } = common;
    let descriptors = &request.descriptors;
    enter_processes(common, handles.relay)?;
    descriptors.info.into_iter().chain(descriptors.status).for_each(status::close);
    if let Some(go) = handles.go {
        status::read_event(&go).map_err(|errno| because("read eventfd", errno))?;
    }
    let requested = requested_capabilities(common);
    if request.namespaces.user || descriptors.user_namespace.is_some() {
        drop_bounding_set(requested)?;
    }
    if descriptors.user_namespace.is_some() {
        change_user(common)?;
    }
    if request.namespaces.network {
        family::loopback_up()
            .map_err(|errno| needing_capability("loopback: Failed to bring it up", errno))?;
    }
    // Root must exist inside while `devpts` is mounted.
    let maps_user = request.namespaces.user && descriptors.user_map_block.is_none();
    let as_root = maps_user && request.needs_devices();
    let (first_uid, first_gid) = if as_root { (0, 0) } else { (*uid, *gid) };
    if maps_user {
        map_user(common, [first_uid, identity.uid], [first_gid, identity.gid], true)?;
    }
    let mut environment = Environment::changed(&request.environment)?;
    let before = working_directory(&environment);
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    build(common, before.as_deref())?;
    launch::close_used(request);

    if let Some(second) = descriptors.second_user_namespace {
        launch::enter(second, Namespaces::USER).map_err(|errno| because("Setting userns2 failed", errno))?;
    }
    if maps_user && ((first_uid, first_gid) != (*uid, *gid) || request.disable_user_namespaces) {
        if request.disable_user_namespaces {
            forbid_user_namespaces(common)?;
        }
        family::unshare(Namespaces::USER).map_err(|errno| because("unshare user ns", errno))?;
        drop_bounding_set(requested)?;
        map_user(common, [*uid, first_uid], [*gid, first_gid], false)?;
    }
    if (request.disable_user_namespaces || request.assert_user_namespaces_disabled)
        && family::unshare(Namespaces::USER).is_ok()
    {
        return Err(Failure::new("creation of new user namespaces was not disabled as requested"));
    }
    // Root without options keeps what it has: a filter around this process may refuse the call.
    if request.capabilities.is_some() || identity.uid != 0 {
        keep_capabilities(requested, identity)?;
    }
    launch::dumpable()?;
    if let Some(block) = descriptors.block {
        status::wait_for_byte(block);
        status::close(block);
    }
    let filters = filters(request)?;
    let _zero = rustix::process::umask(umask);
    go_to_directory(request, &before, &mut environment)?;
    if request.new_session {
        rustix::process::setsid().map_err(|errno| because("setsid", errno))?;
    }
    if !request.as_pid_1
        && (request.namespaces.pid || !request.locks.is_empty() || descriptors.sync.is_some())
    {
        let forked = family::fork(Namespaces::default());
        if let Forked::Parent(command) = forked.map_err(|errno| because("Can't fork for pid 1", errno))? {
            let code = reaper::run(common, command, &filters)?;
            palisade_sys::process::exit_now(i32::from(code));
        }
    }
    if let (false, Some(sync)) = (request.as_pid_1, descriptors.sync) {
        status::close(sync);
    }
    become_command(common, &environment, &filters, requested, handles.finishing)
}

/// Enters the caller's PID namespace, in which only children are, and makes one below it if that is asked for, too.
fn enter_processes(common: &Common, relay: Option<OwnedFd>) -> Result<()> {
    let Some(number) = common.request.descriptors.pid_namespace else { return Ok(()) };
    launch::enter(number, Namespaces::PID).map_err(|errno| because("Setting pidns failed", errno))?;
    step_inside()?;
    if common.request.namespaces.pid {
        family::unshare(Namespaces::PID).map_err(|errno| because("unshare pid ns", errno))?;
        step_inside()?;
    }
    if let Some(relay) = relay {
        rustix::io::write(&relay, &[0]).map_err(|errno| because("Can't send pid", errno))?;
    }
    Ok(())
}

/// Goes on in a child. This process ends, and the monitor adopts the child.
fn step_inside() -> Result<()> {
    match family::fork(Namespaces::default()).map_err(|errno| because("Can't fork for --pidns", errno))? {
        Forked::Child => Ok(()),
        Forked::Parent(_) => palisade_sys::process::exit_now(0),
    }
}

/// Sockets whose receiver learns the sender's number, as the receiver sees it.
pub(crate) fn relay() -> core::result::Result<(OwnedFd, OwnedFd), Errno> {
    let (receiver, sender) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::sockopt::set_socket_passcred(&receiver, true)?;
    Ok((receiver, sender))
}

/// The number of the process that has written to the other end.
pub(crate) fn received_pid(receiver: &OwnedFd) -> Result<i32> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = loop {
        let buffers = &mut [std::io::IoSliceMut::new(&mut byte)];
        match recvmsg(receiver, buffers, &mut ancillary, RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            other => break other.map_err(|errno| because("Can't read pid from socket", errno))?,
        }
    };
    let pid = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_pid()),
        _ => None,
    });
    match pid {
        Some(pid) if received.bytes > 0 => Ok(pid),
        // A process on the way has said why it failed.
        _ => Err(Failure::new("No pid returned on socket")),
    }
}

/// The capabilities that the command keeps.
fn requested_capabilities(common: &Common) -> u64 {
    let default = if common.identity.uid == 0 { common.identity.capabilities } else { 0 };
    common.request.capabilities.unwrap_or(default)
}

/// Gives up every other capability.
pub(crate) fn keep_capabilities(kept: u64, identity: &Identity) -> Result<()> {
    let set = CapabilitySet::from_bits_retain(kept);
    let sets = CapabilitySets { effective: set, permitted: set, inheritable: set };
    match rustix::thread::set_capabilities(None, sets) {
        Ok(()) => Ok(()),
        // A filter around root's process may refuse the call, and root may be asked for what it hasn't.
        Err(Errno::PERM) if identity.uid == 0 => Ok(()),
        Err(errno) => Err(because("capset failed", errno)),
    }
}

/// No program that is executed later can have other capabilities.
fn drop_bounding_set(kept: u64) -> Result<()> {
    for number in (0..=LAST_CAPABILITY).filter(|number| kept >> number & 1 == 0) {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(errno) => {
                return Err(because(format!("Dropping capability {number} from bounds"), errno));
            }
        }
    }
    Ok(())
}

/// Programs without capabilities of their own get these.
fn raise_ambient_set(kept: u64) -> Result<()> {
    for number in (0..=LAST_CAPABILITY).filter(|number| kept >> number & 1 == 1) {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::configure_capability_in_ambient_set(capability, true) {
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(errno) => return Err(because(format!("Adding ambient capability {number}"), errno)),
        }
    }
    Ok(())
}

/// Ends with its parent, if that is asked for.
pub(crate) fn die_with_parent(request: &Request) -> Result<()> {
    if !request.die_with_parent {
        return Ok(());
    }
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|errno| because("prctl", errno))
}

/// In a user namespace of the caller's there may be other users.
fn change_user(common: &Common) -> Result<()> {
    let Common { uid, gid, identity, .. } = common;
    if *uid != identity.uid {
        let id = rustix::process::Uid::from_raw(*uid);
        rustix::thread::set_thread_uid(id)
            .map_err(|errno| because(format!("unable to switch to uid {uid}"), errno))?;
    }
    if *gid != identity.gid {
        let id = rustix::process::Gid::from_raw(*gid);
        rustix::thread::set_thread_gid(id)
            .map_err(|errno| because(format!("unable to switch to gid {gid}"), errno))?;
    }
    Ok(())
}

/// Writes the maps of this process's user namespace: the first of each pair is inside.
fn map_user(common: &Common, uid: [u32; 2], gid: [u32; 2], deny_groups: bool) -> Result<()> {
    let map = |[inside, outside]: [u32; 2]| format!("{inside} {outside} 1\n");
    let failed = |text: &'static str| move |errno| needing_capability(text, errno);
    write_proc(common, "self/uid_map", &map(uid)).map_err(failed("setting up uid map"))?;
    if deny_groups {
        write_proc(common, "self/setgroups", "deny\n").map_err(failed("error writing to setgroups"))?;
    }
    write_proc(common, "self/gid_map", &map(gid)).map_err(failed("setting up gid map"))
}

/// Writes to a file below the host's `/proc`, at once, as files of the kernel demand.
fn write_proc(common: &Common, path: &str, content: &str) -> core::result::Result<(), Errno> {
    use rustix::fs::{Mode, OFlags, openat};
    let file = openat(&common.proc, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content.as_bytes()).map(drop)
}

/// The working directory, by the name that the shell has for it if that is one.
fn working_directory(environment: &Environment) -> Option<CString> {
    let is_here = |path: &[u8]| {
        let (Ok(named), Ok(here)) = (rustix::fs::stat(path), rustix::fs::stat(".")) else { return false };
        (named.st_dev, named.st_ino) == (here.st_dev, here.st_ino)
    };
    match environment.get(b"PWD") {
        Some(named) if !named.is_empty() && is_here(named) => CString::new(named).ok(),
        _ => rustix::process::getcwd(Vec::new()).ok(),
    }
}

/// Builds the file tree and enters it.
fn build(common: &Common, before: Option<&CStr>) -> Result<()> {
    let Common { request, terminal, .. } = common;
    let found = steps::find(request)?;
    let changes = steps::temporary_overlays(request);
    let changes: Vec<[&CStr; 2]> = changes.iter().map(|[upper, work]| [upper.as_c_str(), work]).collect();
    let staging =
        Staging::begin(request.setup.iter().any(steps::has_overlays), &changes).map_err(words::frame)?;
    let own_processes = request.namespaces.pid || request.descriptors.pid_namespace.is_some();
    let facts = Facts { own_processes, terminal: terminal.as_deref() };
    steps::each(request, &found, &facts, &mut |operation, words| {
        staging.run(operation).map_err(|failed| match (words, failed.part) {
            (Words::Symlink(dest), Part::OtherLink) => other_link(dest),
            (Words::ReadOnly(dest), Part::NoMount) => no_mount(dest),
            (Words::Bind { source, dest }, Part::Mount) => {
                // The kernel has been given the tree, not its name; the name is only for the message.
                let _stays_as_given = staging.leave();
                let _root = before.map(rustix::process::chdir);
                Words::Bind { source: &steps::source_name(source), dest }.failure(failed)
            }
            _ => words.failure(failed),
        })
    })?;
    staging.enter().map_err(|errno| words::frame((Frame::Enter, errno)))
}

/// The error of a link that is there and leads elsewhere.
fn other_link(dest: &CStr) -> Failure {
    let found = rustix::fs::readlink(palisade_sys::staged::relative(dest), Vec::new()).unwrap_or_default();
    Failure::new(joined(&[
        b"Can't make symlink at ",
        dest.to_bytes(),
        b": existing destination is ",
        found.to_bytes(),
    ]))
}

/// The error of a path that isn't the root of a mount, with what its links lead to.
fn no_mount(dest: &CStr) -> Failure {
    let path = std::fs::canonicalize(OsStr::from_bytes(palisade_sys::staged::relative(dest).to_bytes()));
    let path = path.map_or_else(|_gone| words::inside(dest), |path| path.into_os_string().into_vec());
    let what: &[&[u8]] = &[
        b"Can't remount readonly on ",
        &words::inside(dest),
        b": Unable to find \"",
        &path,
        b"\" in mount table",
    ];
    Failure::new(joined(what))
}

/// Allows this user namespace one more, which the sandbox gets.
fn forbid_user_namespaces(common: &Common) -> Result<()> {
    write_proc(common, "sys/user/max_user_namespaces", "1").map_err(|errno| match errno {
        Errno::NOENT | Errno::ACCESS => because("cannot open /proc/sys/user/max_user_namespaces", errno),
        _ => because("sysctl user.max_user_namespaces = 1", errno),
    })
}

/// All filters, in the order in which they are loaded.
fn filters(request: &Request) -> Result<Vec<Vec<palisade_sys::seccomp::Instruction>>> {
    let mut read = request.filters.clone();
    if let Some(number) = request.descriptors.filter {
        let mut content = Vec::new();
        family::take(number)
            .and_then(|filter| fs::File::from(filter).read_to_end(&mut content))
            .map_err(|error| Failure::because("Can't read seccomp data", &error))?;
        read.push(content);
    }
    let filter = |bytes: &Vec<u8>| {
        family::filter(bytes).ok_or_else(|| Failure::new("Invalid seccomp data, must be multiple of 8"))
    };
    read.iter().map(filter).collect()
}

/// Loads filters; nothing after this can be undone.
pub(crate) fn load(filters: &[Vec<palisade_sys::seccomp::Instruction>]) -> Result<()> {
    for filter in filters {
        palisade_sys::seccomp::install_by_prctl(filter).map_err(|errno| match errno {
            Errno::INVAL => Failure::new(
                "Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL. (Hint: this \
                 requires a kernel configured with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER.)",
            ),
            _ => because("prctl(PR_SET_SECCOMP)", errno),
        })?;
    }
    Ok(())
}

/// Goes to the directory that is asked for; else to the one outside, if it is there; else to the home.
fn go_to_directory(request: &Request, before: &Option<CString>, environment: &mut Environment) -> Result<()> {
    let here = match &request.directory {
        Some(directory) => {
            rustix::process::chdir(directory)
                .map_err(|errno| because(joined(&[b"Can't chdir to ", directory.to_bytes()]), errno))?;
            directory.to_bytes().to_vec()
        }
        None => {
            let home = environment.get(b"HOME").map(<[u8]>::to_vec);
            let before = before.as_ref().map(|before| before.to_bytes().to_vec());
            let there =
                [before, home].into_iter().flatten().find(|path| rustix::process::chdir(path).is_ok());
            there.unwrap_or_else(|| b"/".to_vec())
        }
    };
    environment.set(b"PWD", &here);
    Ok(())
}

/// Where a command without a slash is searched for if `PATH` isn't set.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

fn become_command(
    common: &Common,
    environment: &Environment,
    filters: &[Vec<palisade_sys::seccomp::Instruction>],
    requested: u64,
    finishing: Option<OwnedFd>,
) -> Result<Never> {
    let request = &common.request;
    // Rust's runtime ignores SIGPIPE, and an ignored signal stays ignored over exec.
    let piped = family::restore_default(rustix::process::Signal::PIPE.as_raw());
    piped
        .and_then(|()| {
            palisade_sys::wait::set_signal_mask(common.signal_mask & !(1 << (launch::SIGCHLD - 1)))
        })
        .map_err(|errno| because("sigprocmask", errno))?;
    die_with_parent(request)?;
    raise_ambient_set(requested)?;
    let name = request.command.first().cloned().unwrap_or_default();
    let candidates = candidates(&name, environment);
    let variables: StringArray<'_> = environment.iter().collect();
    let first = request.first_argument.as_deref().unwrap_or(&name);
    let rest = || request.command.iter().skip(1).map(CString::as_c_str);
    let arguments: StringArray<'_> = core::iter::once(first).chain(rest()).collect();
    // Last, so that filters need not allow what comes before.
    load(filters)?;
    let tell = || finishing.as_ref().map(|finishing| rustix::io::write(finishing, &[0]));
    let _the_monitor_has_died = tell();
    let mut refused = None;
    let mut last = Errno::NOENT;
    for path in &candidates {
        last = family::execute(path, &arguments, &variables);
        match last {
            Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => continue,
            Errno::ACCESS => {
                refused = Some(last);
                continue;
            }
            // A script without a first line that names its interpreter.
            Errno::NOEXEC => {
                let script = [c"/bin/sh", path].into_iter().chain(rest()).collect();
                last = family::execute(c"/bin/sh", &script, &variables);
            }
            _ => {}
        }
        refused = None;
        break;
    }
    let _the_monitor_has_died = tell();
    Err(because(joined(&[b"execvp ", name.to_bytes()]), refused.unwrap_or(last)))
}

/// The paths at which a command may be.
fn candidates(name: &CStr, environment: &Environment) -> Vec<CString> {
    if name.to_bytes().contains(&b'/') || name.is_empty() {
        return vec![name.to_owned()];
    }
    let path = environment.get(b"PATH").unwrap_or(DEFAULT_PATH);
    let join = |directory: &[u8]| {
        let between: &[u8] = if directory.is_empty() { b"" } else { b"/" };
        CString::new(joined(&[directory, between, name.to_bytes()])).ok()
    };
    path.split(|byte| *byte == b':').filter_map(join).collect()
}
