// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking the user something on its terminal while a command runs.
//!
//! Only at the terminal itself (`/dev/tty`), only with what is typed after the question, and nothing is said by
//! everything else: no terminal, another job in the foreground, a minute without an answer. While somebody is asked
//! every process inside is stopped: it would read the answer, or draw over the question.

use crate::question::{self, Wish, Word};
use crate::{embedded, output};
use palisade_protocol::network::Unasked;
use palisade_sandbox::apply::halt::{self, HaltError};
use palisade_sandbox::apply::monitor;
use palisade_sandbox::apply::start::Running;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{
    Action, InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, SpecialCodeIndex, Termios,
};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Whoever asks takes no answer that comes later than a minute.
const PATIENCE: Duration = Duration::from_secs(58);
/// So long everything inside may take to stop.
const STOPPING: Duration = Duration::from_secs(10);
/// So long a pipe of the command's may take to be read.
const READING: Duration = Duration::from_secs(2);
/// What is typed so soon after the question is no answer: nobody has read the question by then.
const READ: Duration = Duration::from_millis(400);

/// Keeps an answer for the launches to come, and says where, in lines for the terminal.
pub(crate) type Keep<'k> = &'k dyn Fn() -> String;

/// Why a question can't be put so that nothing else is on the screen.
#[derive(Debug, thiserror::Error)]
enum Unsafe {
    #[error(transparent)]
    Halt(#[from] HaltError),
    #[error("a pipe still holds what the command has printed, which would cover the question")]
    Pipe,
}

/// What the user says to a wish; none if nothing is said in time. `keep` is what "always" does, which is offered if it is
/// there.
///
/// # Errors
/// There is nobody to ask.
pub(crate) fn ask(
    wish: &Wish,
    keep: Option<Keep<'_>>,
    running: Option<Running>,
) -> Result<Option<Word>, Unasked> {
    if let Some(link) = embedded::link() {
        return Ok(embedded::ask(link, wish, keep, PATIENCE));
    }
    let deadline = Instant::now() + PATIENCE;
    // What can't be written at once is waited for, within the time: programs inside can have the terminal take nothing.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).map_err(|_none| Unasked::NoTerminal)?;
    let own = Pid::from_raw(palisade_sys::process::group()).ok_or(Unasked::NoTerminal)?;
    let running = running.ok_or(Unasked::NoTerminal)?;
    let asks_here = || {
        let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
        (foreground == own || Some(foreground) == Pid::from_raw(running.pid)).then_some(foreground)
    };
    asks_here().ok_or(Unasked::Background)?;
    // The command stops, which its shell needn't know.
    monitor::set_asking(true);
    let word = stopped(running).map(|halted| {
        let word = asks_here().and_then(|foreground| {
            let word = in_front(&terminal, (own, foreground), wish, keep, deadline);
            // What is drawn inside is drawn anew.
            let _ended_meanwhile = kill_process_group(foreground, Signal::WINCH);
            word
        });
        drop(halted);
        word
    });
    monitor::set_asking(false);
    Ok(word.unwrap_or_else(|error| {
        output::error(
            &format_args!("refused without a question: {error}"),
            Some("palisade run --help   # --net-default and --syscalls decide without a question"),
        );
        Some(Word::No)
    }))
}

/// Stops everything that could draw over a question.
fn stopped(running: Running) -> Result<halt::Halted, Unsafe> {
    let halted = halt::halt(running, Instant::now() + STOPPING)?;
    // Programs outside copy what the command has printed to the terminal.
    let until = Instant::now() + READING;
    while !pipes_are_read() {
        if Instant::now() >= until {
            return Err(Unsafe::Pipe);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(halted)
}

/// Whether nothing is left in a pipe to which the command prints.
fn pipes_are_read() -> bool {
    [rustix::stdio::stdout(), rustix::stdio::stderr()].into_iter().all(|stream| {
        let is_pipe = rustix::fs::fstat(stream)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo);
        !is_pipe || rustix::io::ioctl_fionread(stream) == Ok(0)
    })
}

/// Asks in the foreground, which the group `before` has otherwise.
fn in_front(
    terminal: &OwnedFd,
    (own, before): (Pid, Pid),
    wish: &Wish,
    keep: Option<Keep<'_>>,
    deadline: Instant,
) -> Option<Word> {
    // Every signal is blocked in this process, `SIGTTOU` included: it may take the terminal from the background.
    rustix::termios::tcsetpgrp(terminal, own).ok()?;
    let word = put(terminal, wish, keep, deadline);
    let _gone = rustix::termios::tcsetpgrp(terminal, before);
    word
}

/// Puts the question and reads the answer, whatever the command has made of the terminal.
fn put(terminal: &OwnedFd, wish: &Wish, keep: Option<Keep<'_>>, deadline: Instant) -> Option<Word> {
    let before = rustix::termios::tcgetattr(terminal).ok()?;
    // Output may be suspended.
    rustix::termios::tcflow(terminal, Action::OOn).ok()?;
    rustix::termios::tcsetattr(terminal, OptionalActions::Now, &plain(&before)).ok()?;
    let word = converse(terminal, wish, keep.is_some(), deadline);
    let _gone = write_all(terminal, Wish::close().as_bytes(), deadline);
    let _gone = write_all(terminal, wish.summary(word).as_bytes(), deadline);
    if let (Some(Word::Always), Some(keep)) = (word, keep) {
        let _gone = write_all(terminal, keep().as_bytes(), deadline);
    }
    let _gone = rustix::termios::tcsetattr(terminal, OptionalActions::Now, &before);
    word
}

/// Settings under which a line is typed, none of which a program inside has chosen. Ctrl-C ends the line, as a character
/// of it, rather than a process.
fn plain(before: &Termios) -> Termios {
    let mut plain = before.clone();
    plain.make_raw();
    plain.input_modes = InputModes::ICRNL;
    plain.output_modes = OutputModes::OPOST | OutputModes::ONLCR;
    plain.local_modes = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHOE | LocalModes::ECHOCTL;
    for (index, code) in [
        (SpecialCodeIndex::VEOF, 4),
        (SpecialCodeIndex::VEOL, 3),
        (SpecialCodeIndex::VEOL2, 0),
        (SpecialCodeIndex::VERASE, 0x7f),
        (SpecialCodeIndex::VKILL, 0x15),
    ] {
        plain.special_codes[index] = code;
    }
    plain
}

/// Draws the question and reads a line; none if none comes in time.
fn converse(terminal: &OwnedFd, wish: &Wish, may_be_kept: bool, deadline: Instant) -> Option<Word> {
    let draw = |ready| write_all(terminal, wish.draw(may_be_kept, ready).as_bytes(), deadline);
    rustix::termios::tcdrain(terminal).ok()?;
    write_all(terminal, Wish::open().as_bytes(), deadline)?;
    draw(false)?;
    std::thread::sleep(READ);
    // What was typed before the question was seen is no answer; what others have printed meanwhile is drawn over.
    draw(true)?;
    rustix::termios::tcflush(terminal, QueueSelector::IFlush).ok()?;
    line(terminal, deadline).map(|line| question::read(&line, may_be_kept))
}

/// Waits until the terminal is ready; none if it isn't in time.
fn ready(terminal: &OwnedFd, what: PollFlags, deadline: Instant) -> Option<()> {
    let left = deadline.checked_duration_since(Instant::now())?;
    let patience = Timespec::try_from(left).ok()?;
    let mut polled = [PollFd::new(terminal, what)];
    let count = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&patience))).ok()?;
    (count > 0).then_some(())
}

fn write_all(terminal: &OwnedFd, mut words: &[u8], deadline: Instant) -> Option<()> {
    while !words.is_empty() {
        match rustix::io::write(terminal, words) {
            Ok(length) => words = words.get(length..).unwrap_or_default(),
            Err(Errno::AGAIN) => ready(terminal, PollFlags::OUT, deadline)?,
            Err(Errno::INTR) => {}
            Err(_gone) => return None,
        }
    }
    Some(())
}

/// A line; an empty one at the end of input.
fn line(terminal: &OwnedFd, deadline: Instant) -> Option<Vec<u8>> {
    let mut line = [0u8; 256];
    loop {
        ready(terminal, PollFlags::IN, deadline)?;
        match rustix::io::read(terminal, &mut line) {
            Ok(length) => return line.get(..length).map(<[u8]>::to_vec),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_gone) => return Some(Vec::new()),
        }
    }
}
