// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting a command without namespaces: in the host's tree, restricted by Landlock and a filter.
//!
//! ```text
//! launcher ──clone(VM|VFORK)──► command                                    without a broker
//! launcher ──fork──► broker ──clone(VM|VFORK|FILES)──► command             with a broker
//! ```
//!
//! The broker must be an ancestor of every process whose memory it reads, because with
//! `kernel.yama.ptrace_scope = 1` the kernel permits that to ancestors only. So the broker adopts orphans, too. And it
//! must be in the command's Landlock domain, which the launcher can't enter. The broker stops, continues and ends as
//! the command does, so the launcher watches the broker as it would watch the command.

use crate::broker::{Broker, Stand};
use crate::clone::{self, Stacks};
use crate::command::{self, Place};
use crate::launch::{Failure, Memory, Shared, Stamps, Started, Step, at};
use crate::operation::Progress;
use crate::raw;
use crate::wait::{self, Change};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Starts a command without namespaces.
pub(crate) fn start(shared: &mut Shared<'_>, stacks: Stacks) -> Result<Started, Failure> {
    let launch = shared.launch;
    match launch.broker {
        Some(broker) => start_below_broker(shared, stacks, broker),
        None => start_alone(shared, stacks),
    }
}

/// There is no tree to build, and the command restricts itself.
fn start_alone(shared: &mut Shared<'_>, stacks: Stacks) -> Result<Started, Failure> {
    let pid = clone_command(shared, 0)?;
    shared.stamps.exec = shared.stamp();
    if let Some(failure) = shared.failure {
        let _reaped = wait::blocking(pid);
        return Err(failure);
    }
    Ok(started((pid, pid), shared.stamps, stacks))
}

/// Makes the command's process, which shares this process's memory until it has executed the command.
fn clone_command(shared: &mut Shared<'_>, flags: i32) -> Result<i32, Failure> {
    let stack = shared.command_stack;
    // SAFETY: needed to make a process that shares memory. Sound: `shared` and the stack outlive
    // the child's use of them because VFORK suspends this thread until exec or exit.
    let made = unsafe {
        clone::sharing_memory_until_exec(
            flags,
            libc::SIGCHLD,
            stack,
            command::restrict_and_exec,
            (&raw mut *shared).cast(),
        )
    };
    made.map_err(at(Step::Fork))
}

fn started((command, executing): (i32, i32), stamps: Stamps, stacks: Stacks) -> Started {
    Started {
        command,
        executing,
        init: None,
        lifeline: None,
        stamps,
        builder: None,
        stub: None,
        refresher: None,
        memory: Memory::of_stacks(stacks),
    }
}

/// What the broker tells the launcher once: how the command's start went.
#[derive(Clone, Copy, Default)]
struct Told {
    failure: Option<Failure>,
    stamps: Stamps,
    command: i32,
}

/// Memory that the launcher and the broker share.
struct Page {
    told: UnsafeCell<Told>,
    /// `told` is written, and isn't written again.
    done: AtomicBool,
}

/// The launcher's hold of the page.
struct Shown(*mut Page);

impl Shown {
    fn new() -> Result<Self, Errno> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: needed for memory that a copy of this process shares. Sound: the kernel chooses a free place.
        let page =
            unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), size_of::<Page>(), access, flags) }?;
        let page: *mut Page = page.cast();
        // SAFETY: needed to initialise it. Sound: a mapping is aligned for every type and large enough, and only this
        // process has it yet.
        unsafe { page.write(Page { told: UnsafeCell::default(), done: AtomicBool::new(false) }) };
        Ok(Self(page))
    }

    fn page(&self) -> &Page {
        // SAFETY: needed to reach the mapping. Sound: it was initialised, and lives as long as `self`.
        unsafe { &*self.0 }
    }

    /// For the broker, once.
    fn tell(&self, told: Told) {
        // SAFETY: needed to write to shared memory. Sound: the launcher reads it only once `done` is set.
        unsafe { self.page().told.get().write(told) };
        self.page().done.store(true, Ordering::Release);
    }

    /// What the broker has told; `None`: it died before.
    fn heard(&self) -> Option<Told> {
        // SAFETY: needed to read from shared memory. Sound: `done` is set after the only write.
        self.page().done.load(Ordering::Acquire).then(|| unsafe { self.page().told.get().read() })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // SAFETY: needed to give the page back. Sound: every reference to it has borrowed `self`.
        let _unmapped = unsafe { rustix::mm::munmap(self.0.cast(), size_of::<Page>()) };
    }
}

fn start_below_broker(shared: &mut Shared<'_>, stacks: Stacks, broker: &Broker) -> Result<Started, Failure> {
    let page = Shown::new().map_err(at(Step::Broker))?;
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(at(Step::Socket))?;
    let owner = raw::getpid();
    // SAFETY: needed for a process with memory of its own in which the C library works. Sound: the C library sees to it
    // that its locks are free in the child, and the child uses no lock of this program that another thread may hold.
    match unsafe { libc::fork() } {
        0 => {
            drop(reader);
            be_broker(shared, broker, &page, writer, owner)
        }
        process @ 1.. => {
            drop(writer);
            // The end of file comes when the broker has told its result, or has died.
            while rustix::io::read(&reader, &mut [0u8]) == Err(Errno::INTR) {}
            let died = Failure { step: Step::Broker, errno: Errno::INTR };
            match page.heard() {
                Some(Told { failure: None, stamps, command }) => {
                    Ok(started((process, command), stamps, stacks))
                }
                told => {
                    let _dead_already = raw::kill(process, libc::SIGKILL);
                    let _reaped = wait::blocking(process);
                    Err(told.and_then(|told| told.failure).unwrap_or(died))
                }
            }
        }
        _ => Err(Failure { step: Step::Fork, errno: last_error() }),
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)
}

/// The broker's process.
fn be_broker(shared: &mut Shared<'_>, broker: &Broker, page: &Shown, writer: OwnedFd, owner: i32) -> ! {
    shared.below_broker = true;
    let begun = begin(shared, broker, owner, writer.as_raw_fd());
    let failure = begun.as_ref().err().copied();
    let command = begun.as_ref().map_or(0, |family| family.command);
    page.tell(Told { failure, stamps: shared.stamps, command });
    drop(writer);
    let Ok(mut family) = begun else { raw::exit(1) };
    let change = family.watch();
    family.end_the_others();
    let Ok(change) = change else { raw::exit(1) };
    family.finish_serving();
    end_as(change)
}

/// Builds and enters the walls, and starts the command.
fn begin(shared: &mut Shared<'_>, broker: &Broker, owner: i32, telling: raw::Fd) -> Result<Family, Failure> {
    let failed = at(Step::Broker);
    let launch = shared.launch;
    broker.enter_process(owner).map_err(&failed)?;
    raw::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0).map_err(&failed)?;
    let mut progress = Progress::new(launch.landlock.as_ref()).map_err(at(Step::Ruleset))?;
    for (index, operation) in launch.operations.iter().enumerate() {
        progress.run(operation, launch.trees).map_err(at(Step::Operation(index)))?;
    }
    shared.progress = Some(progress);
    shared.stamps.mounts = shared.stamp();
    command::take_place(&launch.command).map_err(at(Step::ProcessGroup))?;
    command::empty_bounding_set();
    raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).map_err(at(Step::Privileges))?;
    broker.keep_capabilities().map_err(at(Step::Privileges))?;
    command::restrict(shared)?;
    let command = clone_command(shared, libc::CLONE_FILES)?;
    shared.stamps.exec = shared.stamp();
    if let Some(failure) = shared.failure {
        let _reaped = wait::blocking(command);
        return Err(failure);
    }
    // From here on this process has only the broker's descriptors. An error ends it, and the command with it.
    let stand = Stand::take(broker, shared.listener, telling).map_err(&failed)?;
    let signals = wait::pending_signals().map_err(&failed)?;
    let together = launch.command.place == Place::Launcher;
    Ok(Family { command, together, signals, calls: Calls::None(stand) })
}

/// The command and its descendants, as the broker has them.
struct Family {
    command: i32,
    /// The command is in the launcher's process group.
    together: bool,
    signals: OwnedFd,
    calls: Calls,
}

/// The state of the calls that the filter passes on.
enum Calls {
    /// There was none yet. A command that makes none pays for no thread.
    None(Stand),
    /// A thread answers them.
    Served(JoinHandle<()>),
    /// None can come any more.
    Over,
}

impl Family {
    /// Waits for the command's end, and has its calls answered. Every signal is blocked meanwhile.
    fn watch(&mut self) -> Result<Change, Errno> {
        loop {
            while let Ok(Some((child, change))) = wait::poll_any() {
                match change {
                    Change::Exited(_) | Change::Killed(_) if child == self.command => return Ok(change),
                    Change::Stopped(signal) if child == self.command => {
                        let _stopped = wait::raise_default(signal);
                        if self.together {
                            let _ended_meanwhile = raw::kill(self.command, libc::SIGCONT);
                        }
                    }
                    _ => {}
                }
            }
            if self.next_is_call()? {
                self.serve()?;
                continue;
            }
            match wait::next_signal_within(Duration::ZERO) {
                // What the launcher sends to this process alone is meant for the command. In a group of their own the
                // command has got it, too, and so it has what a key of the terminal sends.
                Ok(signal)
                    if self.together
                        && !signal.by_kernel
                        && !signal.by_itself
                        && signal.number != libc::SIGCHLD =>
                {
                    let _ended_meanwhile = raw::kill(self.command, signal.number);
                }
                _ => {}
            }
        }
    }

    /// Waits for a signal or for the first call; returns whether it is the call.
    fn next_is_call(&mut self) -> Result<bool, Errno> {
        let signals = PollFd::new(&self.signals, PollFlags::IN);
        let Calls::None(stand) = &self.calls else {
            retry_on_intr(|| poll(&mut [signals.clone()], None))?;
            return Ok(false);
        };
        let mut both = [signals, PollFd::from_borrowed_fd(stand.listener(), PollFlags::IN)];
        retry_on_intr(|| poll(&mut both, None))?;
        let [_signals, calls] = both.map(|polled| polled.revents());
        // No process is left that could make a call.
        if calls.contains(PollFlags::HUP) {
            self.calls = Calls::Over;
            return Ok(false);
        }
        Ok(calls.contains(PollFlags::IN))
    }

    /// Has another thread answer the calls: this one goes on to wait.
    fn serve(&mut self) -> Result<(), Errno> {
        let Calls::None(stand) = core::mem::replace(&mut self.calls, Calls::Over) else { return Ok(()) };
        let thread = std::thread::Builder::new().name("palisade-broker".to_owned());
        let serving = thread.spawn(move || stand.serve());
        self.calls =
            Calls::Served(serving.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?);
        Ok(())
    }

    /// Ends what the command has left: without the broker it could write no name, and would fail in odd ways.
    fn end_the_others(&self) {
        let directory = format!("/proc/self/task/{}/children", raw::getpid());
        let until = Instant::now() + LAST_PROCESSES;
        loop {
            match wait::poll_any() {
                Ok(Some(_reaped)) => continue,
                Ok(None) if Instant::now() < until => {}
                _ => return,
            }
            // The parents of new children are killed, too, so the list becomes empty.
            let Ok(children) = std::fs::read_to_string(&directory) else { return };
            for child in children.split_ascii_whitespace().filter_map(|child| child.parse().ok()) {
                let _dead_already = raw::kill(child, libc::SIGKILL);
            }
            let _until_one_ends = wait::next_signal_within(LOOK);
        }
    }

    /// Lets the broker move the last files into place. It ends when no process is left that could make a call.
    fn finish_serving(self) {
        let Calls::Served(serving) = self.calls else { return };
        let until = Instant::now() + LAST_FILES;
        while !serving.is_finished() && Instant::now() < until {
            std::thread::sleep(SHORT_LOOK);
        }
    }
}

/// How long what the command has left may take to end.
const LAST_PROCESSES: Duration = Duration::from_secs(2);
/// How long the broker may take to move the last files into place.
const LAST_FILES: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);
const SHORT_LOOK: Duration = Duration::from_micros(50);

/// `RLIMIT_CORE`; its type differs between C libraries.
const CORE: u32 = 4;

/// Ends as the command did.
fn end_as(change: Change) -> ! {
    match change {
        Change::Exited(code) => raw::exit(code),
        Change::Killed(signal) => {
            // The command has left a core dump, if it was to leave one.
            let _only_smaller = raw::set_limit(CORE, 0, 0);
            let _never_returns = match signal {
                libc::SIGKILL => raw::kill(raw::getpid(), signal),
                _ => wait::raise_default(signal),
            };
            raw::exit(128 + signal)
        }
        Change::Stopped(_) | Change::Continued => raw::exit(1),
    }
}
