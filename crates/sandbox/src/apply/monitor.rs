// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watching over a command: signals, the terminal, its end and the end of everything inside.

use crate::apply::broker::ReportReceiver;
use crate::apply::start::LaunchEvent;
use crate::bus::proxy::Buses;
use crate::network::gateway::Gateway;
use palisade_sys::launch::Started;
use palisade_sys::wait::{self, Change, Signal};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The user is being asked something, and the command is stopped meanwhile: its shell needn't know.
static ASKING: AtomicBool = AtomicBool::new(false);

/// Says whether the user is being asked: then it is of no consequence that the command stops.
pub fn set_asking(asking: bool) {
    ASKING.store(asking, Ordering::Release);
}

/// How the command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It exited with this code.
    Exited(i32),
    /// It was ended by this signal.
    Killed(i32),
}

impl Outcome {
    /// The exit code that stands for it: 128 + signal, as shells have it.
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
    /// There is none, or the launcher isn't in its foreground: nothing to hand over.
    Apart,
    /// The command is in the launcher's process group, as a member of its pipeline: what the
    /// terminal sends reaches both. Only what processes send is passed on. The terminal, if it could be opened.
    Together(Option<OwnedFd>),
    /// The command's group is the terminal's foreground group.
    HandedOver {
        /// The terminal.
        terminal: OwnedFd,
        /// The group that had it before: the launcher's.
        group: rustix::process::Pid,
        /// The command has it now. While the launcher is in the background it hasn't, and must not
        /// take it from the shell.
        held: std::cell::Cell<bool>,
    },
}

impl Terminal {
    /// Decides by what standard input and the controlling terminal are.
    pub(crate) fn examine(signals_are_scoped: bool) -> Self {
        let input = rustix::stdio::stdin();
        let Some(own) = rustix::process::Pid::from_raw(palisade_sys::process::group()) else {
            // The group is of an outer PID namespace (`unshare --pid`): once handed over, the
            // terminal couldn't be given back to what has no number here. `tcgetpgrp` answers
            // `EOPNOTSUPP` when the foreground group has none either.
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
        // Input from elsewhere, but perhaps a terminal at hand: `ls | palisade run -- less`.
        // Another group couldn't read from it. Only where Landlock keeps signals inside, since
        // kill(0) reaches the whole group.
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

/// Who keeps the broker, and what is heard of it.
#[derive(Debug)]
pub(crate) struct SupervisorState<'e> {
    /// The broker stub's process, until it has been reaped.
    process: Option<i32>,
    receiver: Option<&'e ReportReceiver<'e>>,
    /// The broker may have reported more.
    unheard: bool,
    buses: Buses<'e>,
    gateway: Gateway<'e>,
    /// The refresher, until it has been reaped, and what ends everything inside when it fails.
    refresher: Option<i32>,
    init: Option<i32>,
    /// What the sandbox ends with, until it has ended, and what is told to end then if there is no init.
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

    /// Something has arrived: a report, a connection, or word of a filter that is ready.
    fn hear(&mut self, tell: &mut dyn FnMut(LaunchEvent<'_>)) {
        self.unheard = self.receiver.is_some_and(|receiver| receiver.hear(tell));
        self.buses.look(self.command, tell);
        self.unheard |= self.gateway.look(tell);
    }

    /// Takes the next signal; `EAGAIN` when something is to be looked at that sends none.
    fn next_signal(&self, started: &Started) -> Result<Signal, Errno> {
        // No signal comes for what has arrived already.
        let patience = if self.unheard { Some(std::time::Duration::ZERO) } else { self.buses.patience() };
        started.memory.while_resting(|| match patience {
            Some(patience) => wait::next_signal_within(patience),
            None => wait::next_signal(),
        })
    }

    /// A child has changed: perhaps this one.
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
            // It ends well only when init has ended.
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
            // Nobody is left who could call, says the kernel; the command's end is on its way.
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

/// Whether a child has ended; whoever started it hears of that all the same.
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
    // Somebody may have asked before the kernel was told to send signals.
    state.unheard = state.gateway.look(tell);
    if state.parent.is_some() {
        // Its end may have come before signals were blocked.
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
        // One signal may stand for several children: ask until there is nothing new.
        while let Some(change) = wait::poll(started.command)? {
            match change {
                Change::Exited(code) => return Ok(end(terminal, Outcome::Exited(code))),
                Change::Killed(signal) => return Ok(end(terminal, Outcome::Killed(signal))),
                Change::Stopped(_) if ASKING.load(Ordering::Acquire) => {}
                Change::Stopped(signal) => {
                    // What isn't stopped with the command may write its first name meanwhile.
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

/// What reaches the launcher is meant for the command.
fn pass_on(command: i32, terminal: &Terminal, signal: wait::Signal) {
    // Keys reach the foreground group; the command is in it, or the launcher wouldn't have got
    // the signal either.
    if signal.by_kernel && !matches!(terminal, Terminal::Apart) {
        return;
    }
    // After setpgid the command leads its group; what was sent to a job is for all of it.
    let target = if terminal.own_group() { -command } else { command };
    if wait::send(target, signal.number) == Err(Errno::SRCH) {
        let _ended_meanwhile = wait::send(command, signal.number);
    }
}

/// The command has stopped: so does the launcher, for its shell to see, and both go on together.
fn stop(command: i32, terminal: &Terminal, signal: i32) -> Result<(), Errno> {
    terminal.give_back();
    wait::raise_default(signal)?;
    // Continued, perhaps in the background: the terminal is the command's only if it is ours.
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

/// What init has as children; opened while the command runs, when time costs nothing.
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

    /// Whether there is none. After the command's end every other process inside descends from
    /// init, because orphans become its children before their parent's end is reported.
    fn none(&self) -> bool {
        let mut byte = [0u8; 1];
        self.0.as_ref().is_some_and(|children| rustix::io::pread(children, &mut byte[..], 0) == Ok(0))
    }
}

/// How often is looked whether the last process has ended. The kernel tells nobody outside of orphans' ends.
const LOOK: Duration = Duration::from_millis(50);

/// After the command's end: waits for the last process inside, or for a signal that asks for an end.
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

/// So long the broker has for putting the last files in their places.
const LAST_FILES: Duration = Duration::from_secs(1);
const SHORT_LOOK: Duration = Duration::from_micros(500);

/// Whether a process has ended, at the latest after `patience`.
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

/// Ends what is left inside once the command has ended.
///
/// Killing init makes the kernel kill every process of the PID namespace. When init is the only
/// one left, its own end is of no consequence, and isn't waited for: tearing down its namespaces
/// takes 100 µs that nobody needs to see.
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
    // First, for it to end meanwhile; but for a broker that ends by itself when nobody is left to call.
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
    // Nobody is left who would report more.
    loop {
        state.hear(tell);
        if !state.unheard {
            break;
        }
    }
    // By itself, and not as it ends when nobody is left: the command's end came before that was heard of.
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
