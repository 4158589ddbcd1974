// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions that other threads answer later, so that a question that has to wait doesn't delay the threads that read.

use super::engine::{Again, Engine, Verdict, Worker};
use super::waiting::Waiting;
use crate::kind::Recognizer;
use crate::subject::{NONE, Subject};
use palisade_sys::fanotify::Question;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The trust database may be out of date: a package manager may have just installed the file that is to be refused.
pub struct Settle {
    /// Whether the trust database is being updated.
    pub pending: Box<dyn Fn() -> bool + Send + Sync>,
    /// Waits until it is up to date, for a bounded time.
    pub wait: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Settle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settle")
    }
}

/// The questions that wait.
#[derive(Debug, Default)]
pub(super) struct Later {
    settle: OnceLock<Settle>,
    /// To be judged again when the trust database is up to date. The update opens files itself, so a thread must stay
    /// free to answer for those.
    unsettled: Waiting<Question>,
    /// To be judged when their files have been read: large files, and files that need a disk.
    long: Waiting<Long>,
}

/// A question whose file is large or needs a disk.
#[derive(Debug)]
pub(super) struct Long {
    question: Question,
    /// Whether the trust database is up to date for it.
    is_settled: bool,
    /// Whether the process's start was told of it.
    is_seen: bool,
}

/// The user who waits, by the real user id. A user may have 65,536 more ids (`/etc/subuid`); all of those count as one
/// user.
fn user_of(subject: &Subject) -> u32 {
    const MORE: u32 = 0xffff;
    // A process that has ended waits for nothing.
    let user = subject.uids().first().copied().unwrap_or(NONE);
    if user > MORE { user | MORE } else { user }
}

/// The device of its file.
fn device_of(question: &Question) -> u64 {
    rustix::fs::fstat(&question.file).map_or(0, |status| status.st_dev)
}

impl Engine {
    /// Sets the check before an untrusted file is refused: a package manager may have just installed it.
    pub fn settle_by(&self, settle: Settle) {
        let _once = self.later.settle.set(settle);
    }

    /// Whether a refusal of an untrusted file has to wait.
    fn is_unsettled(&self) -> bool {
        self.later.settle.get().is_some_and(|settle| (settle.pending)())
    }

    /// Whether other rules or trust came into force since the decision. Call this after [`Self::is_unsettled`]: an
    /// update that was running at the decision, and isn't any more, is in force by then.
    fn is_stale(&self, verdict: &Verdict) -> bool {
        verdict.outcome.as_ref().is_some_and(|(decided_by, _)| !Arc::ptr_eq(decided_by, &self.in_force()))
    }

    /// Puts a question off if it has no verdict, or if its verdict may change soon. Gives the question back if it must
    /// be answered now.
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

    /// Judges the questions again that waited for the trust database, until `stop`, which is checked at the next
    /// question.
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

    /// Judges the questions whose files take long to read, until `stop`, which is checked at the next question.
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
