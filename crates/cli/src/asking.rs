// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asking the user whom a command may talk to, on its terminal, while it runs.
//!
//! An answer holds once, for the session, or always: then it is kept in a file of the user's own
//! ([`palisade_sandbox::answers`]).
//!
//! Only at the terminal itself (`/dev/tty`), only with what is typed after the question, and no is the answer to
//! everything else: no terminal, another job in the foreground, a minute without an answer. While somebody is asked the
//! command is stopped: it would read the answer, or draw over the question.

use crate::{network, output};
use palisade_events::harmless;
use palisade_network::{Answer, Instruction, Question};
use palisade_sandbox::plan::Answers;
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
    /// Where answers are kept that hold always; none: they aren't.
    answers: Option<Answers<'static>>,
}

impl Asking {
    /// Nobody is asked yet.
    pub(crate) fn new(answers: Option<Answers<'static>>) -> Self {
        Self { answers, ..Self::default() }
    }

    /// The command runs.
    pub(crate) fn started(&mut self, command: i32) {
        self.command = Some(command);
    }

    /// Asks, some time; the answer goes to `control`.
    pub(crate) fn ask(&mut self, question: Question, program: &str, control: BorrowedFd<'_>) {
        let Ok(control) = control.try_clone_to_owned() else { return };
        if self.questions.is_none() {
            let (sender, receiver) = channel::<(Question, OwnedFd)>();
            let (command, program, answers) = (self.command, program.to_owned(), self.answers.take());
            let started = std::thread::Builder::new().name("palisade-ask".to_owned()).spawn(move || {
                for (question, control) in receiver {
                    let who = Who { program: &program, command, answers: answers.as_ref() };
                    let word = who.answer(&question).unwrap_or(Word::Never);
                    tell(control.as_fd(), question.number, word.answer());
                }
            });
            if started.is_err() {
                return tell(control.as_fd(), question.number, Word::Never.answer());
            }
            self.questions = Some(sender);
        }
        if let Some(questions) = &self.questions {
            let _thread_is_there = questions.send((question, control));
        }
    }
}

/// What the user can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
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

    /// For whoever serves the network, which knows of this session only.
    const fn answer(self) -> Answer {
        Answer {
            allow: matches!(self, Self::Once | Self::Session | Self::Always),
            session: !matches!(self, Self::Once | Self::No),
        }
    }
}

fn tell(control: BorrowedFd<'_>, number: u64, answer: Answer) {
    if let Ok(words) = Instruction::Answer(number, answer).to_bytes() {
        gateway::instruct(control, &words);
    }
}

/// Who asks, and on whose behalf.
struct Who<'w> {
    program: &'w str,
    command: Option<i32>,
    answers: Option<&'w Answers<'static>>,
}

impl Who<'_> {
    /// What the user says; none if there is nobody to ask.
    fn answer(&self, question: &Question) -> Option<Word> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
        let foreground = rustix::termios::tcgetpgrp(&terminal).ok()?;
        let own = rustix::process::getpgrp();
        let command = self.command.and_then(Pid::from_raw);
        if foreground == own {
            // It shares the group: there is nothing to hand over, and nobody who could be stopped alone.
            return self.put(&terminal, question);
        }
        if Some(foreground) != command {
            return None;
        }
        // Every signal is blocked in this process, `SIGTTOU` included: it may take the terminal from the background.
        monitor::set_asking(true);
        let _ended_meanwhile = kill_process_group(foreground, Signal::STOP);
        let answer =
            rustix::termios::tcsetpgrp(&terminal, own).ok().and_then(|()| self.put(&terminal, question));
        let _gone = rustix::termios::tcsetpgrp(&terminal, foreground);
        let _ended_meanwhile = kill_process_group(foreground, Signal::CONT);
        monitor::set_asking(false);
        answer
    }

    /// Puts the question and reads the answer, whatever the command has made of the terminal.
    fn put(&self, terminal: &OwnedFd, question: &Question) -> Option<Word> {
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
            port => harmless(&network::object(&question.host, port)),
        };
        let always = if self.answers.is_some() { "[a] always  " } else { "" };
        let words = format!(
            "\r\npalisade: {} wants to reach {place}, of which no rule speaks. Allow it?\r\n\
             [y] once  [s] for this session  {always}[n] no  [d] no, for this session: ",
            harmless(self.program)
        );
        let word = write_all(terminal, words.as_bytes()).and_then(|()| line(terminal));
        let word = word.map(|line| Word::read(&line, self.answers.is_some()));
        match word {
            Some(Word::Always) => self.keep(terminal, question),
            Some(_) => {}
            None => output::say("\r\npalisade: no answer: refused\r\n"),
        }
        let _gone = rustix::termios::tcsetattr(terminal, OptionalActions::Now, &before);
        word
    }

    /// Keeps an answer for the launches to come, and says where. What can't be kept holds for this session.
    fn keep(&self, terminal: &OwnedFd, question: &Question) {
        let (Some(answers), Ok(target)) =
            (self.answers, network::object(&question.host, question.port).parse())
        else {
            return;
        };
        let words = match answers.allow(&target) {
            Ok(()) => format!(
                "palisade: {target} is always allowed for {}\r\nhint: to take that back, remove its line from {}\r\n",
                harmless(&answers.scope),
                harmless(&answers.file.to_string()),
            ),
            Err(error) => {
                let hint = error.hint().map(|hint| format!("hint: {}\r\n", harmless(&hint)));
                format!(
                    "palisade: allowed for this session only: {}\r\n{}",
                    harmless(&error.to_string()),
                    hint.unwrap_or_default()
                )
            }
        };
        let _gone = write_all(terminal, words.as_bytes());
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
        for (word, allow, session) in [
            (Word::Once, true, false),
            (Word::Session, true, true),
            (Word::Always, true, true),
            (Word::No, false, false),
            (Word::Never, false, true),
        ] {
            assert_eq!(word.answer(), Answer { allow, session }, "{word:?}");
        }
    }
}
