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

/// What the user types after `words`; none if there is nobody to ask. `command` leads its process group if it has one
/// of its own.
pub(crate) fn ask(words: &str, command: Option<i32>) -> Option<Vec<u8>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
    let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
    let own = rustix::process::getpgrp();
    let command = command.and_then(Pid::from_raw);
    if foreground == own {
        // It shares the group: there is nothing to hand over, and nobody who could be stopped alone.
        return put(&terminal, words);
    }
    if Some(foreground) != command {
        return None;
    }
    // Every signal is blocked in this process, `SIGTTOU` included: it may take the terminal from the background.
    monitor::set_asking(true);
    let _ended_meanwhile = kill_process_group(foreground, Signal::STOP);
    let answer = rustix::termios::tcsetpgrp(&terminal, own).ok().and_then(|()| put(&terminal, words));
    let _gone = rustix::termios::tcsetpgrp(&terminal, foreground);
    let _ended_meanwhile = kill_process_group(foreground, Signal::CONT);
    monitor::set_asking(false);
    answer
}

/// Puts the question and reads the answer, whatever the command has made of the terminal.
fn put(terminal: &OwnedFd, words: &str) -> Option<Vec<u8>> {
    let before = rustix::termios::tcgetattr(terminal).ok()?;
    let mut plain = before.clone();
    plain.make_raw();
    plain.local_modes |= LocalModes::ICANON | LocalModes::ECHO;
    plain.output_modes = before.output_modes;
    plain.input_modes |= rustix::termios::InputModes::ICRNL;
    // What was typed before the question was seen is no answer.
    rustix::termios::tcsetattr(terminal, OptionalActions::Flush, &plain).ok()?;
    let _nothing_there = rustix::termios::tcflush(terminal, QueueSelector::IFlush);
    let answer = write_all(terminal, words.as_bytes()).and_then(|()| line(terminal));
    let _gone = rustix::termios::tcsetattr(terminal, OptionalActions::Now, &before);
    if answer.is_none() {
        output::say("\r\npalisade: no answer: refused\r\n");
    }
    answer
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
