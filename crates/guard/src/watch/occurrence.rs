// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One open or exec, whose facts are looked up when they are asked for.

use super::engine::{Engine, InForce, Worker};
use super::known::{self, HASHED_FOR_RULES, Identity, Known, sha256};
use super::place::FOREIGN;
use super::policy::Starts;
use super::process::Process;
use crate::facts::{Access, Facts, Start};
use crate::kind::elf::ElfFacts;
use crate::kind::{Kind, Stat};
use crate::nowait;
use crate::subject::Subject;
use palisade_sys::fanotify::Question;
use std::cell::OnceCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long reading a file for a rule may take: any user can have a file on a slow disk. A file that is trusted by its
/// hash is read completely, however long that takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// In bytes. Larger files are hashed by separate threads: this much takes about half a millisecond.
const MUCH: u64 = 512 << 10;

/// One open or exec.
pub(super) struct Occurrence<'a> {
    engine: &'a Engine,
    worker: &'a Worker<'a>,
    in_force: &'a InForce,
    question: &'a Question,
    identity: Identity,
    access: Access,
    path: OnceCell<Box<[u8]>>,
    known: OnceCell<Arc<Known>>,
    trusted: OnceCell<bool>,
    device: OnceCell<Box<[u8]>>,
    process: OnceCell<Option<Process>>,
    exe: OnceCell<Arc<[u8]>>,
    subject_kind: OnceCell<Kind>,
    kind: OnceCell<Kind>,
    /// Whether its file system has no disk; set when first asked for.
    in_memory: OnceCell<Option<bool>>,
    elf: OnceCell<Option<ElfFacts>>,
    subject_trusted: OnceCell<bool>,
}

impl<'a> Occurrence<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        worker: &'a Worker<'a>,
        in_force: &'a InForce,
        question: &'a Question,
        identity: Identity,
        access: Access,
    ) -> Self {
        Self {
            engine,
            worker,
            in_force,
            question,
            identity,
            access,
            path: OnceCell::new(),
            known: OnceCell::new(),
            trusted: OnceCell::new(),
            device: OnceCell::new(),
            process: OnceCell::new(),
            exe: OnceCell::new(),
            subject_kind: OnceCell::new(),
            kind: OnceCell::new(),
            in_memory: OnceCell::new(),
            elf: OnceCell::new(),
            subject_trusted: OnceCell::new(),
        }
    }

    /// The same file with the other access. Facts about the file are kept.
    pub(super) fn for_the_other_access(&self) -> Self {
        let access = if self.access == Access::Open { Access::Execute } else { Access::Open };
        Self {
            access,
            path: self.path.clone(),
            known: self.known.clone(),
            trusted: self.trusted.clone(),
            device: self.device.clone(),
            process: OnceCell::new(),
            exe: OnceCell::new(),
            subject_kind: OnceCell::new(),
            kind: OnceCell::new(),
            in_memory: OnceCell::new(),
            elf: OnceCell::new(),
            subject_trusted: OnceCell::new(),
            ..*self
        }
    }

    /// The same question, without any facts about its file except its identity now.
    pub(super) fn anew<'b>(
        &'b self,
        engine: &'b Engine,
        worker: &'b Worker<'b>,
        in_force: &'b InForce,
        identity: Identity,
    ) -> Occurrence<'b> {
        Occurrence::new(engine, worker, in_force, self.question, identity, self.access)
    }

    /// Sets the path of its file, which is known already.
    pub(super) fn is_at(&self, path: Box<[u8]>) {
        let _not_asked_before = self.path.set(path);
    }

    /// The path of its file, if it was asked for.
    pub(super) fn found_at(&self) -> Option<&[u8]> {
        self.path.get().map(|path| &**path)
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.question.file.as_fd()
    }

    /// Whether a program may be opened here. Opening it is also a question, and the file's server may not answer. If it
    /// may not be opened, this question is put off.
    fn may_open(&self) -> bool {
        if !self.worker.takes_long {
            self.worker.puts_off.set(true);
        }
        self.worker.takes_long
    }

    /// Puts the question off if recognizing its file takes long, because other questions wait.
    fn see_slow(&self) {
        if self.worker.recognizer.was_slow() {
            self.worker.puts_off.set(true);
        }
    }

    fn status(&self) -> Stat {
        let in_memory = self.in_memory.get() == Some(&Some(true));
        Stat { mode: self.identity.mode, size: self.identity.size, in_memory }
    }

    /// The remembered facts of the file, or an entry to remember them.
    fn known(&self) -> &Arc<Known> {
        self.known.get_or_init(|| {
            let path = self.path();
            let key = self.identity.key();
            let mut files = self.engine.files.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = files.get(&key)
                && known.identity == self.identity
                && *known.path == *path
            {
                self.engine.counts.objects_hit.one();
                return Arc::clone(known);
            }
            drop(files);
            self.engine.counts.objects_missed.one();
            let known = Arc::new(Known::new(self.identity, path));
            // Changes of root's files are reported; other files' facts hold only if no process has the file open for
            // writing.
            if self.identity.is_regular() && self.tells_of_changes() && self.identity.holds(self.file()) {
                let mut files = self.engine.files.lock().unwrap_or_else(PoisonError::into_inner);
                files.insert(key, Arc::clone(&known));
            }
            known
        })
    }

    /// Whether a store through a mapping will be noticed: by the file's times, or because the kernel reports the end of
    /// writing for files that only root may write.
    fn tells_of_changes(&self) -> bool {
        // On file systems without a disk, and on overlays (whose pages may belong to another file), a store through a
        // mapping changes no times.
        if *self.in_memory.get_or_init(|| nowait::is_in_memory(self.file())) == Some(false) {
            return true;
        }
        let notifications = self.engine.notifications.as_ref().filter(|_| self.identity.is_roots());
        notifications.is_some_and(|notifications| notifications.listen(self.file()).is_ok())
    }

    /// What determines how the file is started, if it is an ELF file.
    pub(super) fn elf(&self) -> Option<&ElfFacts> {
        let known = self.known();
        if let Some(elf) = known.elf.get() {
            return elf.as_ref();
        }
        let elf = self.elf.get_or_init(|| {
            let elf = self.worker.recognizer.elf_of(self.file(), self.status());
            self.see_slow();
            elf
        });
        // A fact that couldn't be found out isn't remembered.
        if self.worker.has_all() { known.elf.get_or_init(|| *elf).as_ref() } else { elf.as_ref() }
    }

    fn process(&self) -> Option<&Process> {
        self.process
            .get_or_init(|| self.engine.processes.get(self.question.pid, &self.engine.counts))
            .as_ref()
    }

    fn subject(&self) -> Option<&Subject> {
        self.process().map(|process| &process.subject)
    }

    /// The terminal of the process.
    pub(super) fn terminal(&self) -> Option<String> {
        self.subject().and_then(Subject::terminal)
    }

    /// False if the process was asked for and couldn't be examined.
    pub(super) fn subject_is_known(&self) -> bool {
        !matches!(self.process.get(), Some(None))
    }

    /// Tells the process's start of this question; false if the needed facts aren't known yet.
    pub(super) fn proceed(&self, is_linker: bool) -> bool {
        let Some(process) = self.process() else { return true };
        let elf = self.elf().map(|elf| ElfFacts { linker: elf.linker && is_linker, ..*elf });
        let is_known = !self.worker.puts_off.get();
        if is_known {
            process.proceed(self.access, elf.as_ref());
        }
        is_known
    }
}

impl Facts for Occurrence<'_> {
    fn access(&self) -> Access {
        self.access
    }

    fn file_id(&self) -> Option<(u64, u64)> {
        Some((self.identity.device, self.identity.inode))
    }

    fn auid(&self) -> u32 {
        self.subject().map_or(u32::MAX, Subject::auid)
    }

    fn uids(&self) -> &[u32] {
        self.subject().map_or(&[], Subject::uids)
    }

    fn gids(&self) -> &[u32] {
        self.subject().map_or(&[], Subject::gids)
    }

    fn session(&self) -> u32 {
        self.subject().map_or(u32::MAX, Subject::session)
    }

    fn pid(&self) -> u32 {
        self.question.pid
    }

    fn ppid(&self) -> u32 {
        self.subject().map_or(u32::MAX, Subject::ppid)
    }

    fn subject_trusted(&self) -> bool {
        // The program's file may have been replaced since it was started, so its path is what must be trusted.
        *self.subject_trusted.get_or_init(|| self.in_force.trust.knows(self.exe()))
    }

    fn comm(&self) -> &[u8] {
        self.subject().map_or(b"?", Subject::comm)
    }

    fn exe(&self) -> &[u8] {
        let Some(process) = self.process() else { return b"?" };
        self.exe.get_or_init(|| process.exe(&self.engine.filesystems))
    }

    fn subject_kind(&self) -> &str {
        let Some(process) = self.process() else { return "?" };
        self.subject_kind
            .get_or_init(|| {
                process.remembered_kind().unwrap_or_else(|| {
                    if !self.may_open() {
                        return Kind::UNKNOWN;
                    }
                    process.kind(&self.engine.filesystems, self.worker.recognizer)
                })
            })
            .as_str()
    }

    fn start(&self) -> Start {
        let policy = &self.in_force.policy;
        // A process can fake what was seen of it: by an exec that fails, or with another thread. It can't fake the
        // program that it runs. A linker that this host doesn't see, in a user's mount namespace, is a copy that was
        // not installed here as a program.
        let runs_linker = || {
            let (pid, recognizer) = (self.question.pid, self.worker.recognizer);
            let linker = self.engine.processes.linker_of(pid, recognizer, || self.may_open());
            linker.is_some_and(|linker| policy.is_linkers_program(linker) || self.exe().starts_with(FOREIGN))
        };
        if self.access == Access::Open && runs_linker() {
            return Start::LinkerItself;
        }
        match policy.starts() {
            Starts::All => self.process().map_or(Start::Unknown, Process::start),
            Starts::Opens | Starts::Nothing => Start::Unknown,
        }
    }

    fn preloads(&self) -> bool {
        self.subject().is_some_and(Subject::preloads)
    }

    fn path(&self) -> &[u8] {
        self.path.get_or_init(|| self.engine.filesystems.path_of(self.file(), self.identity))
    }

    fn device(&self) -> &[u8] {
        self.device.get_or_init(|| super::device_name(self.identity.device))
    }

    fn kind(&self) -> &str {
        let known = self.known();
        if let Some(kind) = known.kind.get() {
            return kind.as_str();
        }
        let tell = || {
            let wanted = self.in_force.policy.kinds();
            let kind = self.worker.recognizer.kind_among(self.file(), &known.path, self.status(), wanted);
            self.see_slow();
            kind
        };
        let kind = self.kind.get_or_init(tell);
        // A kind that couldn't be found out isn't remembered.
        if self.worker.has_all() { known.kind.get_or_init(|| kind.clone()).as_str() } else { kind.as_str() }
    }

    fn trusted(&self) -> bool {
        *self.trusted.get_or_init(|| {
            // The path is where this host has the file. A path that leads to another file here isn't used.
            let mut hash = || self.content_hash(None).map(str::to_owned);
            self.in_force.trust.trusts(self.path(), self.identity.size, self.file(), &mut hash)
        })
    }

    fn hash(&self) -> Option<&str> {
        if self.identity.size > HASHED_FOR_RULES {
            return None;
        }
        self.content_hash(Some(PATIENCE))
    }
}

impl Occurrence<'_> {
    /// Its SHA-256. `None` if it can't be read within that time, or if the question has to be put off first.
    fn content_hash(&self, patience: Option<Duration>) -> Option<&str> {
        let hash = &self.known().hash;
        if let Some(known) = hash.get() {
            return known.as_deref();
        }
        if self.identity.size > MUCH && !self.worker.takes_long {
            self.worker.puts_off.set(true);
            return None;
        }
        if !self.worker.takes_long && !known::is_in_memory(self.file(), self.identity) {
            self.worker.puts_off.set(true);
            return None;
        }
        // A read that took too long may be quicker next time, so the failure isn't remembered.
        let now = sha256(self.file(), self.identity, patience).ok()?;
        hash.get_or_init(|| now).as_deref()
    }
}
