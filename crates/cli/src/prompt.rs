// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the user a question on the user's terminal while a command runs.
//!
//! It asks only at the terminal itself (`/dev/tty`), and accepts only what is typed after the question. There is no
//! answer without a terminal, with another job in the foreground, or after a minute. Every process inside is stopped
//! during the question: it would read the answer, or draw over the question.

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

/// The process that asks accepts no answer that comes later than a minute.
const PATIENCE: Duration = Duration::from_secs(58);
/// How long all processes inside may take to stop.
const STOPPING: Duration = Duration::from_secs(10);
/// How long a pipe with the command's output may take to become empty.
const READING: Duration = Duration::from_secs(2);
/// Input this soon after the question is no answer: the user can't have read the question yet.
const READ: Duration = Duration::from_millis(400);

/// Keeps an answer for later launches, and returns lines for the terminal that say where.
pub(crate) type Keep<'k> = &'k dyn Fn() -> String;

/// Why other output could disturb the question.
#[derive(Debug, thiserror::Error)]
enum Unsafe {
    #[error(transparent)]
    Halt(#[from] HaltError),
    #[error("a pipe still holds output of the command, which would cover the question")]
    Pipe,
}

/// The user's answer to a wish. `None` if the user says nothing in time. `keep` carries out the answer "always", which
/// is offered if `keep` is given.
///
/// # Errors
/// The user can't be asked.
pub(crate) fn ask(
    wish: &Wish,
    keep: Option<Keep<'_>>,
    running: Option<Running>,
) -> Result<Option<Word>, Unasked> {
    if let Some(link) = embedded::link() {
        return Ok(embedded::ask(link, wish, keep, PATIENCE));
    }
    let deadline = Instant::now() + PATIENCE;
    // Programs inside can suspend the terminal's output. So writing waits, but only within the time for the question.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).map_err(|_none| Unasked::NoTerminal)?;
    let own = Pid::from_raw(palisade_sys::process::group()).ok_or(Unasked::NoTerminal)?;
    let running = running.ok_or(Unasked::NoTerminal)?;
    let asks_here = || {
        let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
        (foreground == own || Some(foreground) == Pid::from_raw(running.pid)).then_some(foreground)
    };
    asks_here().ok_or(Unasked::Background)?;
    // The command stops, but its shell needn't know that.
    monitor::set_asking(true);
    let word = stopped(running).map(|halted| {
        let word = asks_here().and_then(|foreground| {
            let word = in_front(&terminal, (own, foreground), wish, keep, deadline);
            // Programs inside draw their output again.
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

/// Stops everything that could draw over the question.
fn stopped(running: Running) -> Result<halt::Halted, Unsafe> {
    let halted = halt::halt(running, Instant::now() + STOPPING)?;
    // Programs outside may still copy the command's output to the terminal.
    let until = Instant::now() + READING;
    while !pipes_are_read() {
        if Instant::now() >= until {
            return Err(Unsafe::Pipe);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(halted)
}

/// Whether the pipes for the command's output are empty.
fn pipes_are_read() -> bool {
    [rustix::stdio::stdout(), rustix::stdio::stderr()].into_iter().all(|stream| {
        let is_pipe = rustix::fs::fstat(stream)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo);
        !is_pipe || rustix::io::ioctl_fionread(stream) == Ok(0)
    })
}

/// Asks with this process's group in the foreground. `before` is the group that is there otherwise.
fn in_front(
    terminal: &OwnedFd,
    (own, before): (Pid, Pid),
    wish: &Wish,
    keep: Option<Keep<'_>>,
    deadline: Instant,
) -> Option<Word> {
    // This process blocks every signal, `SIGTTOU` included. So it may take the terminal from the background.
    rustix::termios::tcsetpgrp(terminal, own).ok()?;
    let word = put(terminal, wish, keep, deadline);
    let _gone = rustix::termios::tcsetpgrp(terminal, before);
    word
}

/// Shows the question and reads the answer, whatever settings the command left on the terminal.
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

/// The settings for typing a line. None of them comes from a program inside. Ctrl-C is a character that ends the line,
/// and signals no process.
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

/// Shows the question and reads a line. `None` if no line comes in time.
fn converse(terminal: &OwnedFd, wish: &Wish, may_be_kept: bool, deadline: Instant) -> Option<Word> {
    let draw = |ready| write_all(terminal, wish.draw(may_be_kept, ready).as_bytes(), deadline);
    rustix::termios::tcdrain(terminal).ok()?;
    write_all(terminal, Wish::open().as_bytes(), deadline)?;
    draw(false)?;
    std::thread::sleep(READ);
    // Input from before the user saw the question is no answer. The second drawing covers what others printed meanwhile.
    draw(true)?;
    rustix::termios::tcflush(terminal, QueueSelector::IFlush).ok()?;
    line(terminal, deadline).map(|line| question::read(&line, may_be_kept))
}

/// Waits until the terminal is ready. `None` if it isn't in time.
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

/// Reads a line. It is empty at the end of input.
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
