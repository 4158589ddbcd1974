// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The builder: the process that makes init, the file tree, the command, and, if the launch has them, broker stub and
//! mask refresher.
//!
//! It shares the launcher's memory and uses raw calls only.

use crate::clone;
use crate::command;
use crate::init::{await_init, die_with_parent};
use crate::launch::{Assignment, Failure, Identity, Shared, Step, at};
use crate::operation::{Operation, Progress, Source};
use crate::raw::{self, Fd};
use core::ffi::c_void;
use rustix::io::Errno;

/// The builder.
///
/// # Safety
/// `argument` points to a [`Shared`] that no other process touches until the builder has ended.
pub(crate) unsafe extern "C" fn build(argument: *mut c_void) -> ! {
    // SAFETY: needed because clone passes one pointer. Sound by the caller's promise.
    let shared = unsafe { &mut *argument.cast::<Shared<'_>>() };
    let code = match assemble(shared) {
        Ok(()) => 0,
        Err(failure) => {
            shared.failure = Some(failure);
            1
        }
    };
    raw::exit(code)
}

fn assemble(shared: &mut Shared<'_>) -> Result<(), Failure> {
    let launch = shared.launch;
    let meeting = shared.assignment.meeting;
    // If the launcher is killed while the builder waits for it, no other process would end the builder.
    die_with_parent().map_err(at(Step::Builder))?;
    if raw::getppid() != shared.assignment.owner {
        return Err(Failure { step: Step::Builder, errno: Errno::SRCH });
    }
    if launch.outside_proc().is_none() {
        raw::unshare(launch.namespaces.0 & libc::CLONE_NEWPID).map_err(at(Step::PidNamespace))?;
    }
    // Init comes first: its work takes longest, and needs no result of the following steps.
    let init = start_init(shared)?;
    assume_identity(shared)?;
    shared.stamps.namespaces = shared.stamp();

    let mut progress = Progress::new(launch.landlock.as_ref()).map_err(at(Step::Ruleset))?;
    if matches!(launch.identity, Identity::Own { .. } | Identity::Unchanged) {
        progress.take_working_directory().map_err(at(Step::WorkingDirectory))?;
    }
    raw::umask(0);
    for (index, operation) in launch.operations.iter().enumerate() {
        if matches!(operation, Operation::Proc { .. }) {
            let proc = await_init(&meeting.proc, init, Step::Proc)?;
            progress.proc = i32::try_from(proc).ok();
        }
        if let Operation::Bind { source: Source::Tree(_), .. } = operation {
            let lost = || raw::getppid() != shared.assignment.owner;
            meeting.trees.wait(lost).map_err(at(Step::Provide))?;
        }
        progress.run(operation, launch.trees).map_err(at(Step::Operation(index)))?;
    }
    // All are on the root's file system, so the first tells of all.
    let kept = launch.operations.iter().find_map(|operation| match operation {
        Operation::Own { kept, .. } => *kept,
        _ => None,
    });
    if let Some(kept) = kept {
        kept.count().map_err(at(Step::Descriptors))?;
    }
    let ruleset = progress.ruleset;
    shared.progress = Some(progress);
    shared.stamps.mounts = shared.stamp();

    await_init(&meeting.ready, init, Step::Network)?;
    let by_init = launch.namespaces.0 & crate::init::BY_INIT;
    if by_init != 0 {
        // A change of user has made the shared memory undumpable, which makes init's namespaces inaccessible. No
        // process is inside yet that could exploit a dumpable builder.
        raw::prctl(libc::PR_SET_DUMPABLE, 1, 0).map_err(at(Step::Enter))?;
        raw::setns(init, by_init).map_err(at(Step::Enter))?;
    }
    let pid_namespace = match launch.outside_proc() {
        Some(proc) => Some(open_pid_namespace(proc, shared.init).map_err(at(Step::Enter))?),
        None => None,
    };
    raw::prctl(libc::PR_SET_DUMPABLE, 0, 0).map_err(at(Step::Enter))?;
    if let Some(refresher) = launch.refresher {
        // SAFETY: needed to make a process that shares memory. Sound: stack and setup are kept by
        // `Memory` until the refresher has been reaped, and by `start` if the launch fails.
        unsafe { refresher.start(init, shared.refresher_stack, &raw mut shared.refresher) }
            .map_err(at(Step::MaskRefresher))?;
    }
    raw::close(init).map_err(at(Step::Descriptors))?;
    shared.stamps.network = shared.stamp();

    let mut files = 0;
    if let Some(broker) = launch.broker {
        // The broker is in the command's Landlock domain. That limits what a hostile command can make the broker do,
        // and the broker may read the command's memory only inside the same domain. So the builder restricts itself
        // here, for both. Without a broker the command does this for itself.
        command::restrict(shared)?;
        // SAFETY: needed to make a process that shares memory. Sound: stack and setup are kept by
        // `Memory` until the stub has been reaped, and by `start` if the launch fails.
        unsafe { broker.keep(shared.stub_stack, &raw mut shared.stub) }.map_err(at(Step::Broker))?;
        // The listener, which the command gets, must be the stub's.
        files = libc::CLONE_FILES;
    }
    // From here on new child processes are inside the PID namespace.
    if let Some(namespace) = pid_namespace {
        raw::setns(namespace, libc::CLONE_NEWPID).map_err(at(Step::PidNamespace))?;
        raw::close(namespace).map_err(at(Step::Descriptors))?;
    }
    let argument: *mut Shared<'_> = &raw mut *shared;
    // SAFETY: needed to make a process that shares memory. Sound: `shared` and the stack outlive
    // the child's use of them because VFORK suspends the builder until exec or exit.
    unsafe {
        clone::sharing_memory_announced(
            libc::CLONE_VFORK | libc::CLONE_PARENT | files,
            shared.command_stack,
            command::restrict_and_exec,
            argument.cast(),
            &raw mut (*argument).command,
        )
    }
    .map_err(at(Step::Fork))?;
    shared.stamps.exec = shared.stamp();
    if let Some(broker) = launch.broker
        && shared.listener < 0
    {
        broker.hand_over(shared.listener);
    }
    // The descriptor table is shared with the launcher, which doesn't need the ruleset.
    if let Some(ruleset) = ruleset {
        raw::close(ruleset).map_err(at(Step::Descriptors))?;
    }
    shared.built = true;
    shared.failure.map_or(Ok(()), Err)
}

/// Changes to the command's user and group.
fn assume_identity(shared: &mut Shared<'_>) -> Result<(), Failure> {
    let failed = at(Step::Identity);
    match shared.launch.identity {
        Identity::Unchanged => Ok(()),
        Identity::Own { uid_map, gid_map } => {
            // Without it an unprivileged process may not write a group map (user_namespaces(7)).
            raw::write_file(c"/proc/self/setgroups", b"deny").map_err(&failed)?;
            raw::write_file(c"/proc/self/uid_map", uid_map).map_err(&failed)?;
            raw::write_file(c"/proc/self/gid_map", gid_map).map_err(&failed)
        }
        Identity::Mapped { uid, gid, .. } => {
            let Assignment { meeting, owner, .. } = shared.assignment;
            meeting.maps.wait(|| raw::getppid() != *owner).map_err(&failed)?;
            raw::clear_groups().map_err(&failed)?;
            raw::setresgid(gid).map_err(&failed)?;
            raw::setresuid(uid).map_err(&failed)?;
            die_with_parent().map_err(&failed)
        }
    }
}

/// Opens the PID namespace of `init`. A descriptor of the namespace, unlike one of init, lets a process enter the
/// namespace from inside a Landlock domain, too.
fn open_pid_namespace(proc: Fd, init: i32) -> raw::Result<Fd> {
    let mut path = [0u8; 24];
    let tail = b"/ns/pid\0";
    let mut start = path.len() - tail.len();
    path[start..].copy_from_slice(tail);
    let mut number = init.unsigned_abs();
    while number > 0 && start > 0 {
        start -= 1;
        path[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    let path = core::ffi::CStr::from_bytes_until_nul(&path[start..]).map_err(|_no_end| Errno::INVAL)?;
    raw::openat(proc, path, libc::O_RDONLY)
}

/// Makes init and returns a descriptor of it.
fn start_init(shared: &mut Shared<'_>) -> Result<Fd, Failure> {
    let assignment: *const Assignment<'_> = shared.assignment;
    let mut descriptor = -1;
    // If some processes of the launch are to be outside, the builder stays outside the PID namespace for now.
    let own = match shared.launch.outside_proc() {
        Some(_) => shared.launch.namespaces.0 & libc::CLONE_NEWPID,
        None => 0,
    };
    // SAFETY: needed to make a process that shares memory. Sound: the assignment is only read, and lives until the
    // launcher has heard from the builder, which waits for `ready`; the stack lives as long as the sandbox; `run`
    // uses raw calls only.
    let pid = unsafe {
        clone::sharing_memory_with_descriptor(
            libc::CLONE_PARENT | libc::CLONE_FILES | own,
            shared.init_stack,
            crate::init::run,
            assignment.cast_mut().cast(),
            &raw mut descriptor,
        )
    }
    .map_err(at(Step::Init))?;
    shared.init = pid;
    // Init runs on another processor than the builder. Otherwise the builder waited 0.4 ms for the process file
    // system where the launcher keeps the other processor busy. A failure here only makes the launch slower.
    let _only_slower = raw::place_elsewhere(pid);
    Ok(descriptor)
}
