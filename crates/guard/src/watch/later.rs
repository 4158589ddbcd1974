// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions that are answered later, by other threads than the workers': who has to wait doesn't keep those who read.

use super::engine::{Again, Engine, Verdict, Worker};
use super::waiting::Waiting;
use crate::kind::Recognizer;
use crate::subject::{NONE, Subject};
use palisade_sys::fanotify::Question;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What is trusted may be out of date: a package manager may just have brought what is to be refused.
pub struct Settle {
    /// Whether it is being brought up to date.
    pub pending: Box<dyn Fn() -> bool + Send + Sync>,
    /// Waits until it isn't any more, for a bounded time.
    pub wait: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Settle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settle")
    }
}

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Later {
    settle: OnceLock<Settle>,
    /// To be judged again when what is trusted is up to date: bringing it up to date opens files itself, and somebody must answer
    /// for those.
    unsettled: Waiting<Question>,
    /// To be judged when their files have been read: large ones, and those that a disk has to be asked for.
    long: Waiting<Long>,
}

/// A question whose file is large.
#[derive(Debug)]
pub(super) struct Long {
    question: Question,
    /// Whether what is trusted is up to date for it.
    is_settled: bool,
    /// Whether the process's start was told of it.
    is_seen: bool,
}

/// The user who waits, by the real user id; but a user may have 65,536 more of them (`/etc/subuid`), which are taken for two.
fn user_of(subject: &Subject) -> u32 {
    const MORE: u32 = 0xffff;
    // A process that has gone waits for nothing.
    let user = subject.uids().first().copied().unwrap_or(NONE);
    if user > MORE { user | MORE } else { user }
}

/// What its file lies on.
fn device_of(question: &Question) -> u64 {
    rustix::fs::fstat(&question.file).map_or(0, |status| status.st_dev)
}

impl Engine {
    /// Who is asked before an untrusted file is refused: a package manager may just have brought it.
    pub fn settle_by(&self, settle: Settle) {
        let _once = self.later.settle.set(settle);
    }

    /// Whether a refusal of something untrusted has to wait.
    fn is_unsettled(&self) -> bool {
        self.later.settle.get().is_some_and(|settle| (settle.pending)())
    }

    /// Whether something else has come into force since it was decided. Asked after [`Self::is_unsettled`]: what was being
    /// read when it was decided, and isn't any more, is in force by then.
    fn is_stale(&self, verdict: &Verdict) -> bool {
        verdict.outcome.as_ref().is_some_and(|(decided_by, _)| !Arc::ptr_eq(decided_by, &self.in_force()))
    }

    /// Puts a question off whose verdict isn't one, or may not be soon. It comes back where it is to be answered.
    pub(super) fn put_off(
        &self,
        worker: &Worker<'_>,
        verdict: &Verdict,
        question: Question,
    ) -> Result<(), Question> {
        let is_long = worker.puts_off.take();
        if !is_long && !(verdict.untrusted && (self.is_unsettled() || self.is_stale(verdict))) {
            return Err(question);
        }
        let user = user_of(&Subject::read(question.pid));
        let device = device_of(&question);
        let is_seen = !worker.unseen.take();
        let long = |question| Long { question, is_settled: false, is_seen };
        if is_long {
            self.later.long.put(user, device, long(question)).map_err(|long| long.question)
        } else {
            self.later.unsettled.put(user, device, question)
        }
    }

    /// Judges again what was put off until what is trusted is up to date, until `stop`, which counts when the next question comes.
    pub fn settle(&self, recognizer: &Recognizer, stop: &AtomicBool) {
        let worker = Worker::new(recognizer, false);
        while !stop.load(Ordering::Relaxed) {
            let questions = self.later.unsettled.take_all();
            if let Some(settle) = self.later.settle.get() {
                (settle.wait)();
            }
            for (user, question) in questions {
                let began = self.clock.now();
                let verdict = self.judge(&worker, &question, Some(Again { is_seen: true }));
                let put_off = if worker.puts_off.take() {
                    let (device, long) =
                        (device_of(&question), Long { question, is_settled: true, is_seen: true });
                    self.later.long.put(user, device, long).map_err(|long| long.question)
                } else {
                    Err(question)
                };
                if let Err(question) = put_off {
                    self.give(&question, verdict, began);
                }
            }
        }
    }

    /// Judges what was put off because a file has to be read that takes long, until `stop`, which counts when the next question comes.
    pub fn read_files(&self, recognizer: &Recognizer, stop: &AtomicBool) {
        let worker = Worker::new(recognizer, true);
        while !stop.load(Ordering::Relaxed) {
            let (Long { question, is_settled, is_seen }, _at_work) = self.later.long.take();
            let began = self.clock.now();
            let verdict = self.judge(&worker, &question, Some(Again { is_seen }));
            let put_off = if is_settled { Err(question) } else { self.put_off(&worker, &verdict, question) };
            if let Err(question) = put_off {
                self.give(&question, verdict, began);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_who_runs_the_process() {
        let own = user_of(&Subject::read(std::process::id()));
        let real = rustix::process::getuid().as_raw();
        assert_eq!(own, if real > 0xffff { real | 0xffff } else { real });
        // No process has this number.
        assert_eq!(user_of(&Subject::read(u32::MAX)), NONE);
    }
}
