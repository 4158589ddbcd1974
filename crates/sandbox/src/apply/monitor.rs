// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches over a command: passes signals on, shares the terminal, and handles the end of the command and of everything
//! inside.

use crate::apply::broker::ReportReceiver;
use crate::apply::question;
use crate::apply::start::LaunchEvent;
use crate::bus::proxy::Buses;
use crate::network::gateway::Gateway;
use palisade_sys::launch::Started;
use palisade_sys::wait::{self, Change, Signal};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How the command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It exited with this code.
    Exited(i32),
    /// It was ended by this signal.
    Killed(i32),
}

impl Outcome {
    /// The exit code of this outcome: 128 + signal for a signal, as in shells.
    #[must_use]
    pub fn code(self) -> u8 {
        let code = match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}

/// How the command shares the terminal with its launcher.
#[derive(Debug)]
pub(crate) enum Terminal {
    /// There is no terminal, or the launcher isn't in its foreground: there is nothing to hand over.
    Apart,
    /// The command is in the launcher's process group, as a member of its pipeline. Signals of the terminal reach both,
    /// so the launcher passes on only signals that processes send. Holds the terminal, if it could be opened.
    Together(Option<OwnedFd>),
    /// The command's group is the terminal's foreground group.
    HandedOver {
        /// The terminal.
        terminal: OwnedFd,
        /// The group that had it before: the launcher's.
        group: rustix::process::Pid,
        /// The command has the terminal now. While the launcher is in the background the command hasn't, and must not
        /// take it from the shell.
        held: std::cell::Cell<bool>,
    },
}

impl Terminal {
    /// Decides by the standard input and the controlling terminal.
    pub(crate) fn examine(signals_are_scoped: bool) -> Self {
        let input = rustix::stdio::stdin();
        let Some(own) = rustix::process::Pid::from_raw(palisade_sys::process::group()) else {
            // The group is of an outer PID namespace (`unshare --pid`), so it has no number here. The launcher could
            // hand the terminal over, but couldn't give it back. `tcgetpgrp` answers `EOPNOTSUPP` when the foreground
            // group has no number here either.
            let foreground = rustix::termios::tcgetpgrp(input) == Err(Errno::OPNOTSUPP);
            return if foreground && signals_are_scoped { Self::Together(None) } else { Self::Apart };
        };
        if rustix::termios::isatty(input) {
            if rustix::termios::tcgetpgrp(input).is_ok_and(|foreground| foreground == own)
                && let Ok(terminal) = input.try_clone_to_owned()
            {
                return Self::HandedOver { terminal, group: own, held: std::cell::Cell::new(true) };
            }
            return Self::Apart;
        }
        // Standard input is not the terminal, but there may be a controlling terminal: `ls | palisade run -- less`. The
        // command could not read from it in another group. The command stays in this group only where Landlock keeps
        // signals inside, because kill(0) reaches the whole group.
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NOCTTY;
        match rustix::fs::open("/dev/tty", flags, rustix::fs::Mode::empty()) {
            Ok(terminal)
                if signals_are_scoped
                    && rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == own) =>
            {
                Self::Together(Some(terminal))
            }
            _ => Self::Apart,
        }
    }

    fn give_back(&self) {
        if let Self::HandedOver { terminal, group, held } = self
            && held.replace(false)
        {
            // Fails only when the terminal is gone.
            let _gone = rustix::termios::tcsetpgrp(terminal, *group);
        }
    }

    fn hand_over(&self, command: i32) {
        if let (Self::HandedOver { terminal, held, .. }, Some(command)) =
            (self, rustix::process::Pid::from_raw(command))
        {
            held.set(true);
            let _gone = rustix::termios::tcsetpgrp(terminal, command);
        }
    }

    /// The descriptor to hand over, for the command's own side.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::HandedOver { terminal, .. } => Some(terminal.as_fd()),
            Self::Apart | Self::Together(_) => None,
        }
    }

    /// Whether the command gets a process group of its own.
    pub(crate) const fn own_group(&self) -> bool {
        !matches!(self, Self::Together(_))
    }
}

/// The helper processes of a launch, and the state of their reports.
#[derive(Debug)]
pub(crate) struct SupervisorState<'e> {
    /// The broker stub's process, until it has been reaped.
    process: Option<i32>,
    receiver: Option<&'e ReportReceiver<'e>>,
    /// The broker may have reported more.
    unheard: bool,
    buses: Buses<'e>,
    gateway: Gateway<'e>,
    /// The mask refresher, until it has been reaped. Init is ended when the refresher fails, which ends everything
    /// inside.
    refresher: Option<i32>,
    init: Option<i32>,
    /// The process that the sandbox ends with, until it has ended. Its end ends init, or the command if there is no
    /// init.
    parent: Option<i32>,
    command: i32,
}

impl<'e> SupervisorState<'e> {
    pub(crate) fn of(
        started: &Started,
        receiver: Option<&'e ReportReceiver<'e>>,
        buses: Buses<'e>,
        gateway: Gateway<'e>,
        parent: Option<i32>,
    ) -> Self {
        Self {
            process: started.stub,
            receiver,
            unheard: false,
            buses,
            gateway,
            refresher: started.refresher,
            init: started.init,
            parent,
            command: started.command,
        }
    }

    /// A descriptor is readable: a report, a connection, or a message that a bus's filter is ready.
    fn hear(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        self.unheard = self.receiver.is_some_and(|receiver| receiver.hear(tell));
        self.buses.look(self.command, tell);
        self.unheard |= self.gateway.look(tell);
    }

    /// Takes the next signal. Returns `EAGAIN` when it is time to look at sources that send no signal.
    fn next_signal(&self, started: &Started) -> Result<Signal, Errno> {
        // Data that has arrived already sends no signal.
        let patience = if self.unheard { Some(std::time::Duration::ZERO) } else { self.buses.patience() };
        started.memory.while_resting(|| match patience {
            Some(patience) => wait::next_signal_within(patience),
            None => wait::next_signal(),
        })
    }

    /// A child has changed its state. Checks each helper process.
    fn look(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        if let Some(parent) = self.parent
            && has_ended(parent)
        {
            self.parent = None;
            let _dead_already = wait::send(self.init.unwrap_or(self.command), libc_signal::KILL);
        }
        if let Some(refresher) = self.refresher
            && let Ok(Some(change @ (Change::Exited(_) | Change::Killed(_)))) = wait::poll(refresher)
        {
            self.refresher = None;
            // It exits with 0 only after init has ended.
            if change != Change::Exited(0) {
                if let Some(init) = self.init {
                    let _dead_already = wait::send(init, libc_signal::KILL);
                }
                tell(LaunchEvent::Uncovered(match change {
                    Change::Exited(errno) => Some(Errno::from_raw_os_error(errno)),
                    _ => None,
                }));
            }
        }
        self.buses.reap(self.command, tell);
        self.gateway.reap(tell);
        let Some(process) = self.process else { return };
        match wait::poll(process) {
            // Exit code 0: the kernel reported that no process is left that can make a call. The command's end follows.
            Ok(Some(Change::Exited(0))) => self.process = None,
            Ok(Some(Change::Exited(_) | Change::Killed(_))) => {
                self.process = None;
                if let Some(receiver) = self.receiver {
                    while receiver.hear(tell) {}
                    receiver.ended(None, tell);
                }
            }
            _ => {}
        }
    }
}

/// Whether a child has ended. The child isn't reaped, so the code that started it still gets its status.
fn has_ended(child: i32) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let child = Pid::from_raw(child);
    child.is_none_or(|child| !matches!(waitid(WaitId::Pid(child), options), Ok(None)))
}

/// Waits for the command and passes signals on; every signal is blocked meanwhile.
///
/// # Errors
/// When the command can't be waited for, which no input is known to cause.
pub(crate) fn watch(
    started: &Started,
    terminal: &Terminal,
    state: &mut SupervisorState<'_>,
    tell: &mut dyn FnMut(LaunchEvent<'_>),
) -> Result<Outcome, Errno> {
    // A request may have arrived before the kernel was told to send signals.
    state.unheard = state.gateway.look(tell);
    if state.parent.is_some() {
        // The parent may have ended before signals were blocked.
        state.look(tell);
    }
    loop {
        let signal = match state.next_signal(started) {
            Ok(signal) => signal,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                state.hear(tell);
                continue;
            }
            Err(errno) => return Err(errno),
        };
        if signal.number == wait::READABLE && signal.by_kernel {
            state.hear(tell);
            continue;
        }
        if signal.number != libc_signal::CHLD {
            pass_on(started.command, terminal, signal);
            continue;
        }
        state.look(tell);
        // One signal may stand for several children, so poll until there are no more changes.
        while let Some(change) = wait::poll(started.command)? {
            match change {
                Change::Exited(code) => return Ok(end(terminal, Outcome::Exited(code))),
                Change::Killed(signal) => return Ok(end(terminal, Outcome::Killed(signal))),
                // The command is stopped for a question. The launcher must not stop with it, so its shell sees nothing.
                Change::Stopped(_) if question::is_shown() => {}
                Change::Stopped(signal) => {
                    // A process that isn't stopped with the command may write its first protected name meanwhile.
                    started.memory.while_resting(|| stop(started.command, terminal, signal))?;
                }
                Change::Continued => {}
            }
        }
    }
}

fn end(terminal: &Terminal, outcome: Outcome) -> Outcome {
    terminal.give_back();
    outcome
}

/// Passes a signal on: what reaches the launcher is meant for the command.
fn pass_on(command: i32, terminal: &Terminal, signal: wait::Signal) {
    if libc_signal::ENDS.contains(&signal.number) {
        // The command is stopped while the user is asked, and has to go on to obey.
        question::interrupt();
    }
    // Keys reach the foreground group. The command is in it, because otherwise the launcher would not have got the
    // signal either. So does what this process sends that group for a key at a question.
    if (signal.by_kernel || signal.by_itself) && !matches!(terminal, Terminal::Apart) {
        return;
    }
    // After setpgid the command leads its group. A signal that was sent to a job is for the whole group.
    let target = if terminal.own_group() { -command } else { command };
    if wait::send(target, signal.number) == Err(Errno::SRCH) {
        let _ended_meanwhile = wait::send(command, signal.number);
    }
}

/// The command has stopped. The launcher stops, too, so that its shell sees a stopped job. Later both continue
/// together.
fn stop(command: i32, terminal: &Terminal, signal: i32) -> Result<(), Errno> {
    terminal.give_back();
    wait::raise_default(signal)?;
    // Continued, perhaps in the background: the command gets the terminal only if the launcher's group has it.
    if let Terminal::HandedOver { terminal: descriptor, group, .. } = terminal
        && rustix::termios::tcgetpgrp(descriptor).is_ok_and(|foreground| foreground == *group)
    {
        terminal.hand_over(command);
    }
    let target = if terminal.own_group() { -command } else { command };
    match wait::send(target, libc_signal::CONT) {
        Err(Errno::SRCH) => Ok(()),
        other => other,
    }
}

/// Init's list of children. It is opened while the command runs, when the time doesn't delay the launch.
#[derive(Debug)]
pub(crate) struct Children(Option<OwnedFd>);

impl Children {
    pub(crate) fn of(started: &Started) -> Self {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        Self(started.init.and_then(|init| {
            let path = format!("/proc/{init}/task/{init}/children");
            rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()
        }))
    }

    /// Whether init has no children. After the command's end every other process inside descends from init, because
    /// orphans become its children before their parent's end is reported.
    fn none(&self) -> bool {
        let mut byte = [0u8; 1];
        self.0.as_ref().is_some_and(|children| rustix::io::pread(children, &mut byte[..], 0) == Ok(0))
    }
}

/// How often the launcher looks whether the last process has ended. The kernel reports the end of orphans only to init.
const LOOK: Duration = Duration::from_millis(50);

/// After the command's end: waits for the last process inside, or for a signal that requests the end.
pub(crate) fn linger(
    started: &Started,
    children: &Children,
    state: &mut SupervisorState<'_>,
    tell: &mut dyn FnMut(LaunchEvent<'_>),
) {
    while children.0.is_some() && !children.none() {
        let patience = if state.unheard { std::time::Duration::ZERO } else { LOOK };
        let signal = started.memory.while_resting(|| wait::next_signal_within(patience));
        match signal {
            Ok(signal) if signal.number == wait::READABLE && signal.by_kernel => state.hear(tell),
            Ok(signal) if signal.number == libc_signal::CHLD => state.look(tell),
            Ok(signal) if libc_signal::ENDS.contains(&signal.number) => return,
            Err(Errno::AGAIN) if state.unheard => state.hear(tell),
            Err(Errno::AGAIN) => {
                state.buses.reap(state.command, tell);
                state.gateway.reap(tell);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// How long the broker may take to move the last files into place.
const LAST_FILES: Duration = Duration::from_secs(1);
const SHORT_LOOK: Duration = Duration::from_micros(500);

/// Whether a process ends within `patience`.
fn ends_within(process: i32, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while matches!(wait::poll(process), Ok(None)) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(SHORT_LOOK);
    }
    true
}

/// Ends the processes that are left inside after the command's end.
///
/// Killing init makes the kernel kill every process of the PID namespace. When init is the only process left, the
/// launcher doesn't wait for its end: the kernel takes 100 µs to remove the namespaces, and the result doesn't depend
/// on that.
pub(crate) fn finish(
    started: Started,
    children: &Children,
    mut state: SupervisorState<'_>,
    tell: &mut dyn FnMut(LaunchEvent<'_>),
) -> Result<(), Errno> {
    let Started { init, lifeline, builder, memory, .. } = started;
    state.buses.end();
    state.hear(tell);
    let last = state.process.filter(|_| state.receiver.is_some_and(ReportReceiver::is_writing));
    // Killed first, so that they end meanwhile. A broker that still writes files isn't killed: it ends by itself when
    // no process is left that can make a call.
    for process in
        [state.process.filter(|process| Some(*process) != last), state.refresher].into_iter().flatten()
    {
        let _dead_already = wait::send(process, libc_signal::KILL);
    }
    if let Some(init) = init {
        let alone = children.none();
        let _dead_already = wait::send(init, libc_signal::KILL);
        drop(lifeline);
        if !alone {
            wait::blocking(init)?;
        }
    }
    if let Some(process) = last {
        if ends_within(process, LAST_FILES) {
            state.process = None;
        } else {
            let _too_slow = wait::send(process, libc_signal::KILL);
        }
    }
    let reaped = state.process.map(wait::blocking);
    if let Some(refresher) = state.refresher {
        let _reaped = wait::blocking(refresher);
    }
    if let Some(builder) = builder {
        let _reaped = wait::blocking(builder);
    }
    state.gateway.end(tell);
    // No process is left that could report more, so this loop ends.
    loop {
        state.hear(tell);
        if !state.unheard {
            break;
        }
    }
    // Exit code 1 or more: the broker failed by itself. It did not end because no process was left. The launcher
    // noticed the command's end before this failure.
    if let (Some(Ok(Change::Exited(1..))), Some(receiver)) = (reaped, state.receiver) {
        receiver.ended(None, tell);
    }
    drop(memory);
    Ok(())
}

/// Signal numbers, the same on every architecture supported.
mod libc_signal {
    pub(crate) const KILL: i32 = 9;
    pub(crate) const CHLD: i32 = 17;
    /// Hang-up, interrupt, quit, terminate.
    pub(crate) const ENDS: [i32; 4] = [1, 2, 3, 15];
    pub(crate) const CONT: i32 = 18;
}
