// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the user questions while a command runs, one after the other: which hosts it may reach, which system calls it may make.
//!
//! Every answer except yes means no. An answer holds once, for the session, or always. An answer that holds always is
//! kept in a file of the user. For hosts it is the file of [`palisade_sandbox::network::approvals`].

use crate::prompt::{self, Keep};
use crate::question::{Wish, Word};
use palisade_event::Object;
use palisade_protocol::network::{Answer, Instruction, Question, Unasked};
use palisade_sandbox::apply::start::Running;
use palisade_sandbox::network::gateway;
use palisade_sandbox::plan::Approvals;
use palisade_text::harmless;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{SyncSender, sync_channel};

/// At most this many questions wait. Further questions get the answer no, so a program that asks without end uses no
/// more memory.
const WAITING: usize = 64;

/// Asks one question, and sends the answer to the process that waits for it. The argument is the command's processes.
pub(crate) type Asker = Box<dyn FnOnce(Option<Running>) + Send>;

/// Asks one question after the other, in a thread that is started for the first.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    questions: Option<SyncSender<Asker>>,
    /// The process from which everything inside descends.
    running: Option<Running>,
    /// Keeps answers about hosts that hold always. `None`: such answers aren't kept.
    answers: Option<Approvals<'static>>,
}

impl Asking {
    /// No question yet. The first one starts the thread.
    pub(crate) fn new(answers: Option<Approvals<'static>>) -> Self {
        Self { answers, ..Self::default() }
    }

    /// The command runs: questions need its processes.
    pub(crate) fn started(&mut self, running: Running) {
        self.running = Some(running);
    }

    /// Queues a question. Returns whether there was room.
    pub(crate) fn queue(&mut self, asker: Asker) -> bool {
        if self.questions.is_none() {
            let (sender, receiver) = sync_channel::<Asker>(WAITING);
            let running = self.running;
            let started = std::thread::Builder::new().name("palisade-ask".to_owned()).spawn(move || {
                for asker in receiver {
                    asker(running);
                }
            });
            if started.is_err() {
                return false;
            }
            self.questions = Some(sender);
        }
        self.questions.as_ref().is_some_and(|questions| questions.try_send(asker).is_ok())
    }

    /// Asks whether the command may reach a host. The answer goes to `control`.
    pub(crate) fn ask(&mut self, question: Question, program: &str, control: BorrowedFd<'_>) {
        let Ok(whoever_waits) = control.try_clone_to_owned() else { return };
        let (number, program, answers) = (question.number, program.to_owned(), self.answers.clone());
        let asked = self.queue(Box::new(move |running| {
            let keep = answers.as_ref().map(|answers| || keep(answers, &question));
            let keep = keep.as_ref().map(|keep| keep as Keep<'_>);
            let scope = answers.as_ref().map(|answers| answers.scope.to_string());
            match prompt::ask(&wish(&question, program, scope), keep, running) {
                Ok(word) => tell(whoever_waits.as_fd(), number, word.unwrap_or(Word::Never)),
                Err(why) => gateway::instruct(whoever_waits.as_fd(), &Instruction::Unasked { number, why }),
            }
        }));
        if !asked {
            gateway::instruct(control, &Instruction::Unasked { number, why: Unasked::TooMany });
        }
    }
}

/// Sends the answer to the process that serves the network. That process keeps answers for this session only.
fn tell(control: BorrowedFd<'_>, number: u64, word: Word) {
    let answer = Answer { allow: word.allows(), session: word.stays() };
    gateway::instruct(control, &Instruction::Answer { number, answer });
}

fn wish(question: &Question, program: String, scope: Option<String>) -> Wish {
    let place = match question.port {
        0 => question.host.clone(),
        port => Object::host(&question.host, port).to_string(),
    };
    Wish {
        program,
        action: format!("reach {place}"),
        why: "No rule of the network policy matches it.",
        scope,
    }
}

/// Keeps an answer for later launches, and returns a text that says where. If it can't be kept, it holds for this session.
fn keep(answers: &Approvals<'_>, question: &Question) -> String {
    let target = Object::host(&question.host, question.port).to_string();
    let Ok(target) = target.parse() else { return String::new() };
    match answers.allow(&target) {
        Ok(()) => format!(
            "palisade: {target} is always allowed for {}\r\nhint: to undo that, remove its line from {}\r\n",
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// The user doesn't answer the first question: `WAITING` more questions wait, and the next one is refused.
    #[test]
    fn so_many_questions_wait() {
        let mut asking = Asking::new(None);
        let (put, was_put) = channel();
        let (answer, answered) = channel::<()>();
        let first = Box::new(move |_running| {
            put.send(()).unwrap();
            let _the_end = answered.recv();
        });
        assert!(asking.queue(first));
        was_put.recv().unwrap();
        assert!((0..WAITING).all(|_| asking.queue(Box::new(|_running| {}))));
        assert!(!asking.queue(Box::new(|_running| {})));
        drop(answer);
    }
}
