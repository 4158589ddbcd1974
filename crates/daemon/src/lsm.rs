// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Uses BPF LSM together with fanotify. fanotify asks first, and the guard labels files that it allows; the kernel refuses files
//! without a label. So the kernel refuses what fanotify didn't ask about: programs in memory, file systems that a user mounted in
//! a user namespace, and files that changed since the question.

use crate::saying::say;
use palisade_bpf::{
    Access, Classes, ClassifyError, Error, Event as Reported, GuardPrograms, Matrix, Mode, ObjectClass, Pins,
    Proof, Reason, SubjectClass, Verdict as Answered, support,
};
use palisade_event::{
    Decision, Detail, Device, Event, File as Target, Guard, Mechanism as Enforcer, Object, Operation,
    Subject as Asking, Verdict, Why,
};
use palisade_guard::settings::{Asked, Backend, OnDeath};
use palisade_guard::subject::Subject;
use palisade_guard::watch::engine::Engine;
use palisade_guard::watch::label::{Label, Use};
use palisade_guard::watch::{Judged, whose};
use palisade_protocol::guard::Mechanism;
use palisade_text::Show as _;
use rustix::fs::OFlags;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// May be executed and mapped.
const PROGRAM: ObjectClass = ObjectClass::new(3).expect("a class of ours");
/// May be mapped.
const LIBRARY: ObjectClass = ObjectClass::new(4).expect("a class of ours");

/// The class of the proof's file. Events about it don't go to the journal.
const PROOF: u8 = 63;

/// A file that was opened before the rules changed and is mapped afterwards keeps its old label for this long. Every later open
/// is asked about, so no process can start something new with an old label.
const GRACE: Duration = Duration::from_secs(10);

/// The longest wait for events before the thread checks whether it should end.
const POLL: Duration = Duration::from_millis(200);

/// Refusals of the same file to the same process within this time are reported once.
const REPEAT: Duration = Duration::from_secs(1);

/// Why BPF LSM isn't in force, in words for `status`.
pub(crate) type Missing = String;

/// The eBPF programs: loaded, attached, and proved to work.
#[derive(Debug)]
pub(crate) struct Lsm {
    programs: GuardPrograms,
    /// Held while settings in the kernel are read, changed and written; one thread at a time.
    changing: Mutex<()>,
    pinned: bool,
    /// Whether the programs were found pinned; then earlier labels stay valid.
    taken_over: bool,
    proof: String,
    /// The messages that were reported. A file that can't have a label is reported once for each reason.
    told: Mutex<BTreeSet<String>>,
}

/// Gives labels for the engine.
#[derive(Debug)]
pub(crate) struct Labels(pub(crate) Arc<Lsm>);

/// Removes pins of an earlier guard that aren't wanted any more, if there are any.
pub(crate) fn clear_left_over() -> Result<(), Error> {
    let pins = Pins::default();
    if !pins.exist() {
        return Ok(());
    }
    match GuardPrograms::open(&pins) {
        Ok(Some(programs)) => programs.clear(&pins),
        _ => pins.clear().map(drop),
    }
}

impl Lsm {
    /// Loads and proves the programs, or reuses the pinned ones. Doesn't change what is judged. Call before any thread starts.
    pub(crate) fn begin(
        backend: Backend,
        on_death: OnDeath,
        asked: Asked,
        directories: &[&Path],
    ) -> Result<Self, Missing> {
        let told = |error: Error| words(&error);
        if backend == Backend::Fanotify {
            clear_left_over().map_err(told)?;
            return Err("guard.toml says backend = \"fanotify\"".into());
        }
        let pins = Pins::default();
        let found = match on_death {
            OnDeath::Open => {
                clear_left_over().map_err(told)?;
                None
            }
            OnDeath::Closed => GuardPrograms::open(&pins).or_else(|error| {
                say(&format!(
                    "palisaded: alarm: can't reuse the eBPF programs that another palisaded pinned, loading new ones: {error}"
                ));
                pins.clear().map(|_| None)
            }).map_err(told)?,
        };
        let taken_over = found.is_some();
        let mut programs = match found {
            Some(programs) => programs,
            None => {
                let mut programs = GuardPrograms::load().map_err(|error| {
                    support::absence(&error).map_or_else(|| words(&error), |absence| absence.to_string())
                })?;
                programs.attach().map_err(told)?;
                programs
            }
        };
        programs.exempt_this_process().map_err(told)?;
        let proof = prove(&programs, asked, directories)?;
        let pinned = on_death == OnDeath::Closed;
        if pinned && !taken_over {
            programs.pin(&pins).map_err(told)?;
        }
        let lsm =
            Self { programs, changing: Mutex::default(), pinned, taken_over, proof, told: Mutex::default() };
        lsm.label_own().map_err(|(path, error)| {
            format!(
                "{} has no class ({}): the kernel would refuse files that this host needs",
                path.shown(),
                words(&error)
            )
        })?;
        Ok(lsm)
    }

    /// The mechanism as `status` shows it.
    pub(crate) fn mechanism(&self) -> Mechanism {
        let mode = self.programs.mode();
        let because = match mode {
            Ok(Mode::Off) => format!("nothing is judged until the trust database is ready; {}", self.proof),
            Ok(_) => self.proof.clone(),
            Err(ref error) => words(error),
        };
        let because = if self.pinned {
            format!("{because}; the programs stay in force when palisaded dies")
        } else {
            because
        };
        let in_force = matches!(mode, Ok(Mode::Enforce | Mode::Permissive));
        Mechanism { name: "bpf-lsm".into(), in_force, because }
    }

    /// Refuses, only reports, or (`None`) judges nothing.
    pub(crate) fn set_mode(&self, enforce: Option<bool>) -> Result<(), Error> {
        let _one = self.changing();
        let mode = match enforce {
            None => Mode::Off,
            Some(true) => Mode::Enforce,
            Some(false) => Mode::Permissive,
        };
        if self.programs.mode()? != mode {
            self.programs.set_mode(mode)?;
        }
        Ok(())
    }

    /// Sets which accesses are asked about, and which file systems the settings leave out.
    pub(crate) fn set_scope(&self, asked: Asked, spared: &BTreeSet<(u32, u32)>) -> Result<(), Error> {
        let _one = self.changing();
        self.programs.set_matrix(&matrix(asked), Classes::Keep)?;
        self.programs.spare(spared)
    }

    /// Whether earlier labels must be checked again.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.taken_over
    }

    /// Whether labels stay in force when the guard dies.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Makes every label invalid after the grace time. If labels outlive the guard, the grace time begins only when the files
    /// that the host can't do without have new labels ([`Self::begin_grace`]). A guard that is killed before leaves the earlier
    /// labels in force.
    pub(crate) fn invalidate(&self) {
        let _one = self.changing();
        let grace = if self.pinned { Duration::from_secs(u64::from(u32::MAX)) } else { GRACE };
        if let Err(error) = self.programs.invalidate_after(grace) {
            say(&format!("palisaded: alarm: earlier labels can't be invalidated: {}", words(&error)));
        }
    }

    /// Begins the grace time: the files that the host can't do without have their labels.
    pub(crate) fn begin_grace(&self) {
        let _one = self.changing();
        if self.pinned
            && let Err(error) = self.programs.end_grace(GRACE)
        {
            say(&format!("palisaded: alarm: earlier labels can't be invalidated: {}", words(&error)));
        }
    }

    /// Labels this program again, so that palisaded can be started again.
    pub(crate) fn renew(&self) {
        let _said_at_the_start = self.label_own();
    }

    /// Removes everything: a guard that ends on request leaves nothing in force.
    pub(crate) fn end(&self) {
        let _one = self.changing();
        let ended = self.programs.set_mode(Mode::Off).and_then(|()| Pins::default().clear());
        if let Err(error) = ended {
            say(&format!("palisaded: alarm: the eBPF programs can't be removed: {}", words(&error)));
        }
    }

    /// Labels this program and its libraries.
    fn label_own(&self) -> Result<(), (PathBuf, Error)> {
        let own = std::env::current_exe().ok();
        for path in own_files() {
            let classify = || -> Result<(), ClassifyError> {
                let file = File::open(&path).map_err(ClassifyError::Stat)?;
                // The rules may deny executing the linker, which is among this program's libraries.
                let is_program = own.as_ref() == Some(&path);
                let (class, wanted) = if is_program { (PROGRAM, Use::Execute) } else { (LIBRARY, Use::Map) };
                if self.permits(file.as_fd(), wanted) {
                    Ok(())
                } else {
                    self.programs.classify(file.as_fd(), class)
                }
            };
            match classify() {
                // A package manager changes the file now; fanotify will ask about it when it is started.
                Ok(()) | Err(ClassifyError::Writer | ClassifyError::Changed(_) | ClassifyError::Stat(_)) => {}
                Err(ClassifyError::Map(error)) => return Err((path, error)),
                Err(error) => {
                    let source = std::io::Error::other(words(&error));
                    let error = Error::File { operation: "classify", path: path.clone(), source };
                    return Err((path, error));
                }
            }
        }
        Ok(())
    }

    fn permits(&self, file: BorrowedFd<'_>, wanted: Use) -> bool {
        match self.programs.class_of(file) {
            Ok(Some(PROGRAM)) => true,
            Ok(Some(LIBRARY)) => wanted == Use::Map,
            // The file of the proof keeps its class.
            Ok(Some(_)) => true,
            Ok(None) | Err(_) => false,
        }
    }

    fn changing(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_once(&self, what: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < 100 && told.insert(what.clone()) {
            say(&format!("palisaded: alarm: {what}"));
        }
    }

    /// Sends refusals to the journal until `stop`.
    pub(crate) fn report(&self, engine: &Engine, journal: &SyncSender<Judged>, stop: &AtomicBool) {
        let mut seen: HashMap<(u32, u32, u32, u64), Instant> = HashMap::new();
        let events = self.programs.events(|event| {
            if event.object.number() == PROOF {
                return;
            }
            heal(engine, &event);
            let key = (event.process, event.device.0, event.device.1, event.inode);
            seen.retain(|_, at| at.elapsed() < REPEAT);
            // In permissive mode a program is executed and then mapped in several pieces; one event is enough.
            if seen.len() > 4096 || (event.access == Access::Map && seen.contains_key(&key)) {
                return;
            }
            seen.insert(key, Instant::now());
            engine.counts.denied.one();
            if journal.try_send(said(&event)).is_err() {
                engine.counts.unlogged.one();
            }
        });
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                return self.tell_once(format!("refusals by bpf-lsm can't be reported: {}", words(&error)));
            }
        };
        let mut lost = self.programs.losses().unwrap_or(0);
        while !stop.load(Ordering::Relaxed) {
            if let Err(error) = events.poll(POLL) {
                self.tell_once(format!("refusals by bpf-lsm can't be reported: {}", words(&error)));
                std::thread::sleep(POLL);
            }
            let now = self.programs.losses().unwrap_or(lost);
            engine.counts.unlogged.add(now.saturating_sub(lost));
            lost = now;
        }
    }
}

impl Label for Labels {
    fn permits(&self, file: BorrowedFd<'_>, wanted: Use) -> bool {
        self.0.permits(file, wanted)
    }

    fn give(&self, file: BorrowedFd<'_>, wanted: Use, still: &mut dyn FnMut() -> bool) -> bool {
        let class = if wanted == Use::Execute { PROGRAM } else { LIBRARY };
        let given = self.0.programs.classify_by(file, |_| Ok::<_, ClassifyError>(still().then_some(class)));
        match given {
            Ok(given) => given.is_some(),
            // A process that writes or deletes the file finds that it isn't executed, or fanotify asks about it again.
            Err(ClassifyError::Writer | ClassifyError::Changed(_) | ClassifyError::NotAFile) => false,
            Err(ClassifyError::FileSystem(kind)) => {
                self.0.tell_once(format!(
                    "files on file systems of type {kind:#x} may change without the kernel's notice: bpf-lsm refuses to \
                     execute them (watch.exclude in guard.toml exempts a mount)"
                ));
                false
            }
            Err(error) => {
                self.0.tell_once(words(&error));
                false
            }
        }
    }

    fn take(&self, file: BorrowedFd<'_>) {
        if let Err(error) = self.0.programs.declassify(file) {
            self.0.tell_once(words(&error));
        }
    }

    fn forget(&self) {
        self.0.invalidate();
    }

    fn renew(&self) {
        self.0.renew();
    }
}

/// Every process may execute and map files that have the label for it, and may map memory without a file, because just-in-time
/// compilers are everywhere. No process may do so with files without a label, or with files in memory.
fn matrix(asked: Asked) -> Matrix {
    let mut matrix = Matrix::default();
    for access in Access::ALL {
        matrix.allow(access, SubjectClass::DEFAULT, PROGRAM);
        matrix.allow(access, SubjectClass::DEFAULT, ObjectClass::SPARED);
    }
    matrix.allow(Access::Map, SubjectClass::DEFAULT, LIBRARY);
    matrix.allow(Access::Map, SubjectClass::DEFAULT, ObjectClass::ANONYMOUS);
    if asked == Asked::Execute {
        // fanotify doesn't ask about libraries, so none has a label.
        matrix.allow(Access::Map, SubjectClass::DEFAULT, ObjectClass::UNCLASSIFIED);
    }
    matrix
}

/// Proves that the kernel refuses a file that no process may execute. Afterwards sets the matrix for normal operation.
fn prove(programs: &GuardPrograms, asked: Asked, directories: &[&Path]) -> Result<String, Missing> {
    let told = |error: Error| words(&error);
    let before = programs.mode().map_err(told)?;
    if before != Mode::Enforce {
        let mut everything = Matrix::default();
        for access in Access::ALL {
            for class in [
                PROGRAM,
                LIBRARY,
                ObjectClass::UNCLASSIFIED,
                ObjectClass::ANONYMOUS,
                ObjectClass::MEMORY_FILE,
                ObjectClass::SPARED,
            ] {
                everything.allow(access, SubjectClass::DEFAULT, class);
            }
        }
        programs.set_matrix(&everything, Classes::Keep).map_err(told)?;
        programs.set_mode(Mode::Enforce).map_err(told)?;
    }
    let proof = programs.prove(directories);
    programs.set_mode(before).map_err(told)?;
    programs.set_matrix(&matrix(asked), Classes::Keep).map_err(told)?;
    match proof.map_err(told)? {
        Proof::Refused => Ok("the kernel refused to execute palisaded's test file".into()),
        Proof::Seen => Ok("the kernel reported the exec of palisaded's test file".into()),
        Proof::NotCalled { listed: Some(false) } => Err(palisade_bpf::Absence::NotListed.to_string()),
        Proof::NotCalled { .. } => Err("the kernel loaded the eBPF programs, but doesn't call them".into()),
    }
}

/// Makes fanotify ask again about a file that was refused for want of a label. Otherwise a file without a label for which the
/// kernel answers by itself would be refused for ever, for example after a process opened it for writing and wrote nothing.
fn heal(engine: &Engine, event: &Reported) {
    if !matches!(event.reason, Reason::Never | Reason::Stale) {
        return;
    }
    let Some(path) = &event.path else { return };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The path is as the process sees it. If it leads to another file here, leave that file alone.
    let Ok(file) = rustix::fs::open(path.as_slice(), flags, rustix::fs::Mode::empty()) else { return };
    if rustix::fs::fstat(&file).is_ok_and(|status| status.st_ino == event.inode) {
        engine.ask_again(file.as_fd());
    }
}

/// Turns a refusal into an event.
fn said(reported: &Reported) -> Judged {
    let text = |bytes: &[u8]| {
        let mut text = String::new();
        palisade_guard::watch::line::text(&mut text, bytes);
        text
    };
    let why = match reported.reason {
        Reason::Memory if reported.object == ObjectClass::MEMORY_FILE => "a file in memory",
        Reason::Memory => "memory",
        Reason::Foreign => "on a file system of a user namespace",
        Reason::Writer => "open for writing",
        Reason::Unconfirmed => "being looked at",
        Reason::Stale => "opened under other rules",
        Reason::Never => "not judged yet, or changed since",
        Reason::Classified | Reason::Spared => "its class",
    };
    let operation = if reported.access == Access::Execute { Operation::Execute } else { Operation::Map };
    // The report comes after the refusal, so the process may be gone already.
    let process = Subject::read(reported.process);
    let comm = text(&reported.comm);
    let program = match process.exe() {
        b"?" => comm.clone(),
        exe => text(exe),
    };
    let path = reported.path.as_deref().map_or_else(
        || format!("inode {} of {}:{}", reported.inode, reported.device.0, reported.device.1),
        text,
    );
    let decision = Decision::DenyAudit;
    let line = format!(
        "mechanism=bpf-lsm dec={decision} perm={operation} auid=? pid={} exe={program} : path={path} reason=\"{why}\"",
        reported.process
    );
    let (major, minor) = reported.device;
    let known = reported.inode != 0;
    let guard = Guard { decision, rule: None, trusted: None, file_kind: "?".into(), line, steps: Vec::new() };
    let subject = Asking {
        pid: Some(reported.process),
        uid: Some(reported.uid),
        program,
        comm: Some(comm),
        thread: (reported.thread != reported.process).then_some(reported.thread),
        ..Asking::default()
    };
    let file = Target {
        path,
        device: known.then_some(Device { major, minor }),
        inode: known.then_some(reported.inode),
    };
    let verdict = match reported.verdict {
        Answered::Allowed => Verdict::Allowed,
        Answered::Refused => Verdict::Refused,
        Answered::WouldBeRefused => Verdict::WouldBeRefused,
    };
    // For a process that is gone, use the real user that the kernel reported: that user could start the program.
    let user = if process.is_there() { whose(process.uids()) } else { Some(reported.uid) };
    Judged {
        event: Event::new(
            SystemTime::now(),
            Detail::Guard(guard),
            subject,
            (operation, Object::File(file)),
            (verdict, Enforcer::BpfLsm),
            Why::text(why),
        ),
        syslog: false,
        terminal: process.terminal(),
        user,
    }
}

/// The files of this program and its libraries.
fn own_files() -> BTreeSet<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let executable = fields.nth(1)?.contains('x');
        let path = fields.nth(3)?.trim_start();
        (executable && path.starts_with('/') && !path.ends_with(" (deleted)")).then(|| PathBuf::from(path))
    });
    mapped.chain(std::env::current_exe()).collect()
}

/// An error with its causes.
fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
