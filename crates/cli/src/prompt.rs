// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking the user something on its terminal while a command runs.
//!
//! Only at the terminal itself (`/dev/tty`), only with what is typed after the question, and nothing is said by
//! everything else: no terminal, another job in the foreground, a minute without an answer. While somebody is asked the
//! command is stopped: it would read the answer, or draw over the question.

use crate::output;
use palisade_sandbox::monitor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Whoever asks takes no answer that comes later than a minute.
const PATIENCE: Duration = Duration::from_secs(58);

/// What the user can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Once,
    Session,
    Always,
    No,
    /// No, for this session.
    Never,
}

impl Word {
    /// Everything that isn't one of the others is no.
    fn read(line: &[u8], may_be_kept: bool) -> Self {
        match line.trim_ascii().to_ascii_lowercase().as_slice() {
            b"y" | b"yes" => Self::Once,
            b"s" | b"session" => Self::Session,
            b"a" | b"always" if may_be_kept => Self::Always,
            b"d" => Self::Never,
            _ => Self::No,
        }
    }

    /// Whether it is yes.
    pub(crate) const fn allows(self) -> bool {
        matches!(self, Self::Once | Self::Session | Self::Always)
    }

    /// Whether it holds for the session.
    pub(crate) const fn stays(self) -> bool {
        !matches!(self, Self::Once | Self::No)
    }
}

/// Keeps an answer for the launches to come, and says where, in lines for the terminal.
pub(crate) type Keep<'k> = &'k dyn Fn() -> String;

/// What the user says to `what`, which is a whole question; none if there is nobody to ask. `keep` is what "always"
/// does, which is offered if it is there. `command` leads its process group if it has one of its own.
pub(crate) fn ask(what: &str, keep: Option<Keep<'_>>, command: Option<i32>) -> Option<Word> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
    let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
    let own = rustix::process::getpgrp();
    let command = command.and_then(Pid::from_raw);
    if foreground == own {
        // It shares the group: there is nothing to hand over, and nobody who could be stopped alone.
        return put(&terminal, what, keep);
    }
    if Some(foreground) != command {
        return None;
    }
    // Every signal is blocked in this process, `SIGTTOU` included: it may take the terminal from the background.
    monitor::set_asking(true);
    let _ended_meanwhile = kill_process_group(foreground, Signal::STOP);
    let answer = rustix::termios::tcsetpgrp(&terminal, own).ok().and_then(|()| put(&terminal, what, keep));
    let _gone = rustix::termios::tcsetpgrp(&terminal, foreground);
    let _ended_meanwhile = kill_process_group(foreground, Signal::CONT);
    monitor::set_asking(false);
    answer
}

/// Puts the question and reads the answer, whatever the command has made of the terminal.
fn put(terminal: &OwnedFd, what: &str, keep: Option<Keep<'_>>) -> Option<Word> {
    let before = rustix::termios::tcgetattr(terminal).ok()?;
    let mut plain = before.clone();
    plain.make_raw();
    plain.local_modes |= LocalModes::ICANON | LocalModes::ECHO;
    plain.output_modes = before.output_modes;
    plain.input_modes |= rustix::termios::InputModes::ICRNL;
    // What was typed before the question was seen is no answer.
    rustix::termios::tcsetattr(terminal, OptionalActions::Flush, &plain).ok()?;
    let _nothing_there = rustix::termios::tcflush(terminal, QueueSelector::IFlush);
    let always = if keep.is_some() { "[a] always  " } else { "" };
    let words = format!(
        "\r\npalisade: {what}\r\n[y] once  [s] for this session  {always}[n] no  [d] no, for this session: "
    );
    let word = write_all(terminal, words.as_bytes()).and_then(|()| line(terminal));
    let word = word.map(|line| Word::read(&line, keep.is_some()));
    match (word, keep) {
        (Some(Word::Always), Some(keep)) => {
            let _gone = write_all(terminal, keep().as_bytes());
        }
        (Some(_), _) => {}
        (None, _) => output::say("\r\npalisade: no answer: refused\r\n"),
    }
    let _gone = rustix::termios::tcsetattr(terminal, OptionalActions::Now, &before);
    word
}

fn write_all(terminal: &OwnedFd, mut words: &[u8]) -> Option<()> {
    while !words.is_empty() {
        let length = rustix::io::retry_on_intr(|| rustix::io::write(terminal, words)).ok()?;
        words = words.get(length..).unwrap_or_default();
    }
    Some(())
}

/// A line; none if none comes in time.
fn line(terminal: &OwnedFd) -> Option<Vec<u8>> {
    let patience = Timespec::try_from(PATIENCE).ok()?;
    let mut polled = [PollFd::new(terminal, PollFlags::IN)];
    if rustix::io::retry_on_intr(|| poll(&mut polled, Some(&patience))).ok()? == 0 {
        return None;
    }
    let mut line = [0u8; 256];
    let length = rustix::io::read(terminal, &mut line).ok().filter(|length| *length > 0)?;
    line.get(..length).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_yes_is_no() {
        for (line, word) in [
            ("y\n", Word::Once),
            (" YES \n", Word::Once),
            ("s\n", Word::Session),
            ("session", Word::Session),
            ("A\n", Word::Always),
            ("always\n", Word::Always),
            ("\n", Word::No),
            ("n\n", Word::No),
            ("yesterday\n", Word::No),
            ("d\n", Word::Never),
            ("\u{1b}y\n", Word::No),
        ] {
            assert_eq!(Word::read(line.as_bytes(), true), word, "{line:?}");
        }
        assert_eq!(Word::read(b"a", false), Word::No, "it wasn't offered");
        for (word, allows, stays) in [
            (Word::Once, true, false),
            (Word::Session, true, true),
            (Word::Always, true, true),
            (Word::No, false, false),
            (Word::Never, false, true),
        ] {
            assert_eq!((word.allows(), word.stays()), (allows, stays), "{word:?}");
        }
    }
}
