// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command's process, from clone to exec: it restricts itself and executes the command's program.

use crate::launch::{Failure, Namespaces, Shared, Step, at};
use crate::operation::Progress;
use crate::raw::{self, Fd};
use core::ffi::{CStr, c_void};
use core::marker::PhantomData;
use rustix::io::Errno;

/// A null-terminated array of C strings, as exec takes it.
#[derive(Debug)]
pub struct StringArray<'a> {
    pointers: Vec<*const u8>,
    strings: PhantomData<&'a CStr>,
}

impl<'a> FromIterator<&'a CStr> for StringArray<'a> {
    fn from_iter<I: IntoIterator<Item = &'a CStr>>(strings: I) -> Self {
        let mut pointers: Vec<*const u8> = strings.into_iter().map(|string| string.as_ptr().cast()).collect();
        pointers.push(core::ptr::null());
        Self { pointers, strings: PhantomData }
    }
}

impl StringArray<'_> {
    pub(crate) fn as_ptr(&self) -> *const *const u8 {
        self.pointers.as_ptr()
    }
}

/// One resource limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// `RLIMIT_*`.
    pub resource: u32,
    /// The soft and the hard limit.
    pub value: [u64; 2],
}

/// The process group and session of the command, which matter for the terminal and for signals to groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// With its launcher.
    Launcher,
    /// A process group of its own.
    Group,
    /// A session of its own, without a terminal.
    Session,
}

/// What to execute, and how it starts out.
#[derive(Debug)]
pub struct Command<'a> {
    /// Paths to try in turn, as a search of `PATH` gives them; one for a path.
    pub candidates: &'a [&'a CStr],
    /// Arguments, with the command's name.
    pub arguments: &'a StringArray<'a>,
    /// Environment.
    pub environment: &'a StringArray<'a>,
    /// Working directory inside.
    pub directory: &'a CStr,
    /// File mode creation mask.
    pub umask: u32,
    /// Resource limits.
    pub limits: &'a [Limit],
    /// Which process group and session it is in.
    pub place: Place,
    /// Make that group the foreground one of this terminal.
    pub terminal: Option<Fd>,
    /// Blocked signals.
    pub signal_mask: u64,
    /// The seccomp program.
    pub filter: &'a [crate::seccomp::Instruction],
    /// `cgroup.procs` files into which it writes itself.
    pub join: &'a [Fd],
    /// Descriptors which may be opened again through `/proc/self/fd`, with their rights.
    pub reopen: &'a [(Fd, crate::landlock::Rights)],
}

/// Restricts itself and becomes the command.
///
/// # Safety
/// `argument` points to a [`Shared`] that no other process touches meanwhile.
pub(crate) unsafe extern "C" fn restrict_and_exec(argument: *mut c_void) -> ! {
    // SAFETY: needed because clone passes one pointer. Sound by the caller's promise.
    let shared = unsafe { &mut *argument.cast::<Shared<'_>>() };
    shared.failure = Some(become_command(shared));
    raw::exit(127)
}

/// Restricts the calling process and executes the command in it.
pub(crate) fn become_command(shared: &mut Shared<'_>) -> Failure {
    match prepare(shared) {
        Ok(()) => exec(&shared.launch.command),
        Err(failure) => failure,
    }
}

fn prepare(shared: &mut Shared<'_>) -> Result<(), Failure> {
    let launch = shared.launch;
    let command = &launch.command;
    if shared.below_broker {
        // The broker is this process's parent: without it no call of this process is answered.
        crate::init::die_with_parent().map_err(at(Step::Broker))?;
    } else if launch.namespaces == Namespaces::default() {
        // Without namespaces there was no builder, so no process has run the operations yet.
        let mut progress = Progress::new(launch.landlock.as_ref()).map_err(at(Step::Ruleset))?;
        for (index, operation) in launch.operations.iter().enumerate() {
            progress.run(operation, launch.trees).map_err(at(Step::Operation(index)))?;
        }
        shared.progress = Some(progress);
        shared.stamps.mounts = shared.stamp();
    }
    if !shared.below_broker {
        take_place(command).map_err(at(Step::ProcessGroup))?;
    }
    for &group in command.join {
        // 0 stands for the writing process, whatever its number is in each PID namespace.
        raw::write(group, b"0").map_err(at(Step::Cgroup))?;
    }
    for (index, limit) in command.limits.iter().enumerate() {
        let [soft, hard] = limit.value;
        raw::set_limit(limit.resource, soft, hard).map_err(at(Step::Limit(index)))?;
    }
    raw::umask(command.umask);
    raw::chdir(command.directory).map_err(at(Step::WorkingDirectory))?;
    give_up_privileges().map_err(at(Step::Privileges))?;
    if launch.broker.is_none() {
        restrict(shared)?;
    }
    // All but the standard streams.
    raw::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC).map_err(at(Step::Descriptors))?;
    // Rust's runtime ignores SIGPIPE, and an ignored signal stays ignored over exec.
    raw::restore_default(libc::SIGPIPE).map_err(at(Step::Exec))?;
    raw::set_signal_mask(command.signal_mask).map_err(at(Step::Exec))?;
    if let Some(broker) = launch.broker {
        shared.listener = crate::seccomp::install_with_listener(command.filter).map_err(at(Step::Filter))?;
        // The stub must have the listener before exec: the filter may pass on the exec call that starts the command.
        broker.hand_over(shared.listener);
        if broker.watches() {
            be_watched().map_err(at(Step::Watch))?;
        }
    } else if !command.filter.is_empty() {
        crate::seccomp::install(command.filter).map_err(at(Step::Filter))?;
    }
    shared.stamps.filter = shared.stamp();
    Ok(())
}

/// Gives the calling process its group or session, and the terminal to its group.
pub(crate) fn take_place(command: &Command<'_>) -> Result<(), Errno> {
    match command.place {
        Place::Launcher => {}
        Place::Group => raw::setpgid(0, 0)?,
        Place::Session => raw::setsid()?,
    }
    match command.terminal {
        // All signals are blocked here, SIGTTOU included, so a background group may do this.
        Some(terminal) => raw::set_foreground_group(terminal, raw::getpid()),
        None => Ok(()),
    }
}

/// Puts the calling process into the command's Landlock domain.
pub(crate) fn restrict(shared: &Shared<'_>) -> Result<(), Failure> {
    let Some(progress) = &shared.progress else { return Ok(()) };
    let Some(ruleset) = progress.ruleset else { return Ok(()) };
    for &(fd, rights) in shared.launch.command.reopen {
        match progress.allow(fd, rights) {
            // A file without a path (memfd): Landlock accepts no rule for it, and none is needed.
            Ok(()) | Err(Errno::BADFD) => {}
            Err(errno) => return Err(at(Step::Landlock)(errno)),
        }
    }
    if let Some(broker) = shared.launch.broker {
        // The broker reads about its callers in `/proc`. This instance of `/proc` can't be reached from inside.
        progress.allow(broker.proc(), crate::landlock::Rights::READ_FILE).map_err(at(Step::Landlock))?;
    }
    crate::landlock::restrict_self(ruleset).map_err(at(Step::Landlock))
}

/// Has the broker watch this process, for the program that it is about to execute.
///
/// Before exec this process still has the launcher's memory. It is dumpable, so readable by the broker, for this
/// moment only. No other process is inside yet that could exploit this, and the broker has a copy of that memory
/// anyway.
fn be_watched() -> Result<(), Errno> {
    raw::prctl(libc::PR_SET_DUMPABLE, 1, 0)?;
    let watched = raw::ask_to_be_watched();
    raw::prctl(libc::PR_SET_DUMPABLE, 0, 0)?;
    watched
}

/// Gives up all capabilities, so that no exec can gain one.
fn give_up_privileges() -> Result<(), Errno> {
    // The bounding set first: shrinking it takes a capability.
    empty_bounding_set();
    raw::drop_capabilities()?;
    raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map(drop)
}

/// As far as the caller may.
pub(crate) fn empty_bounding_set() {
    let mut capability = 0;
    while raw::prctl(libc::PR_CAPBSET_DROP, capability, 0).is_ok() {
        capability += 1;
    }
}

/// Tries the candidates as a search of `PATH` does: it skips missing files, and remembers the error of a file that is
/// there but can't be run. Returns why no candidate ran.
fn exec(command: &Command<'_>) -> Failure {
    let mut refused = None;
    let mut last = Errno::NOENT;
    for path in command.candidates {
        // SAFETY: needed to execute. Sound: both arrays end in a null pointer by construction and
        // borrow the strings they point to.
        let errno = unsafe {
            raw::exec(path, command.arguments.pointers.as_ptr(), command.environment.pointers.as_ptr())
        };
        match errno {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => refused = Some(errno),
            _ => return Failure { step: Step::Exec, errno },
        }
        last = errno;
    }
    Failure { step: Step::Exec, errno: refused.unwrap_or(last) }
}
