// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking the user whom a command may talk to, on its terminal, while it runs.
//!
//! Only at the terminal itself (`/dev/tty`), only with what is typed after the question, and no is the answer to
//! everything else: no terminal, another job in the foreground, a minute without an answer. While somebody is asked the
//! command is stopped: it would read the answer, or draw over the question.

use crate::output;
use palisade_events::harmless;
use palisade_network::{Answer, Instruction, Question};
use palisade_sandbox::{gateway, monitor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The server takes no answer that comes later than a minute.
const PATIENCE: Duration = Duration::from_secs(58);

/// Asks one question after the other, in a thread that is started for the first.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    questions: Option<Sender<(Question, OwnedFd)>>,
    /// The command, which leads its process group if it has one of its own.
    command: Option<i32>,
}

impl Asking {
    /// The command runs.
    pub(crate) fn started(&mut self, command: i32) {
        self.command = Some(command);
    }

    /// Asks, some time; the answer goes to `control`.
    pub(crate) fn ask(&mut self, question: Question, program: &str, control: BorrowedFd<'_>) {
        let Ok(control) = control.try_clone_to_owned() else { return };
        if self.questions.is_none() {
            let (sender, receiver) = channel::<(Question, OwnedFd)>();
            let (command, program) = (self.command, program.to_owned());
            let started = std::thread::Builder::new().name("palisade-ask".to_owned()).spawn(move || {
                for (question, control) in receiver {
                    let answer = answer(&question, &program, command).unwrap_or(NO);
                    tell(control.as_fd(), question.number, answer);
                }
            });
            if started.is_err() {
                return tell(control.as_fd(), question.number, NO);
            }
            self.questions = Some(sender);
        }
        if let Some(questions) = &self.questions {
            let _thread_is_there = questions.send((question, control));
        }
    }
}

const NO: Answer = Answer { allow: false, session: true };

fn tell(control: BorrowedFd<'_>, number: u64, answer: Answer) {
    if let Ok(words) = Instruction::Answer(number, answer).to_bytes() {
        gateway::instruct(control, &words);
    }
}

/// What the user says; none if there is nobody to ask.
fn answer(question: &Question, program: &str, command: Option<i32>) -> Option<Answer> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
    let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
    let own = rustix::process::getpgrp();
    let command = command.and_then(Pid::from_raw);
    if foreground == own {
        // It shares the group: there is nothing to hand over, and nobody who could be stopped alone.
        return put(&terminal, question, program);
    }
    if Some(foreground) != command {
        return None;
    }
    // Every signal is blocked in this process, `SIGTTOU` included: it may take the terminal from the background.
    monitor::set_asking(true);
    let _ended_meanwhile = kill_process_group(foreground, Signal::STOP);
    let answer =
        rustix::termios::tcsetpgrp(&terminal, own).ok().and_then(|()| put(&terminal, question, program));
    let _gone = rustix::termios::tcsetpgrp(&terminal, foreground);
    let _ended_meanwhile = kill_process_group(foreground, Signal::CONT);
    monitor::set_asking(false);
    answer
}

/// Puts the question and reads the answer, whatever the command has made of the terminal.
fn put(terminal: &OwnedFd, question: &Question, program: &str) -> Option<Answer> {
    let before = rustix::termios::tcgetattr(terminal).ok()?;
    let mut plain = before.clone();
    plain.make_raw();
    plain.local_modes |= LocalModes::ICANON | LocalModes::ECHO;
    plain.output_modes = before.output_modes;
    plain.input_modes |= rustix::termios::InputModes::ICRNL;
    // What was typed before the question was seen is no answer.
    rustix::termios::tcsetattr(terminal, OptionalActions::Flush, &plain).ok()?;
    let _nothing_there = rustix::termios::tcflush(terminal, QueueSelector::IFlush);
    let place = match question.port {
        0 => harmless(&question.host),
        port => format!("{}:{port}", harmless(&question.host)),
    };
    let words = format!(
        "\r\npalisade: {} wants to reach {place}, of which no rule speaks. Allow it?\r\n\
         [y] once  [s] for this session  [n] no  [d] no, for this session: ",
        harmless(program)
    );
    let answer = write_all(terminal, words.as_bytes()).and_then(|()| line(terminal)).map(|line| judge(&line));
    let _gone = rustix::termios::tcsetattr(terminal, OptionalActions::Now, &before);
    if answer.is_none() {
        output::say("\r\npalisade: no answer: refused\r\n");
    }
    answer
}

fn judge(line: &[u8]) -> Answer {
    match line.trim_ascii().to_ascii_lowercase().as_slice() {
        b"y" | b"yes" => Answer { allow: true, session: false },
        b"s" | b"session" => Answer { allow: true, session: true },
        b"d" => NO,
        _ => Answer { allow: false, session: false },
    }
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
        for (line, allow, session) in [
            ("y\n", true, false),
            (" YES \n", true, false),
            ("s\n", true, true),
            ("session", true, true),
            ("\n", false, false),
            ("n\n", false, false),
            ("yesterday\n", false, false),
            ("d\n", false, true),
            ("\u{1b}y\n", false, false),
        ] {
            assert_eq!(judge(line.as_bytes()), Answer { allow, session }, "{line:?}");
        }
    }
}
