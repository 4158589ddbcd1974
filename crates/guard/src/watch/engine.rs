// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers the kernel's questions.
//!
//! The kernel asks most questions only once. If only root may change a file, and all processes may use it, the kernel
//! passes it from then on, until it changes ([`Gate::pass`], [`NotificationGroup`]). If the answer depends on the
//! process that asks, or other users may change the file, the kernel asks every time.

use super::Judged;
use super::counts::{Clock, Counts};
use super::executed::Executed;
use super::known::{Identity, Known};
use super::label::{Label, Use};
use super::later::Later;
use super::occurrence::Occurrence;
use super::place::FileSystems;
use super::policy::{Policy, Starts};
use super::process::Processes;
use super::remembered::Remembered;
use super::workers::{Term, Workers};
use crate::facts::{Access, Facts};
use crate::kind::Recognizer;
use crate::linear::Outcome;
use crate::settings::Asked;
use crate::shortage;
use crate::trusted::Trusted;
use palisade_sys::fanotify::{AuditRule, BUFFER, Event, Gate, NotificationGroup, Question, Questions, Reply};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How many files are remembered, at least.
const FILES: usize = 8192;

/// The rules and trust in force. They are replaced as one value.
#[derive(Debug, Clone)]
pub struct InForce {
    /// The rules.
    pub policy: Arc<Policy>,
    /// What is trusted.
    pub trust: Arc<Trusted>,
}

/// Answers the kernel's questions.
#[derive(Debug)]
pub struct Engine {
    pub(super) gate: Gate,
    pub(super) notifications: Option<NotificationGroup>,
    in_force: RwLock<Arc<InForce>>,
    enforcing: AtomicBool,
    passing: AtomicBool,
    own: u32,
    /// The process id of a helper of the guard's that is running, or 0.
    helper: AtomicU32,
    /// The mounts, where changed files are found again, and files that other mount namespaces have at other paths.
    pub filesystems: FileSystems,
    pub(super) processes: Processes,
    pub(super) files: Mutex<Remembered<(u64, u64), Arc<Known>>>,
    /// What happened.
    pub counts: Counts,
    /// How long decisions take.
    pub clock: Clock,
    /// The threads that read questions.
    pub workers: Workers,
    log: SyncSender<Judged>,
    follow_all: AtomicBool,
    label: OnceLock<Box<dyn Label>>,
    pub(super) later: Later,
}

/// One thread that answers questions.
pub(super) struct Worker<'a> {
    /// Its number among the workers.
    pub(super) number: usize,
    /// The time during which it leads, if it does.
    pub(super) term: Cell<Option<Term>>,
    /// Recognizes kinds.
    pub(super) recognizer: &'a Recognizer,
    /// Whether this thread reads a file that takes long: a large one, or one that needs a disk. Other threads put its
    /// question off.
    pub(super) takes_long: bool,
    /// The program of the previous question, if that was about an exec.
    executed: Executed,
    /// Whether the current question has to be put off because its file takes long. Its verdict doesn't count then.
    pub(super) puts_off: Cell<bool>,
    /// Whether the process's [start](crate::subject::start) must still be told of this question.
    pub(super) unseen: Cell<bool>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(recognizer: &'a Recognizer, takes_long: bool) -> Self {
        Self {
            number: 0,
            term: Cell::new(None),
            recognizer,
            takes_long,
            executed: Executed::default(),
            puts_off: Cell::new(false),
            unseen: Cell::new(false),
        }
    }

    /// Whether every fact that the current question has needed so far could be found out.
    pub(super) fn has_all(&self) -> bool {
        !self.puts_off.get() && !shortage::is_seen()
    }
}

/// Questions that a check found unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread {
    leader: Option<Term>,
    questions: u64,
    since: Instant,
}

/// How long questions may be unread before another thread leads.
const UNREAD: Duration = Duration::from_millis(700);

/// The result for a question.
pub(super) struct Verdict {
    /// The rules that decided, for their counts.
    pub(super) outcome: Option<(Arc<InForce>, Outcome)>,
    reply: Reply,
    /// The rules' answer, whether they are enforced or not.
    allow: bool,
    judged: Option<Judged>,
    /// The file is to be refused, and isn't trusted.
    pub(super) untrusted: bool,
}

/// Marks a question that one of the workers has judged before.
#[derive(Clone, Copy)]
pub(super) struct Again {
    /// Whether the process's start was told of it then.
    pub(super) is_seen: bool,
}

impl Engine {
    /// Creates an engine. `log` receives what is to be logged.
    #[must_use]
    pub fn new(
        gate: Gate,
        notifications: Option<NotificationGroup>,
        in_force: InForce,
        enforcing: bool,
        log: SyncSender<Judged>,
    ) -> Self {
        Self {
            gate,
            passing: AtomicBool::new(notifications.is_some()),
            notifications,
            in_force: RwLock::new(Arc::new(in_force)),
            enforcing: AtomicBool::new(enforcing),
            own: std::process::id(),
            helper: AtomicU32::new(0),
            filesystems: FileSystems::default(),
            processes: Processes::default(),
            files: Mutex::new(Remembered::new(FILES)),
            counts: Counts::default(),
            clock: Clock::default(),
            workers: Workers::default(),
            log,
            follow_all: AtomicBool::new(false),
            label: OnceLock::new(),
            later: Later::default(),
        }
    }

    /// Sets the security module's labels for files.
    pub fn label_by(&self, label: Box<dyn Label>) {
        let _once = self.label.set(label);
    }

    /// The gate, to add marks.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether the rules are enforced.
    #[must_use]
    pub fn is_enforcing(&self) -> bool {
        self.enforcing.load(Ordering::Relaxed)
    }

    /// Enforces the rules from now on, or only logs.
    pub fn enforce(&self, enforce: bool) {
        self.enforcing.store(enforce, Ordering::Relaxed);
    }

    /// Sets the process id of a helper of the guard's (0: there is none). Its opens aren't judged.
    pub fn help_from(&self, pid: u32) {
        self.helper.store(pid, Ordering::Relaxed);
    }

    /// Whether every decision is sent to the log, also those that no rule logs.
    pub fn follow_all(&self, all: bool) {
        self.follow_all.store(all, Ordering::Relaxed);
    }

    /// Whether the kernel may answer by itself.
    pub fn pass(&self, pass: bool) {
        self.passing.store(pass && self.notifications.is_some(), Ordering::Relaxed);
    }

    /// The rules in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.in_force().policy)
    }

    /// What is trusted.
    #[must_use]
    pub fn trust(&self) -> Arc<Trusted> {
        Arc::clone(&self.in_force().trust)
    }

    /// The rules and trust in force now. The lock isn't held on: a decision may open files, which are questions, and
    /// the thread that answers those would wait behind a thread that wants to replace the rules.
    pub(super) fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other rules or another trust database in force. The kernel asks again about all files.
    ///
    /// # Errors
    /// If the kernel doesn't drop its own answers; then nothing has changed.
    pub fn replace(&self, change: impl FnOnce(&mut InForce)) -> Result<(), Errno> {
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        // With the lock held, no thread can pass a file by the old rules, neither now nor later.
        self.gate.ask_about_all()?;
        let mut next = InForce::clone(&in_force);
        change(&mut next);
        *in_force = Arc::new(next);
        if let Some(label) = self.label.get() {
            // After the rules: so no label of the new generation is given by the old rules.
            label.forget();
            drop(in_force);
            label.renew();
        }
        Ok(())
    }

    /// Waits until it is this thread's turn to lead, then answers until `stop`.
    ///
    /// # Errors
    /// When the gate can't be read any more.
    pub fn work(&self, number: usize, recognizer: &Recognizer, stop: &AtomicBool) -> Result<(), Errno> {
        self.workers.is_here(number);
        let term = Cell::new(Some(self.workers.lead()));
        let worker = Worker { number, term, ..Worker::new(recognizer, false) };
        // One event at a time: the thread that reads an event must answer it, and that may take long.
        let mut buffer = [0; BUFFER];
        while !stop.load(Ordering::Relaxed) {
            let read = self.gate.read(&mut buffer[..ONE_EVENT], |event| match event {
                Event::Question(question) => self.take(&worker, question),
                Event::Overflow | Event::Unreadable => self.counts.lost.one(),
            });
            match read {
                Ok(()) | Err(Errno::INTR | Errno::AGAIN) => {}
                // The group can't be read any more.
                Err(errno @ (Errno::BADF | Errno::INVAL | Errno::FAULT)) => {
                    self.step_aside(&worker);
                    return Err(errno);
                }
                // The kernel refused the open because it couldn't open the file for us: descriptors are used up, the
                // file system's server has ended, or its key isn't there. Any user can cause that.
                Err(_not_opened) => self.counts.lost.one(),
            }
            if !worker.term.get().is_some_and(|term| self.workers.leads(term)) {
                worker.term.set(Some(self.workers.lead()));
            }
        }
        self.step_aside(&worker);
        Ok(())
    }

    /// Lets another thread of the workers read.
    pub(super) fn step_aside(&self, worker: &Worker<'_>) {
        if let Some(term) = worker.term.take() {
            self.workers.step_aside(term);
        }
    }

    /// Checks whether questions are read; the caller repeats this. If questions wait and none was read for `UNREAD`,
    /// another thread leads from then on, and the result is false.
    ///
    /// Reading a question makes the kernel open its file, which takes as long as the file's server needs.
    pub fn goes_on(&self, before: &mut Option<Unread>) -> bool {
        let leader = self.workers.lasting();
        *before = self.gate.has_questions(Duration::ZERO).then(|| {
            let questions = self.counts.questions.get();
            let the_same = before.filter(|unread| (unread.leader, unread.questions) == (leader, questions));
            the_same.unwrap_or_else(|| Unread { leader, questions, since: Instant::now() })
        });
        let is_kept = before.is_some_and(|unread| unread.since.elapsed() >= UNREAD);
        if let (true, Some(term)) = (is_kept, leader) {
            self.workers.step_aside(term);
        }
        !is_kept
    }

    /// Answers one question or puts it off.
    fn take(&self, worker: &Worker<'_>, question: Question) {
        self.counts.questions.one();
        if question.execute {
            self.counts.executes.one();
        }
        // The guard's own processes must not wait for a decision, and a helper that reads all files would fill the caches.
        if question.pid == self.own || question.pid == self.helper.load(Ordering::Relaxed) {
            self.reply(&question, Reply { allow: true, audit: None });
            return;
        }
        self.workers.begin(worker.number, question.file.as_raw_fd());
        let began = self.clock.now();
        let verdict = self.judge(worker, &question, None);
        if let Err(question) = self.put_off(worker, &verdict, question) {
            self.give(&question, verdict, began);
        }
        self.workers.end(worker.number);
    }

    /// Sends the answer, and logs it.
    pub(super) fn give(&self, question: &Question, verdict: Verdict, began: Option<Instant>) {
        let Verdict { outcome, reply, allow, judged, .. } = verdict;
        self.reply(question, reply);
        if let Some((in_force, outcome)) = outcome {
            in_force.policy.count(outcome);
        }
        if allow { &self.counts.allowed } else { &self.counts.denied }.one();
        if let Some(began) = began {
            self.clock.took(began.elapsed());
        }
        if let Some(judged) = judged
            && let Err(TrySendError::Full(_)) = self.log.try_send(judged)
        {
            self.counts.unlogged.one();
        }
    }

    fn reply(&self, question: &Question, reply: Reply) {
        if self.gate.answer(question, reply).is_err() {
            self.counts.unanswered.one();
        }
    }

    /// Decides. `again` is set if the question was judged before; the thread that does this never leads.
    pub(super) fn judge(&self, worker: &Worker<'_>, question: &Question, again: Option<Again>) -> Verdict {
        let in_force = self.in_force();
        let policy = &in_force.policy;
        let Ok(status) = rustix::fs::fstat(&question.file) else {
            return self.refusal();
        };
        let identity = Identity::of(&status);
        let access = if question.execute { Access::Execute } else { Access::Open };
        let occurrence = Occurrence::new(self, worker, &in_force, question, identity, access);
        let _before = shortage::take();
        if let Some(path) = worker.executed.followed_by(question, identity) {
            occurrence.is_at(path);
        }
        let everybody = self.may_pass(&occurrence, policy);
        let outcome = match everybody {
            Some(outcome) => {
                if worker.has_all() {
                    self.pass_on(&occurrence, &in_force, worker);
                }
                outcome
            }
            None => {
                // The sequence of a process's questions shows how its program was started.
                if policy.starts() == Starts::All && again.is_none_or(|again| !again.is_seen) {
                    worker.unseen.set(!occurrence.proceed(policy.is_linker(occurrence.path())));
                }
                policy.decide(&occurrence)
            }
        };
        if question.execute
            && worker.has_all()
            && let Some(path) = occurrence.found_at()
        {
            worker.executed.is_at(question.pid, identity, path);
        }
        if !occurrence.subject_is_known() {
            // The process can't be examined. A decision of the rules would be a guess.
            self.counts.unknown_subject.one();
            return self.refusal();
        }
        // Helpers of the guard update the trust database, and read files that aren't trusted yet.
        if !outcome.decision.allow && occurrence.ppid() == self.own {
            let reply = Reply { allow: true, audit: None };
            return Verdict { outcome: None, reply, allow: true, judged: None, untrusted: false };
        }
        if worker.puts_off.get() {
            return self.refusal();
        }
        if shortage::take() {
            // Some fact couldn't be found out.
            self.counts.lost.one();
            return self.refusal();
        }
        let allow = outcome.decision.allow;
        let refused = !allow && self.is_enforcing();
        if let Some(label) = self.label.get()
            && everybody.is_none()
            && identity.is_regular()
        {
            if allow {
                self.label(&**label, &occurrence, policy, worker);
            } else {
                self.unlabel(&**label, &occurrence, policy, worker);
            }
        }
        let audit = outcome.decision.audit.then(|| AuditRule {
            rule: outcome.rule.map_or(0, crate::rule::RuleId::number),
            subject_trust: u32::from(occurrence.subject_trusted()),
            object_trust: u32::from(occurrence.trusted()),
        });
        let said = !allow || outcome.decision.is_logged() || self.follow_all.load(Ordering::Relaxed);
        let tells = refused && policy.settings.log.terminal;
        let judged = said.then(|| Judged {
            terminal: if tells { occurrence.terminal() } else { None },
            ..Judged::new(policy, outcome, refused, &occurrence)
        });
        let untrusted = refused && !occurrence.trusted();
        drop(occurrence);
        let reply = Reply { allow: !refused, audit };
        Verdict { outcome: Some((in_force, outcome)), reply, allow, judged, untrusted }
    }

    /// The answer if a fact can't be found out.
    fn refusal(&self) -> Verdict {
        let reply = Reply { allow: !self.is_enforcing(), audit: None };
        Verdict { outcome: None, reply, allow: false, judged: None, untrusted: false }
    }

    /// The decision that holds for every process, if the kernel may be told so.
    fn may_pass(&self, occurrence: &Occurrence<'_>, policy: &Policy) -> Option<Outcome> {
        if !self.passing.load(Ordering::Relaxed) || self.follow_all.load(Ordering::Relaxed) {
            return None;
        }
        if !occurrence.identity().is_roots() {
            return None;
        }
        if self.must_be_seen(occurrence, policy) {
            return None;
        }
        policy
            .for_every_subject(occurrence, self.is_enforcing())
            .filter(|outcome| outcome.decision.allow && !outcome.decision.is_logged())
    }

    /// Whether rules ask how programs are started, and this question is needed to know it.
    fn must_be_seen(&self, occurrence: &Occurrence<'_>, policy: &Policy) -> bool {
        let execute = occurrence.access() == Access::Execute;
        match policy.starts() {
            Starts::Nothing => false,
            // A process can pass programs to the linker. With labels it can't: the linker has none for execution.
            Starts::Opens => {
                !execute
                    && self.label.get().is_none()
                    && occurrence.elf().is_some_and(|elf| elf.interpreter || elf.is_static())
                    && !policy.is_c_library(occurrence.path())
            }
            Starts::All => {
                execute
                    || occurrence.elf().is_some_and(|elf| elf.interpreter || elf.linker || elf.is_static())
            }
        }
    }

    /// Makes the kernel answer by itself from now on.
    fn pass_on(&self, occurrence: &Occurrence<'_>, decided_by: &Arc<InForce>, worker: &Worker<'_>) {
        let Some(notifications) = &self.notifications else { return };
        let policy = &decided_by.policy;
        let other = occurrence.for_the_other_access();
        let also = policy.settings.watch.asked == Asked::OpenAndExecute
            && !self.must_be_seen(&other, policy)
            && policy
                .for_every_subject(&other, self.is_enforcing())
                .is_some_and(|outcome| outcome.decision.allow && !outcome.decision.is_logged());
        let execute = occurrence.access() == Access::Execute;
        let questions = Questions { open: !execute || also, execute: execute || also };
        let file = occurrence.file();
        // First listen for changes, then pass the file, then check it again: a change in between shows.
        let heard = notifications.listen(file).is_ok() && worker.has_all();
        let label = self.label.get().map(|label| (label, self.label(&**label, occurrence, policy, worker)));
        // If the file is passed, there is no later question at which it would get its label.
        if !heard || label.is_some_and(|(_, labelled)| labelled == Labelled::Lacking) {
            return;
        }
        // With the lock held, no other rules can come into force until the kernel has been told. Nothing here opens files.
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&in_force, decided_by) {
            return;
        }
        if self.gate.pass(file, questions).is_err() {
            return;
        }
        let now = rustix::fs::fstat(file).map(|status| Identity::of(&status));
        let kept = label.is_none_or(|(label, labelled)| match labelled {
            Labelled::With(wanted) => label.permits(file, wanted),
            Labelled::Needless | Labelled::Lacking => true,
        });
        if kept && now == Ok(occurrence.identity()) {
            self.counts.passed.one();
        } else {
            self.ask_again(file.as_fd());
        }
    }
}

impl Engine {
    /// Labels the file of an allowed question.
    fn label(
        &self,
        label: &dyn Label,
        occurrence: &Occurrence<'_>,
        policy: &Policy,
        worker: &Worker<'_>,
    ) -> Labelled {
        let Some(wanted) = self.usage(occurrence, policy) else { return Labelled::Needless };
        if !worker.has_all() {
            return Labelled::Lacking;
        }
        let file = occurrence.file();
        if label.permits(file, wanted) {
            return Labelled::With(wanted);
        }
        // Earlier facts aren't enough: the file may have been changed since, and changed again.
        let mut still = || {
            let Ok(status) = rustix::fs::fstat(file) else { return false };
            loop {
                let in_force = self.in_force();
                let again = occurrence.anew(self, worker, &in_force, Identity::of(&status));
                let allow = in_force.policy.decide(&again).decision.allow;
                let usage = self.usage(&again, &in_force.policy);
                // The label's generation was looked up before. It belongs to these rules or to the rules before. In the
                // second case the label counts for the accesses under way and is given again at the next question.
                if Arc::ptr_eq(&self.in_force(), &in_force) {
                    return allow && usage >= Some(wanted) && worker.has_all();
                }
            }
        };
        if label.give(file, wanted, &mut still) { Labelled::With(wanted) } else { Labelled::Lacking }
    }

    /// What an allowed question's file may be used for, as far as it matters for mapping or executing it.
    fn usage(&self, occurrence: &Occurrence<'_>, policy: &Policy) -> Option<Use> {
        // The kernel maps the linker for programs that name it. Executing the linker itself is refused.
        if policy.starts() == Starts::Opens && policy.is_linker(occurrence.path()) {
            return Some(Use::Map);
        }
        if occurrence.access() == Access::Execute {
            return Some(Use::Execute);
        }
        // Root's files may be passed for execs, too, and runtimes map files of theirs that aren't ELF.
        let identity = occurrence.identity();
        let elf = occurrence.elf().is_some();
        if !elf && !identity.is_roots() && identity.mode & 0o111 == 0 {
            return None;
        }
        let execute = policy
            .for_every_subject(&occurrence.for_the_other_access(), self.is_enforcing())
            .is_some_and(|outcome| outcome.decision.allow);
        if execute { Some(Use::Execute) } else { elf.then_some(Use::Map) }
    }

    /// Removes the label of a refused question's file, if every process would be refused.
    fn unlabel(&self, label: &dyn Label, occurrence: &Occurrence<'_>, policy: &Policy, worker: &Worker<'_>) {
        let file = occurrence.file();
        // A file that other processes may use keeps its label. The refused process is refused here each time, and must
        // not be able to take the file away from the others.
        if label.permits(file, Use::Map)
            && policy
                .for_every_subject(occurrence, self.is_enforcing())
                .is_some_and(|outcome| !outcome.decision.allow)
            && worker.has_all()
        {
            label.take(file);
            self.ask_again(file);
        }
    }
}

/// The result of labelling a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Labelled {
    /// The file has a label for this use.
    With(Use),
    /// The file needs no label.
    Needless,
    /// The file should have a label, but has none.
    Lacking,
}

/// The size of `struct fanotify_event_metadata`: there is room for one event only.
const ONE_EVENT: usize = 24;
