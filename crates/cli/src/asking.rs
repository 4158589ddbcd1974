// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the user questions while a command runs, one after the other: which hosts it may reach, which system calls it may make.
//!
//! Every answer except yes means no. An answer holds once, for the session, or always. An answer that holds always is
//! kept in a file of the user. For hosts it is the file of [`palisade_sandbox::network::approvals`].

use crate::output;
use crate::prompt::{self, Keep};
use crate::question::{Wish, Word};
use palisade_event::Object;
use palisade_protocol::network::{Answer, Instruction, Question, Unasked};
use palisade_sandbox::apply::start::Running;
use palisade_sandbox::network::gateway;
use palisade_sandbox::plan::Approvals;
use palisade_text::harmless;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// At most this many questions wait. Further questions get the answer no, so a program that asks without end uses no
/// more memory.
const WAITING: usize = 64;
/// At most this many questions are asked in [`PERIOD`]. Everything inside is stopped during a question, and the user has
/// to answer it: a program that asks about thousands of hosts would keep the user from everything else. Installers and
/// agents at work ask about fewer hosts.
const MOST: usize = 20;
const PERIOD: Duration = Duration::from_secs(300);

/// What becomes of a question whose turn it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Turn {
    /// The user is asked. The argument is the command's processes.
    Ask(Option<Running>),
    /// The user was asked too much lately.
    TooMany,
}

/// Asks one question, and sends the answer to the process that waits for it. Returns whether the user was asked.
pub(crate) type Asker = Box<dyn FnOnce(Turn) -> bool + Send>;

/// Asks one question after the other, in a thread that is started for the first.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    questions: Option<SyncSender<(Asker, &'static str)>>,
    /// The process from which everything inside descends.
    running: Option<Running>,
    /// Keeps answers about hosts that hold always. `None`: such answers aren't kept.
    answers: Option<Approvals<'static>>,
    /// The user was told that there are too many questions.
    told: Arc<AtomicBool>,
}

/// When the user was asked lately, at most [`MOST`] times.
#[derive(Debug, Default)]
struct Rate(VecDeque<Instant>);

impl Rate {
    fn permits(&mut self, now: Instant) -> bool {
        while self.0.front().is_some_and(|first| now.duration_since(*first) >= PERIOD) {
            self.0.pop_front();
        }
        self.0.len() < MOST
    }

    fn count(&mut self, now: Instant) {
        self.0.push_back(now);
    }
}

/// Tells the user once that questions are refused. `option` is the option that decides without questions.
fn tell_too_many(told: &AtomicBool, option: &str) {
    if !told.swap(true, Ordering::Relaxed) {
        output::note(&format_args!(
            "programs inside ask for too much: after {MOST} questions in {} minutes, or with {WAITING} that wait, further \
             ones are refused; to decide without questions: palisade run {option} …",
            PERIOD.as_secs() / 60
        ));
    }
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

    /// Queues a question. Returns whether there was room. `option` is the option of `palisade run` that decides without
    /// questions.
    pub(crate) fn queue(&mut self, asker: Asker, option: &'static str) -> bool {
        if self.questions.is_none() {
            let (sender, receiver) = sync_channel::<(Asker, &'static str)>(WAITING);
            let (running, told) = (self.running, Arc::clone(&self.told));
            let started = std::thread::Builder::new().name("palisade-ask".to_owned()).spawn(move || {
                let mut rate = Rate::default();
                for (asker, option) in receiver {
                    if !rate.permits(Instant::now()) {
                        tell_too_many(&told, option);
                        asker(Turn::TooMany);
                    } else if asker(Turn::Ask(running)) {
                        rate.count(Instant::now());
                    }
                }
            });
            if started.is_err() {
                return false;
            }
            self.questions = Some(sender);
        }
        let queued =
            self.questions.as_ref().is_some_and(|questions| questions.try_send((asker, option)).is_ok());
        if !queued {
            tell_too_many(&self.told, option);
        }
        queued
    }

    /// Asks whether the command may reach a host. The answer goes to `control`.
    pub(crate) fn ask(&mut self, question: Question, program: &str, control: BorrowedFd<'_>) {
        let Ok(whoever_waits) = control.try_clone_to_owned() else { return };
        let (number, program, answers) = (question.number, program.to_owned(), self.answers.clone());
        let asker: Asker = Box::new(move |turn| {
            let keep = answers.as_ref().map(|answers| || keep(answers, &question));
            let keep = keep.as_ref().map(|keep| keep as Keep<'_>);
            let scope = answers.as_ref().map(|answers| answers.scope.to_string());
            let word = match turn {
                Turn::Ask(running) => prompt::ask(&wish(&question, program, scope), keep, running),
                Turn::TooMany => Err(Unasked::TooMany),
            };
            match word {
                Ok(word) => tell(whoever_waits.as_fd(), number, word.unwrap_or(Word::Never)),
                Err(why) => gateway::instruct(whoever_waits.as_fd(), &Instruction::Unasked { number, why }),
            }
            word.is_ok()
        });
        let asked = self.queue(asker, "--net-default deny --allow HOST");
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
        let first = Box::new(move |_turn| {
            put.send(()).unwrap();
            answered.recv().is_ok()
        });
        assert!(asking.queue(first, ""));
        was_put.recv().unwrap();
        assert!((0..WAITING).all(|_| asking.queue(Box::new(|_turn| true), "")));
        assert!(!asking.queue(Box::new(|_turn| true), ""));
        drop(answer);
    }

    /// Questions that the user isn't asked, because there is no terminal, don't count.
    #[test]
    fn so_many_questions_are_asked_in_a_period() {
        let mut asking = Asking::new(None);
        let (turns, turn) = channel();
        let mut ask = |is_asked| {
            let turns = turns.clone();
            let asker = move |turn| {
                turns.send(matches!(turn, Turn::Ask(_))).unwrap();
                is_asked
            };
            assert!(asking.queue(Box::new(asker), ""));
            turn.recv().unwrap()
        };
        assert!((0..2 * MOST).all(|_| ask(false)));
        assert!((0..MOST).all(|_| ask(true)));
        assert!(!ask(true));

        let mut rate = Rate::default();
        let begun = Instant::now();
        (0..20).for_each(|second| rate.count(begun + Duration::from_secs(second)));
        assert!(!rate.permits(begun + Duration::from_secs(299)));
        assert!(rate.permits(begun + PERIOD));
        rate.count(begun + PERIOD);
        assert!(!rate.permits(begun + PERIOD));
    }
}
