// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the user a question on the user's terminal while a command runs.
//!
//! It asks only at the terminal itself (`/dev/tty`), and accepts only what is typed after the question. There is no
//! answer without a terminal, with another job in the foreground, or after a minute. Every process inside is stopped
//! during the question: it would read the answer, or draw over the question. Ctrl-C interrupts the command as without a
//! question. The command's end, and a signal that ends it, end the question. Without a terminal the user is asked by a
//! desktop notification ([`notice`]).

use crate::question::{self, Offer, Reply, Wish, Word};
use crate::{embedded, notice, output};
use palisade_protocol::network::Unasked;
use palisade_sandbox::apply::halt::{self, HaltError};
use palisade_sandbox::apply::question::{self as shared, Shown};
use palisade_sandbox::apply::start::Running;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{
    Action, InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, SpecialCodeIndex, Termios,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    let Ok(terminal) = rustix::fs::open("/dev/tty", flags, Mode::empty()) else {
        return by_notification(wish, keep, running, deadline);
    };
    let own = Pid::from_raw(palisade_sys::process::group()).ok_or(Unasked::NoTerminal)?;
    let running = running.ok_or(Unasked::NoTerminal)?;
    let asks_here = || {
        let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
        (foreground == own || Some(foreground) == Pid::from_raw(running.pid)).then_some(foreground)
    };
    asks_here().ok_or(Unasked::Background)?;
    // The command stops, but its shell needn't know that.
    let Some(shown) = Shown::begin().map_err(|_no_descriptor| Unasked::NoTerminal)? else {
        return Ok(Some(Word::No));
    };
    let reply = stopped(running).map(|halted| {
        let reply = asks_here().map_or(Reply::Nothing, |foreground| {
            let conversation =
                Conversation { terminal: &terminal, ended: shown.ended(), wish, keep, deadline };
            let reply = conversation.in_front(own, foreground);
            // While they are stopped, so that they obey before they ask again.
            if let Some(signal) = follows(reply, foreground == own) {
                let _ended_meanwhile = kill_process_group(foreground, signal);
            }
            // Programs inside draw their output again.
            let _ended_meanwhile = kill_process_group(foreground, Signal::WINCH);
            reply
        });
        drop(halted);
        reply
    });
    drop(shown);
    // Messages that waited.
    output::draw("");
    Ok(Some(reply.map_or_else(
        |error| {
            output::error(
                &format_args!("refused without a question: {error}"),
                Some("palisade run --help   # --net-default and --syscalls decide without a question"),
            );
            Word::No
        },
        Reply::word,
    )))
}

/// Asks by a desktop notification. Everything inside is stopped, so no program inside can press its buttons.
fn by_notification(
    wish: &Wish,
    keep: Option<Keep<'_>>,
    running: Option<Running>,
    deadline: Instant,
) -> Result<Option<Word>, Unasked> {
    let running = running.filter(|_| notice::has_session()).ok_or(Unasked::NoTerminal)?;
    let Some(shown) = Shown::begin().map_err(|_no_descriptor| Unasked::NoTerminal)? else {
        return Ok(Some(Word::No));
    };
    let halted = halt::halt(running, Instant::now() + STOPPING).map_err(|_error| Unasked::NoTerminal)?;
    let word = notice::ask(wish, keep.is_some(), shown.ended(), deadline);
    let kept = keep.filter(|_| word == Some(Word::Always)).map(|keep| keep());
    drop((halted, shown));
    // Messages that waited.
    output::draw(&kept.unwrap_or_default());
    word.map(Some).ok_or(Unasked::NoTerminal)
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

/// The signal for the foreground group that follows from a reply. `own`: the launcher is in that group.
fn follows(reply: Reply, own: bool) -> Option<Signal> {
    match reply {
        Reply::Interrupt => {
            shared::interrupt();
            Some(Signal::INT)
        }
        // The kernel has told the launcher's group, which was in the foreground, that the terminal is gone.
        Reply::Gone if !own => Some(Signal::HUP),
        Reply::Gone | Reply::Word(_) | Reply::Nothing | Reply::Ended => None,
    }
}

/// A question on the terminal.
struct Conversation<'q> {
    terminal: &'q OwnedFd,
    /// Readable when the question must leave the screen.
    ended: BorrowedFd<'q>,
    wish: &'q Wish,
    keep: Option<Keep<'q>>,
    deadline: Instant,
}

impl Conversation<'_> {
    /// Asks with this process's group in the foreground. `before` is the group that is there otherwise.
    fn in_front(&self, own: Pid, before: Pid) -> Reply {
        // This process blocks every signal, `SIGTTOU` included. So it may take the terminal from the background.
        if rustix::termios::tcsetpgrp(self.terminal, own).is_err() {
            return Reply::Nothing;
        }
        let reply = self.put();
        // After the end the launcher's group has the terminal.
        if !shared::is_over() {
            let _gone = rustix::termios::tcsetpgrp(self.terminal, before);
        }
        reply
    }

    /// Shows the question and reads the answer, whatever settings the command left on the terminal.
    fn put(&self) -> Reply {
        let Ok(before) = rustix::termios::tcgetattr(self.terminal) else { return Reply::Gone };
        let offer = Offer {
            always: self.keep.is_some(),
            interrupt: before.local_modes.contains(LocalModes::ISIG)
                && before.special_codes[SpecialCodeIndex::VINTR] != 0,
        };
        // Output may be suspended.
        let ready = rustix::termios::tcflow(self.terminal, Action::OOn)
            .and_then(|()| rustix::termios::tcsetattr(self.terminal, OptionalActions::Now, &plain(&before)));
        if ready.is_err() {
            return Reply::Gone;
        }
        let reply = match self.converse(offer) {
            // The command has Ctrl-C as a character, not as a signal.
            Reply::Interrupt if !offer.interrupt => Reply::Word(Word::No),
            reply => reply,
        };
        self.write(Wish::close());
        self.write(&self.wish.summary(reply));
        if let (Reply::Word(Word::Always), Some(keep)) = (reply, self.keep) {
            self.write(&keep());
        }
        let _gone = rustix::termios::tcsetattr(self.terminal, OptionalActions::Now, &before);
        reply
    }

    /// Shows the question and reads a line.
    fn converse(&self, offer: Offer) -> Reply {
        let draw = |ready| self.write(&self.wish.draw(offer, ready));
        if rustix::termios::tcdrain(self.terminal).is_err() {
            return Reply::Gone;
        }
        self.write(Wish::open());
        draw(false);
        let read = Instant::now() + READ;
        if let Some(ended) = self.wait(false, read) {
            return ended;
        }
        // Input from before the user saw the question is no answer. What is typed once the second drawing says so is one. That
        // drawing covers what others printed meanwhile.
        let _gone = rustix::termios::tcflush(self.terminal, QueueSelector::IFlush);
        draw(true);
        self.line(offer)
    }

    /// Waits until there is input, if `input` is set, or only until `until`. Returns why there is none.
    fn wait(&self, input: bool, until: Instant) -> Option<Reply> {
        let mut polled =
            [self.ended, self.terminal.as_fd()].map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
        let watched = if input { &mut polled[..] } else { &mut polled[..1] };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let patience = Timespec::try_from(left).ok();
            match poll(watched, patience.as_ref()) {
                Err(Errno::INTR) => {}
                Err(_no_memory) => return Some(Reply::Nothing),
                Ok(0) => return input.then_some(Reply::Nothing),
                Ok(_some) if !watched[0].revents().is_empty() => return Some(Reply::Ended),
                Ok(_some) => return None,
            }
        }
    }

    /// Writes what the terminal takes in time.
    fn write(&self, words: &str) {
        let _too_late = write_all(self.terminal, words.as_bytes(), self.deadline);
    }

    /// Reads a line. It is empty at the end of input.
    fn line(&self, offer: Offer) -> Reply {
        let mut line = [0u8; 256];
        loop {
            if let Some(reply) = self.wait(true, self.deadline) {
                return reply;
            }
            match rustix::io::read(self.terminal, &mut line) {
                // A terminal that is gone has only ends, too.
                Ok(0) if rustix::termios::tcgetattr(self.terminal).is_err() => return Reply::Gone,
                Ok(length) => return question::read(line.get(..length).unwrap_or_default(), offer.always),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_gone) => return Reply::Gone,
            }
        }
    }
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

/// Waits until the terminal takes output. `None` if it doesn't in time.
fn takes_output(terminal: &OwnedFd, deadline: Instant) -> Option<()> {
    let left = deadline.checked_duration_since(Instant::now())?;
    let patience = Timespec::try_from(left).ok()?;
    let mut polled = [PollFd::new(terminal, PollFlags::OUT)];
    let count = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&patience))).ok()?;
    (count > 0).then_some(())
}

fn write_all(terminal: &OwnedFd, mut words: &[u8], deadline: Instant) -> Option<()> {
    while !words.is_empty() {
        match rustix::io::write(terminal, words) {
            Ok(length) => words = words.get(length..).unwrap_or_default(),
            Err(Errno::AGAIN) => takes_output(terminal, deadline)?,
            Err(Errno::INTR) => {}
            Err(_gone) => return None,
        }
    }
    Some(())
}
