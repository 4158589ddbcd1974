// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions to the user while a command runs, one after the other: whom it may talk to, what it may call.
//!
//! No is the answer to everything but yes.

use crate::prompt;
use palisade_events::harmless;
use palisade_network::{Answer, Instruction, Question};
use palisade_sandbox::gateway;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel};

/// Puts one question, and tells the answer to whoever waits for it. It is given the command.
pub(crate) type Asker = Box<dyn FnOnce(Option<i32>) + Send>;

/// Asks one question after the other, in a thread that is started for the first.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    questions: Option<Sender<Asker>>,
    /// The command, which leads its process group if it has one of its own.
    command: Option<i32>,
}

impl Asking {
    /// The command runs.
    pub(crate) fn started(&mut self, command: i32) {
        self.command = Some(command);
    }

    /// Has a question put, some time. Whether it will be.
    pub(crate) fn queue(&mut self, asker: Asker) -> bool {
        if self.questions.is_none() {
            let (sender, receiver) = channel::<Asker>();
            let command = self.command;
            let started = std::thread::Builder::new().name("palisade-ask".to_owned()).spawn(move || {
                for asker in receiver {
                    asker(command);
                }
            });
            if started.is_err() {
                return false;
            }
            self.questions = Some(sender);
        }
        self.questions.as_ref().is_some_and(|questions| questions.send(asker).is_ok())
    }

    /// Asks whom the command may talk to; the answer goes to `control`.
    pub(crate) fn ask(&mut self, question: Question, program: &str, control: BorrowedFd<'_>) {
        let number = question.number;
        let (Ok(answers), program) = (control.try_clone_to_owned(), program.to_owned()) else { return };
        let asked = self.queue(Box::new(move |command| {
            let answer = prompt::ask(&words(&question, &program), command).map_or(NO, |line| judge(&line));
            tell(answers.as_fd(), number, answer);
        }));
        if !asked {
            tell(control, number, NO);
        }
    }
}

const NO: Answer = Answer { allow: false, session: true };

fn tell(control: BorrowedFd<'_>, number: u64, answer: Answer) {
    if let Ok(words) = Instruction::Answer(number, answer).to_bytes() {
        gateway::instruct(control, &words);
    }
}

fn words(question: &Question, program: &str) -> String {
    let place = match question.port {
        0 => harmless(&question.host),
        port => format!("{}:{port}", harmless(&question.host)),
    };
    format!(
        "\r\npalisade: {} wants to reach {place}, of which no rule speaks. Allow it?\r\n\
         [y] once  [s] for this session  [n] no  [d] no, for this session: ",
        harmless(program)
    )
}

fn judge(line: &[u8]) -> Answer {
    match line.trim_ascii().to_ascii_lowercase().as_slice() {
        b"y" | b"yes" => Answer { allow: true, session: false },
        b"s" | b"session" => Answer { allow: true, session: true },
        b"d" => NO,
        _ => Answer { allow: false, session: false },
    }
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
